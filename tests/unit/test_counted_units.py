"""Units that count things stand in the plural form of their number, and names in a list of the language."""

import pytest

from cheap_inference.claims import load
from cheap_inference.claims_file import Claim
from cheap_inference.render.counted import counted
from cheap_inference.render.words import Words
from cheap_inference.settings import LOCALES
from cheap_inference.views.verdicts import chapter_value

#: Units of claims that count nothing.
UNCOUNTED = {"", "ratio", "perplexity"}


def plain(text):
    return text.replace("\u00a0", " ").replace("\u202f", " ")


@pytest.mark.parametrize(
    ("locale", "unit", "texts"),
    [
        ("en", "positions", ["0 positions", "1 position", "2 positions", "5 positions", "22 positions"]),
        ("pl", "positions", ["0 pozycji", "1 pozycja", "2 pozycje", "5 pozycji", "22 pozycje"]),
        ("pl", "levels", ["0 poziomów", "1 poziom", "2 poziomy", "5 poziomów", "22 poziomy"]),
        ("pl", "requests", ["0 żądań", "1 żądanie", "2 żądania", "5 żądań", "22 żądania"]),
        ("hi", "levels", ["0 level", "1 level", "2 levels", "5 levels", "22 levels"]),
        ("sv", "levels", ["0 nivåer", "1 nivå", "2 nivåer", "5 nivåer", "22 nivåer"]),
        ("fr", "levels", ["0 niveau", "1 niveau", "2 niveaux", "5 niveaux", "22 niveaux"]),
    ],
)
def test_a_count_unit_has_the_form_of_its_number(locale, unit, texts):
    assert [plain(Words(locale).quantity(value, unit)) for value in (0, 1, 2, 5, 22)] == texts


@pytest.mark.parametrize(
    ("locale", "texts"),
    [
        ("en", ["0.500 tokens", "1.43 tokens", "18.5 tokens"]),
        ("pl", ["0,500 tok.", "1,43 tok.", "18,5 tok."]),  # a case that no whole number has
        ("sv", ["0,500 tokens", "1,43 tokens", "18,5 tokens"]),
        ("fr", ["0,500 token", "1,43 token", "18,5 tokens"]),
    ],
)
def test_a_fraction_has_the_form_that_the_language_gives_it(locale, texts):
    assert [plain(Words(locale).quantity(value, "tokens")) for value in (0.5, 1.43, 18.5)] == texts


def test_a_negative_count_has_the_form_of_its_amount():
    assert [plain(Words("en").quantity(value, "questions")) for value in (-1, -2)] == [
        "−1 question",
        "−2 questions",
    ]


def test_the_number_and_what_it_counts_stay_on_one_line():
    assert Words("pl").quantity(1234, "bytes") == "1\u00a0234\u00a0bajty"


@pytest.mark.parametrize("locale", LOCALES)
def test_every_unit_of_a_claim_is_counted_or_known_not_to_be(locale):
    units = {claim.unit for claim in load()}
    assert {unit for unit in units if counted(Words(locale), unit, 1) is None} == UNCOUNTED & units


@pytest.mark.parametrize(("locale", "text"), [("en", "1 question"), ("pl", "1 pytanie"), ("sv", "1 fråga")])
def test_the_chapters_value_is_counted_too(locale, text):
    claim = Claim("a.b", "a", "model", "It is so.", "below", 4, "questions", chapter_value=1)
    assert plain(chapter_value(claim, Words(locale))) == text


@pytest.mark.parametrize(
    ("locale", "text"),
    [
        ("en", "*a, b*, *c*, and *d*"),
        ("pl", "*a, b*, *c* i\u00a0*d*"),
        ("hi", "*a, b*, *c* और *d*"),
        ("sv", "*a, b*, *c* och *d*"),
        ("fr", "*a, b*, *c* et *d*"),
    ],
)
def test_names_are_listed_as_the_language_lists(locale, text):
    assert Words(locale).listed(["*a, b*", "*c*", "*d*"]) == text


def test_lists_of_one_and_of_none():
    assert (Words("pl").listed(["a"]), Words("pl").listed([])) == ("a", "")
