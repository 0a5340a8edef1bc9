"""The glossary stands in the alphabetical order of each language."""

import pytest

from bookbuild.glossary import ENTRY, in_order, order_key
from bookbuild.translation.apply import Translator
from cheap_inference.settings import LOCALES


@pytest.mark.parametrize(
    ("locale", "terms"),
    [
        ("en", ["429 and more", "batch", "copy on write", "MAC", "Server-Sent Events", "slot"]),
        ("pl", ["lód", "łódź", "mapa", "ósemka", "paczka", "ściana", "token", "zapis", "źródło", "żądanie"]),
        ("sv", ["ankomst", "omgång", "zoner", "åtkomst", "ämne", "öppen"]),
        ("fr", ["écart", "échelle", "embedding", "étape", "étiquette", "exact"]),
        ("hi", ["batch", "token", "औसत", "फैलाव", "शोर"]),
    ],
)
def test_terms_are_ordered_by_the_alphabet_of_the_language(locale, terms):
    backwards = terms[::-1]
    assert sorted(backwards, key=lambda term: order_key(f"**{term}**", locale)) == terms


def test_marks_do_not_count():
    assert order_key("**`token`, or so**", "en") == order_key("Token, or so", "en")


def test_entries_keep_their_explanations_and_all_else_stays():
    page = "# Words\n\n**öppen**\n: Not shut.\n\n**acceptans**\n: A share.\n\nThe end.\n"
    swapped = "# Words\n\n**acceptans**\n: A share.\n\n**öppen**\n: Not shut.\n\nThe end.\n"
    assert in_order(page, "sv") == swapped
    assert in_order("# Words\n\nNone.\n", "sv") == "# Words\n\nNone.\n"


@pytest.mark.parametrize("locale", LOCALES)
def test_the_books_glossary_has_every_entry_once_and_in_order(repository, locale):
    source = (repository.pages / "glossary.md").read_text(encoding="utf-8")
    translated = Translator(repository, locale).markdown(source)
    found = ENTRY.findall(in_order(translated, locale))
    assert sorted(found) == sorted(ENTRY.findall(translated))
    assert len(found) == source.count("\n: ")
    keys = [order_key(entry.split("\n")[0], locale) for entry in found]
    assert keys == sorted(keys)


def test_the_english_source_is_in_order(repository):
    source = (repository.pages / "glossary.md").read_text(encoding="utf-8")
    assert in_order(source, "en") == source
