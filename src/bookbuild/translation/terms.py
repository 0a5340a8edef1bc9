"""The glossary for translators, `book/locale/terms.csv`, and whether a translation keeps to it.

A row has the English term, one column a language, and `match`: a regular expression that finds the
term in English. A row without it is a guide and is not checked. A language's cell lists what may stand
for the term: alternatives between slashes, and a bracketed form beside its native one. Endings are
free: of every word only the stem is compared, without accents, so that inflected forms pass.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cheap_inference.render.markup import words_only

TERMS = "terms.csv"
#: Letters that a word's ending may change, and the shortest stem.
ENDING, STEM = 2, 3
#: Letters of which Unicode gives no decomposition.
PLAIN = str.maketrans("łŁøØđĐ", "lLoOdD")


@dataclass(frozen=True)
class Term:
    """One checked term: how it is found in English, and what may stand for it by language."""

    name: str
    english: re.Pattern
    allowed: dict[str, tuple[str, ...]]


@cache
def read_terms(path: Path) -> tuple[Term, ...]:
    """The checked rows of the glossary; none where there is no file."""
    if not path.exists():
        return ()
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["match"]]
    return tuple(
        Term(
            row["term"],
            re.compile(rf"\b(?:{row['match']})\b", re.IGNORECASE),
            {key: _alternatives(cell) for key, cell in row.items() if key not in ("term", "match", "note")},
        )
        for row in rows
    )


def problems(source: str, translation: str, locale: str, terms: tuple[Term, ...]) -> list[str]:
    """The terms of `source` for which the translation has none of the allowed words."""
    english, wording = words_only(source), plain(words_only(translation, filler=""))
    return [
        f"the term “{term.name}”: {' / '.join(term.allowed[locale])}"
        for term in terms
        if term.allowed.get(locale)
        and term.english.search(english)
        and not any(stem_pattern(phrase).search(wording) for phrase in term.allowed[locale])
    ]


@cache
def stem_pattern(phrase: str) -> re.Pattern:
    """Finds the phrase with any endings, with up to two other words inside it."""
    stems = [re.escape(stem(word)) for word in re.findall(r"[^\W_]+", plain(phrase))]
    return re.compile(r"\w*\W*(?:\w+\W+){0,2}?".join(stems), re.IGNORECASE)


def stem(word: str) -> str:
    """The part of a word that endings leave alone."""
    return word[: max(STEM, len(word) - ENDING)] if word.isascii() else word


def plain(text: str) -> str:
    """The text without accents on Latin letters; Devanagari keeps its signs."""
    decomposed = unicodedata.normalize("NFD", text.translate(PLAIN))
    kept = [sign for sign in decomposed if not "\u0300" <= sign <= "\u036f"]
    return unicodedata.normalize("NFC", "".join(kept))


def _alternatives(cell: str) -> tuple[str, ...]:
    """ "maska (mask) / filtr" allows three phrases; remarks on grammar are no phrases."""
    phrases = []
    for part in cell.split(" / "):
        bracketed = re.findall(r"\(([^()]*)\)", part)
        phrases += [re.sub(r"\([^()]*\)", "", part), *(b for b in bracketed if not re.search(r"\.", b))]
    return tuple(dict.fromkeys(phrase.strip() for phrase in phrases if phrase.strip()))
