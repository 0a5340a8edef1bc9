"""The glossary in alphabetical order: in each language its own."""

from __future__ import annotations

import re
import unicodedata

#: The page whose entries are put in order.
GLOSSARY = "glossary"
ENTRY = re.compile(r"^\*\*.+\n: .+$", re.MULTILINE)
LATIN = "abcdefghijklmnopqrstuvwxyz"
#: Alphabets with letters of their own; everywhere else a letter with an accent counts as the plain one.
ALPHABETS = {"pl": "aąbcćdeęfghijklłmnńoópqrsśtuvwxyzźż", "sv": LATIN + "åäö"}


def in_order(markdown: str, locale: str) -> str:
    """The page with its entries, a term in bold and a line that explains it, in the language's order."""
    entries = iter(sorted(ENTRY.findall(markdown), key=lambda entry: order_key(entry.split("\n")[0], locale)))
    return ENTRY.sub(lambda _: next(entries), markdown)


def order_key(term: str, locale: str) -> list[tuple[int, int]]:
    """A key to sort by: signs and digits, then the alphabet, then other scripts by code point."""
    alphabet = ALPHABETS.get(locale, LATIN)
    plain = unicodedata.normalize("NFC", re.sub(r"[*`]", "", term).casefold())
    return [_place(letter, alphabet) for letter in plain]


def _place(letter: str, alphabet: str) -> tuple[int, int]:
    if letter not in alphabet:
        letter = unicodedata.normalize("NFD", letter)[0]
    if letter in alphabet:
        return 1, alphabet.index(letter)
    return (2 if unicodedata.category(letter)[0] in "LM" else 0), ord(letter)
