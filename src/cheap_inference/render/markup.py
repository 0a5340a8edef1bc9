"""The parts of a text that are no words: code, mathematics, links, tags, addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

CODE = r"(?P<code>(?P<ticks>`+)(?:(?!`).)+?(?P=ticks)(?!`))"
MATHS = r"(?P<maths>\$\$.+?\$\$|\$(?!\s)(?:\\.|[^$\\])+?(?<!\s)\$)"
TARGET = r"(?P<target>(?<=\])\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\))"
TAG = r"(?P<tag></?[A-Za-z][^<>]*>|<!--.*?-->)"
ADDRESS = r"(?P<address>https?://[^\s)>\]]+)"
PLACEHOLDER = r"(?P<placeholder>\{[A-Za-z_]\w*(?::[^{}]*)?\})"
ITALICS = re.compile(r"(?<![*\\])\*(?![*\s])[^*]+(?<![*\s])\*(?!\*)")
#: In the order in which they hide one another.
PARTS = re.compile("|".join((CODE, MATHS, TARGET, TAG, ADDRESS, PLACEHOLDER)), re.DOTALL)
#: A character for private use: no text holds it.
STAND_IN = "\ue000"
LETTER = re.compile(r"[^\W\d_]")


def parts(text: str) -> list[tuple[str, str]]:
    """Everything in the text that a translation must keep as it is: kind and wording, in order."""
    return [(found.lastgroup, found[0]) for found in PARTS.finditer(text)]


def words_only(text: str, *, filler: str = " ") -> str:
    """The text with its other parts replaced by `filler`."""
    return PARTS.sub(filler, text)


def has_words(text: str) -> bool:
    """Whether there is anything to translate."""
    return bool(LETTER.search(words_only(text)))


def italics(text: str) -> list[str]:
    """Everything in the text that stands in italics, with its marks."""
    return ITALICS.findall(text)


def outside_parts(text: str, change: Callable[[str], str], *, also: Sequence[str] = ()) -> str:
    """The text with `change` applied to it while one character stands for each part that must stay.

    Args:
        also: more of the text that must stay, word for word.
    """
    pattern = re.compile("|".join([*map(re.escape, also), PARTS.pattern]), PARTS.flags)
    kept = [found[0] for found in pattern.finditer(text)]
    pieces = change(pattern.sub(STAND_IN, text)).split(STAND_IN)
    return "".join(piece + part for piece, part in zip(pieces, [*kept, ""], strict=True))
