"""The translatable units of a Markdown text, and the text with its units translated.

translate-toolkit's reader finds the units: a heading, a paragraph, an item, a cell of a table, with
links, code and mathematics inside. What it does not know is taken care of here: definition lists,
which it would join to one line, and `<summary>`, which it takes for HTML without words.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

from translate.storage.markdown import MarkdownFile

from cheap_inference.render.markup import has_words, parts

from ..errors import BuildError

#: Turns a unit into its translation.
Lookup = Callable[[str], str]

#: mistletoe, below the reader, keeps its state in module variables, and languages are rendered in threads.
PARSER = threading.Lock()
DEFINITION = re.compile(r"\n: ")
DEFINITION_MARK = "\n\n<!-- definition -->\n\n"
MARKED_DEFINITION = re.compile(r"\n+<!-- definition -->\n+")
SUMMARY = re.compile(r"(?P<open><summary>\s*)(?P<text>.*?)(?P<close>\s*</summary>)", re.DOTALL)
#: A line of raw HTML other than the few forms that this module knows.
STRANGE_HTML = re.compile(r"^(?!</?details>$|<summary>.*</summary>$|<!--.*-->$)<.*$", re.MULTILINE)
#: What a language would write in its own way, in a formula: words, and separators inside numbers.
WORDS_IN_MATHS = re.compile(
    r"\\(?:text|mathrm|mbox|operatorname)"
    r"|(?<![\\A-Za-z])(?<!\\begin\{)(?<!\\end\{)[A-Za-z]{3,}"
    r"|\d(?:[.,]|\{,\})\d"
)
FENCED = re.compile(r"^(```+|~~~+).*?^\1\s*$", re.MULTILINE | re.DOTALL)


def units(markdown: str) -> list[tuple[str, str]]:
    """Every unit with words in it, in order, and the kind of its place ("heading", "item", "cell", ...).

    Raises:
        BuildError: the text has HTML or a formula whose words nobody could translate.
    """
    _require_translatable(FENCED.sub("", markdown))
    placed, cursor = [], 0
    for unit in _read(markdown, lambda text: text).units:
        # A text laid out anew by the reader is not found: it stands where the one before it stands.
        cursor = max(cursor, markdown.find(unit.source, cursor))
        placed.append((cursor, unit.source, _kind(unit.getdocpath())))
    placed += [(found.start(), found["text"], "summary") for found in SUMMARY.finditer(markdown)]
    placed.sort(key=lambda unit: unit[0])
    return [(text, kind) for _, text, kind in placed if has_words(text)]


def _require_translatable(text: str) -> None:
    strange = STRANGE_HTML.search(text)
    if strange:
        raise BuildError(f"Words inside HTML cannot be translated: write {strange[0]!r} as Markdown.")
    for kind, part in parts(text):
        if kind == "maths" and WORDS_IN_MATHS.search(part):
            raise BuildError(
                f"Words and separators of numbers inside a formula cannot be translated: {part!r}. "
                "Use symbols, and say in the sentence what they are."
            )


def translated(markdown: str, lookup: Lookup) -> str:
    """The text with every unit replaced by what `lookup` gives for it; all else as it was."""

    def replaced(text: str) -> str:
        return lookup(text) if has_words(text) else text

    text = MARKED_DEFINITION.sub("\n: ", _read(markdown, replaced).filesrc)
    text = SUMMARY.sub(lambda found: found["open"] + replaced(found["text"]) + found["close"], text)
    return text if markdown.endswith("\n") else text.rstrip("\n")


def _read(markdown: str, callback: Lookup) -> MarkdownFile:
    reader = MarkdownFile(
        callback=callback, extract_code_blocks=False, extract_frontmatter=False, no_placeholders=True
    )
    with PARSER:
        reader.parse(DEFINITION.sub(DEFINITION_MARK, markdown).encode())
    return reader


def _kind(path: str) -> str:
    """What a docpath such as `h1[1]/h2[2]/p[1]` says of the unit itself."""
    last = path.rsplit("/", 1)[-1]
    if re.match(r"h\d", last):
        return "heading"
    if re.match(r"c\[", last):
        return "cell"
    return "item" if "li[" in path else "paragraph"
