"""Signs that a language's typography asks for, put in by code: authors and translators write plain ones.

English strings of the code get curved apostrophes, which Sphinx gives the prose. French sets a narrow
space before ; ! ? and a full one before : and inside « », none of which may break a line. Polish keeps a
word of one letter with the next. Numbers typed in prose get the locale's own separator of thousands; in
every language a number keeps its unit. Code, mathematics, links, tags and placeholders are left alone,
and so is what a translation has in italics word for word as the English text: the titles of English
papers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from babel import Locale

from .markup import STAND_IN, italics, outside_parts

NO_BREAK = "\u00a0"
NARROW_NO_BREAK = "\u202f"
#: A plain space or one of the two above.
ANY_SPACE = f"[ {NO_BREAK}{NARROW_NO_BREAK}]"
#: Languages that separate thousands with a space.
SPACED_THOUSANDS = ("pl", "sv", "fr")

HIGH_SIGNS = re.compile(rf"(?<=[^\s;!?]){ANY_SPACE}*(?=[;!?]+(?:[\s)»”*_\]{STAND_IN}]|$))")
COLON = re.compile(rf"(?<=[^\s:]){ANY_SPACE}*(?=:(?:[\s*_]|$))")
OPENING = re.compile(rf"«{ANY_SPACE}*")
CLOSING = re.compile(rf"{ANY_SPACE}*»")
ONE_LETTER = re.compile(r"(?<![^\s(„«\"*\u00a0])([aiouwzAIOUWZ]) (?=\S)")
THOUSANDS = re.compile(rf"(?<![\w.,])\d{{1,3}}(?:{ANY_SPACE}\d{{3}})+(?![\w])")
PERCENT = re.compile(r"(?<=\d) (?=%)")
UNIT = re.compile(
    rf"(?<=[\d{STAND_IN}])(\*{{0,2}}) (?=(?:[mµ]?s|[KMGT]i[Bo]|[kMGT]?B|[kMG]o|×)(?:/s)?(?![\w'’]))"
)
APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)|(?<=s)'(?=\s)")
EQUATION = re.compile(rf"(?<!\w)([^\W\d_]|{STAND_IN}) = (?=[\d{STAND_IN}])")


@lru_cache(maxsize=4096)
def typeset(text: str, locale: str, *, source: str = "") -> str:
    """The text with the signs and spaces of the language's typography.

    Args:
        source: the English text that it translates; what both have in italics is English.
    """
    rules = RULES.get(locale, _unbroken)
    english = set(italics(source))
    return outside_parts(text, rules, also=[title for title in italics(text) if title in english])


def _unbroken(text: str) -> str:
    """A number keeps its unit, and a letter what it equals."""
    return EQUATION.sub(rf"\1{NO_BREAK}={NO_BREAK}", UNIT.sub(rf"\1{NO_BREAK}", text))


def _french(text: str) -> str:
    text = HIGH_SIGNS.sub(NARROW_NO_BREAK, text)
    text = COLON.sub(NO_BREAK, text)
    return CLOSING.sub(f"{NO_BREAK}»", OPENING.sub(f"«{NO_BREAK}", text))


def _polish(text: str) -> str:
    return ONE_LETTER.sub(rf"\1{NO_BREAK}", text)


def _numbers(locale: str) -> Callable[[str], str]:
    symbols = Locale.parse(locale).number_symbols
    group = symbols.get("latn", symbols)["group"]

    def change(text: str) -> str:
        text = THOUSANDS.sub(lambda number: re.sub(ANY_SPACE, group, number[0]), text)
        return _unbroken(PERCENT.sub(NO_BREAK, text))

    return change


def _both(first: Callable[[str], str], second: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: second(first(text))


RULES = {locale: _numbers(locale) for locale in SPACED_THOUSANDS}
RULES["en"] = _both(lambda text: APOSTROPHE.sub("’", text), _unbroken)
RULES["fr"] = _both(RULES["fr"], _french)
RULES["pl"] = _both(RULES["pl"], _polish)
