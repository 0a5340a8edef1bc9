"""The strings that code shows to readers: gettext calls, units, claims, and the book's configuration."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import yaml

from cheap_inference import claims
from cheap_inference.render.words import SYMBOLS

from .messages import Message


def of_python(source: str, *, module: str) -> list[Message]:
    """Messages of `gettext` and `ngettext` calls, and units that are words, in the order of the source."""
    tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            note = f"{module}.{_function(tree, node)}".rstrip(".")
            texts = [argument.value for argument in node.args if _is_text(argument)]
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if name == "gettext" and texts:
                found.append((_place(node), Message(texts[0], note=note)))
            if name == "ngettext" and len(texts) == 2:
                found.append((_place(node), Message(*texts, note=note)))
            found += [(_place(node), Message(unit, note=f"{note}, a unit")) for unit in _units(node)]
    return [message for _, message in sorted(found, key=lambda item: item[0])]


def unreadable_calls(source: str) -> Iterator[str]:
    """The gettext calls whose message is no literal: an extraction cannot see what they will be given."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            wanted = {"gettext": 1, "ngettext": 2}.get(node.func.attr, 0)
            if not all(_is_text(argument) for argument in node.args[:wanted]):
                yield ast.unparse(node)


def of_claims() -> dict[str, list[Message]]:
    """Texts of the claims by section; titles of the sections and units under the empty name."""
    messages: dict[str, list[Message]] = {
        "": [Message(t, note="title") for t in claims.section_titles().values()]
    }
    for claim in claims.load():
        messages.setdefault(claim.section, []).append(Message(claim.text, note=f"claim {claim.id}"))
        messages[""] += [
            Message(unit, note="a unit, after a number") for unit in (claim.unit,) if is_word(unit)
        ]
    return messages


def of_configuration(config: str, toc: str) -> list[Message]:
    """The book's title, its footer and the captions of its parts, from `_config.yml` and `_toc.yml`."""
    settings = yaml.safe_load(config)
    captions = [part["caption"] for part in yaml.safe_load(toc).get("parts", []) if "caption" in part]
    texts = [settings["title"], settings["html"]["extra_footer"], *captions]
    return [Message(text, note="title, footer or caption") for text in texts if text]


def is_word(unit: str) -> bool:
    """Whether a unit is a word of a language and no symbol that all languages write alike."""
    return len(unit) > 2 and unit[0].isalpha() and unit not in SYMBOLS


def _units(call: ast.Call) -> list[str]:
    given = [keyword.value for keyword in call.keywords if keyword.arg == "unit"]
    return [value.value for value in given if _is_text(value) and is_word(value.value)]


def _function(tree: ast.Module, call: ast.Call) -> str:
    """The function, or the class, at the top of the module that the call stands in."""
    around = [node for node in tree.body if node.lineno <= call.lineno <= node.end_lineno]
    return getattr(around[0], "name", "") if around else ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(node.value)


def _place(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset
