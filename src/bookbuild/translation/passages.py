"""The passages that the section languages counts: paragraphs of the book itself, in every language.

`book/locale/passages.toml` says which paragraphs; their texts stand in the package, because a notebook that is
read alone has no book around it. The check compares the two.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cheap_inference.passages import FILE, read
from cheap_inference.records import write_atomically
from cheap_inference.settings import SOURCE_LOCALE

from ..errors import BuildError
from ..layout import Layout
from .apply import Translator
from .messages import COMMON, Template
from .plain import plain_text
from .sources import prose_template

#: The declaration, beside the catalogues.
DECLARED = "passages.toml"
COMMAND = "python scripts/translations.py passages"
WORD = "word"
HEADER = f"""\
# Passages of this book in its languages, one line each: the paragraphs that book/locale/{DECLARED} names.
# Written by {COMMAND}
"""
#: By passage and language, in the file's order; the single word is the passage WORD.
Texts = dict[tuple[str, str], str]


@dataclass(frozen=True)
class Declared:
    """A passage: paragraphs of one page in their order, each by the words that it begins with in English."""

    name: str
    page: str
    begins: tuple[str, ...]


@dataclass(frozen=True)
class Declaration:
    """The passages that are wanted, and a word by language; its languages are those of the passages."""

    words: Mapping[str, str]
    passages: tuple[Declared, ...]


def write_passages(layout: Layout) -> Path:
    """Write the passages of all languages into the package; return the file.

    Raises:
        BuildError: nothing is declared, a paragraph is not found or not translated, or it is more than words.
        UserError: a text cannot stand in the file.
    """
    declaration = _declaration(layout)
    if declaration is None:
        raise BuildError(
            f"{DECLARED} beside the catalogues is missing: it says which paragraphs are passages."
        )
    texts, errors = _collected(layout, declaration)
    if errors:
        raise BuildError(next(iter(errors.values())))
    content = _as_toml(texts)
    read(content)
    write_atomically(_file(layout), content)
    return _file(layout)


def passage_problems(layout: Layout) -> list[str]:
    """Where the passages in the package are not the book's paragraphs, a line for each and language.

    There are none where no passages are declared.
    """
    try:
        declaration = _declaration(layout)
    except BuildError as error:
        return [str(error)]
    if declaration is None:
        return []
    texts, errors = _collected(layout, declaration)
    stored = _stored(_file(layout))
    shown = _file(layout).relative_to(layout.root).as_posix()
    mend = f"run {COMMAND}, then measure the section languages again"
    found = [
        f"{shown}: passage '{name}', {language}: not what the book says: {mend}"
        for name, language in dict.fromkeys([*texts, *stored])
        if (name, language) not in errors and stored.get((name, language)) != texts.get((name, language))
    ]
    if not found and not errors and list(stored) != list(texts):
        found = [f"{shown}: the passages stand in another order than declared: {mend}"]
    return [*dict.fromkeys(errors.values()), *found]


def _declaration(layout: Layout) -> Declaration | None:
    path = layout.translations / DECLARED
    if not path.exists():
        return None
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        passages = [Declared(p["name"], p["page"], tuple(p["begins"])) for p in content["passage"]]
        return Declaration(dict(content[WORD]), tuple(passages))
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise BuildError(
            f"{DECLARED} beside the catalogues needs a table 'word' and tables 'passage' with name, page and "
            f"begins ({error}): correct it."
        ) from error


def _collected(layout: Layout, declaration: Declaration) -> tuple[Texts, Texts]:
    """The texts; and for those that could not be had, why not."""
    template = prose_template(layout)
    translators = [Translator(layout, language) for language in declaration.words]
    texts: Texts = {(WORD, language): word for language, word in declaration.words.items()}
    errors: Texts = {}
    for passage in declaration.passages:
        for translator in translators:
            try:
                texts[passage.name, translator.locale] = _text(passage, template, translator)
            except BuildError as error:
                errors[passage.name, translator.locale] = f"passage '{passage.name}': {error}"
    return texts, errors


def _text(passage: Declared, template: Template, translator: Translator) -> str:
    """A passage in a language, as staging has its paragraphs."""
    if translator.locale != SOURCE_LOCALE and not translator.has_catalogue:
        raise BuildError(f"There is no catalogue of the language {translator.locale!r}.")
    return " ".join(plain_text(translator.unit(unit)) for unit in _paragraphs(passage, template))


def _paragraphs(passage: Declared, template: Template) -> list[str]:
    """The English units of a passage."""
    messages = [*template.get(passage.page, []), *template.get(COMMON, [])]
    found = []
    for words in passage.begins:
        units = [m.text for m in messages if m.note == "paragraph" and m.text.startswith(words)]
        if len(units) != 1:
            raise BuildError(
                f"{len(units) or 'no'} paragraphs of the page '{passage.page}' begin with “{words}”, and one should: "
                f"correct {DECLARED} beside the catalogues, then run {COMMAND}"
            )
        found += units
    return found


def _file(layout: Layout) -> Path:
    return layout.strings.parent / FILE


def _stored(path: Path) -> Texts:
    """What the file holds; nothing where it cannot be read, so that all of it is to be written."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        tables = [{"name": WORD, **content[WORD]}, *content["passage"]]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError):
        return {}
    return {(t.get("name"), key): text for t in tables for key, text in t.items() if key != "name"}


def _as_toml(texts: Texts) -> str:
    """The file's content; a JSON string is a basic string of TOML."""
    tables: dict[str, list[str]] = {}
    for (name, language), text in texts.items():
        head = [f"[{WORD}]"] if name == WORD else ["[[passage]]", f'name = "{name}"']
        tables.setdefault(name, head).append(f"{language} = {json.dumps(text, ensure_ascii=False)}")
    return "\n".join([HEADER, *("\n".join([*lines, ""]) for lines in tables.values())])
