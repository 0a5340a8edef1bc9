"""Spaces of each language's typography, outside code, mathematics, links and tags."""

from __future__ import annotations

import pytest

from cheap_inference.render.typography import typeset
from cheap_inference.settings import LOCALES

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


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("The chapter's shape", "The chapter’s shape"),
        ("the products' actual time", "the products’ actual time"),
        ("plain decoding's**, in 12", "plain decoding’s**, in 12"),
        ("`page's` and 'single' marks", "`page's` and 'single' marks"),
    ],
)
def test_english_apostrophes(plain, expected):
    assert typeset(plain, "en") == expected
    assert typeset(expected, "en") == expected


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("{x} s, 3 ms", f"{{x}}{FULL}s, 3{FULL}ms"),
        ("**15.6** GiB, 16 GiB.", f"**15.6**{FULL}GiB, 16{FULL}GiB."),
        ("40 GB/s, 3 Go, 16 Gio", f"40{FULL}GB/s, 3{FULL}Go, 16{FULL}Gio"),
        ("`x` s’exécute", "`x` s’exécute"),
        ("{n} × 10", f"{{n}}{FULL}× 10"),
        ("γ = 4, $c$ = {c}", f"γ{FULL}={FULL}4, $c${FULL}={FULL}{{c}}"),
        ("4 steps, 5 slots, 2 Bände", "4 steps, 5 slots, 2 Bände"),
        ("`4 s`, $4 s$", "`4 s`, $4 s$"),
    ],
)
def test_a_number_keeps_its_unit_in_every_language(locale, plain, expected):
    assert typeset(plain, locale) == expected
    assert typeset(expected, locale) == expected


@pytest.mark.parametrize(
    ("locale", "english", "translation", "expected"),
    [
        (
            "fr",
            "Shazeer, *Decoding: One Write-Head Is All?*, 2019.",
            "Shazeer, *Decoding: One Write-Head Is All?*, 2019 : voir ici.",
            f"Shazeer, *Decoding: One Write-Head Is All?*, 2019{FULL}: voir ici.",
        ),
        (
            "pl",
            "Yu and others, *Orca: A Distributed System*, 2022.",
            "Yu i in., *Orca: A Distributed System*, 2022.",
            f"Yu i{FULL}in., *Orca: A Distributed System*, 2022.",
        ),
        ("fr", "*so: it is*", "*donc : voilà*", f"*donc{FULL}: voilà*"),
        ("fr", "**Fact: so**, *a?*", "**Fact: so**, *a?* !", f"**Fact{FULL}: so**, *a?*{NARROW}!"),
        ("fr", "*LLM.int8(): 8-bit* in `a`", "*LLM.int8(): 8-bit* : `a`", f"*LLM.int8(): 8-bit*{FULL}: `a`"),
        ("pl", "*Roofline: A Model* of $a$", "w *Roofline: A Model* $a$", f"w{FULL}*Roofline: A Model* $a$"),
        ("sv", "*1 234 Titles* of 1,234", "*1 234 Titles* av 1 234", f"*1 234 Titles* av 1{FULL}234"),
    ],
)
def test_a_title_in_english_keeps_its_english_spaces(locale, english, translation, expected):
    assert typeset(translation, locale, source=english) == expected
    assert typeset(expected, locale, source=english) == expected


def test_languages_without_rules_are_left_alone():
    for locale in ("en", "hi"):
        assert typeset("A ; 1 234 ?", locale) == "A ; 1 234 ?"
