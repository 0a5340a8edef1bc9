"""One text in every language of the book: passages of its own prose, side by side.

A file holds them, since a notebook that is read alone has no book around it; `scripts/translations.py passages`
takes them from the book. Spaces stand in it exactly as a tokenizer is to see them.
"""

from __future__ import annotations

import tomllib
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from .errors import UserError

#: The language that all others are compared with.
ENGLISH = "en"
FILE = "passages.toml"


@dataclass(frozen=True)
class Parallel:
    """The same passages in several languages.

    `words` holds one word by language, `passages` by language the passages, in the same order for all;
    English comes first.
    """

    words: dict[str, str]
    passages: dict[str, tuple[str, ...]]

    @property
    def languages(self) -> tuple[str, ...]:
        """Language codes, English first."""
        return tuple(self.words)


@cache
def parallel_text() -> Parallel:
    """The book's passages. Raises UserError as `read` does."""
    return read(files(__package__).joinpath("data", FILE).read_text(encoding="utf-8"))


def read(toml: str) -> Parallel:
    """Passages from a file's text: a table `word`, and tables `passage` with a name and one key a language.

    Raises:
        UserError: it is no such file; a passage lacks a language or has another one; a text is empty, is not in
            Unicode's composed form (NFC), or starts or ends with white space.
    """
    try:
        content = tomllib.loads(toml)
        words, tables = dict(content["word"]), [dict(table) for table in content["passage"]]
        names = [table.pop("name") for table in tables]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{FILE} needs a table 'word' and tables 'passage' with a name ({error}): correct it."
        ) from error
    _check_languages(words, names, tables)
    for name, table in zip(("word", *names), (words, *tables), strict=True):
        for language, text in table.items():
            _check_text(f"{name}, {language}", text)
    return Parallel(words, {language: tuple(table[language] for table in tables) for language in words})


def _check_languages(words: dict, names: list, tables: list[dict]) -> None:
    if not tables or len(set(names)) < len(names) or next(iter(words), None) != ENGLISH:
        raise UserError(f"{FILE} needs passages with names of their own, and English as the first language.")
    for name, table in zip(names, tables, strict=True):
        unpaired = sorted(words.keys() ^ table.keys())
        if unpaired:
            raise UserError(
                f"{FILE}: passage {name!r} and 'word' differ in languages: {', '.join(unpaired)}."
            )


def _check_text(where: str, text: object) -> None:
    if not isinstance(text, str) or not text.strip():
        raise UserError(f"{FILE}: {where}: the text is missing.")
    if text != text.strip() or not unicodedata.is_normalized("NFC", text):
        raise UserError(f"{FILE}: {where}: take white space off both ends and store the text as NFC.")
