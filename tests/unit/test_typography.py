"""Spaces of each language's typography, outside code, mathematics, links and tags."""

from __future__ import annotations

import pytest

from cheap_inference.render.typography import typeset

NARROW, FULL = "\u202f", "\u00a0"


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("Quoi ? Oui ! Non ; fin.", f"Quoi{NARROW}? Oui{NARROW}! Non{NARROW}; fin."),
        ("Quoi?", f"Quoi{NARROW}?"),
        ("Quoi\u00a0? Vraiment ?!", f"Quoi{NARROW}? Vraiment{NARROW}?!"),
        ("Ici : là", f"Ici{FULL}: là"),
        ("**Exact** : une", f"**Exact**{FULL}: une"),
        ("**Exact :** une", f"**Exact{FULL}:** une"),
        ("« Oui » et «non»", f"«{FULL}Oui{FULL}» et «{FULL}non{FULL}»"),
        ("`a ; b` : fin", f"`a ; b`{FULL}: fin"),
        ("$a ; b ? c$ ?", f"$a ; b ? c${NARROW}?"),
        ("[Quoi ?](x.md?a=b;c) !", f"[Quoi{NARROW}?](x.md?a=b;c){NARROW}!"),
        ('<a title="Quoi ?">Oui !</a>', f'<a title="Quoi ?">Oui{NARROW}!</a>'),
        ("https://example.org/?a : b", f"https://example.org/?a{FULL}: b"),
        ("{a:.2f} ; {b} : c", f"{{a:.2f}}{NARROW}; {{b}}{FULL}: c"),
        ("à 10:30, arXiv:2305.13245", "à 10:30, arXiv:2305.13245"),
        ("3 048 positions, 95 %", f"3{NARROW}048 positions, 95{FULL}%"),
    ],
)
def test_french(plain, expected):
    assert typeset(plain, "fr") == expected
    assert typeset(expected, "fr") == expected, "a second time changes nothing"


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("A w domu i z psem", f"A{FULL}w{FULL}domu i{FULL}z{FULL}psem"),
        ("(w skrócie)", f"(w{FULL}skrócie)"),
        ("w `kodzie` i $w i$", f"w{FULL}`kodzie` i{FULL}$w i$"),
        ("o [tym](o.md)", f"o{FULL}[tym](o.md)"),
        ("z {n} tokenów", f"z{FULL}{{n}} tokenów"),
        ("„w domu”", f"„w{FULL}domu”"),
        ("oraz innych", "oraz innych"),
        ("1 234 567,8 bajtów", f"1{FULL}234{FULL}567,8 bajtów"),
        ("w 2017 300 osób", f"w{FULL}2017 300 osób"),
    ],
)
def test_polish(plain, expected):
    assert typeset(plain, "pl") == expected
    assert typeset(expected, "pl") == expected


def test_languages_without_rules_are_left_alone():
    for locale in ("en", "hi"):
        assert typeset("A ; 1 234 ?", locale) == "A ; 1 234 ?"
