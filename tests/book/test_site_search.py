"""The search page of the site, in every language: whole words, as the language writes and inflects them."""

from __future__ import annotations

import json
import re

import pytest

from cheap_inference.settings import LOCALES
from tests.book.book_site import BOOK

pytestmark = pytest.mark.site

#: What is asked for in each language, and a page that must be found by it.
FOUND = [
    ("en", "perplexities", "quality"),
    ("en", "speculative decoding", "speculative"),
    ("en", "preempted", "paged-cache"),
    ("pl", "rozkładu", "distillation"),
    ("pl", "dekodowanie spekulatywne", "speculative"),
    ("pl", "perpleksji", "quality"),
    ("hi", "अंदाज़ा", "speculative"),
    ("hi", "त्रुटि", "weight-quantization"),
    ("hi", "गिनती", "kv-cache"),
    ("sv", "fördelningar", "distillation"),
    ("sv", "spekulativ avkodning", "speculative"),
    ("sv", "perplexiteten", "quality"),
    ("fr", "distributions", "distillation"),
    ("fr", "décodage spéculatif", "speculative"),
    ("fr", "mémoire", "peak-memory"),
]
FINISHED = "Search.status?.innerText"
#: The last word of a column's heading, and the first of the unit under it.
HEADING_AND_UNIT = re.compile(r'(\w+)<br>\s*<span class="unit">(\w\w+)')


def found_by(page) -> set[str]:
    """The names of the pages that a search has found, once it is over."""
    page.wait_for_function(FINISHED)
    links = page.locator("#search-results li a").evaluate_all(
        "all => all.map((link) => new URL(link.href).pathname.split('/').at(-1))"
    )
    return {link.removesuffix(".html") for link in links}


@pytest.mark.parametrize(("locale", "query", "wanted"), FOUND)
def test_a_search_finds_what_it_must(page, book_url, locale, query, wanted):
    page.goto(f"{book_url}/{locale}/search.html?q={query}")
    assert wanted in found_by(page)


@pytest.mark.parametrize("query", ["गीनता", "त्रूटी"])
def test_the_same_consonants_with_other_vowels_are_another_word(page, book_url, query):
    page.goto(f"{book_url}/hi/search.html?q={query}")
    assert found_by(page) == set()


@pytest.mark.parametrize("locale", LOCALES)
def test_a_reader_searches_from_any_page(page, book_url, locale):
    (query, wanted), *_ = ((query, wanted) for code, query, wanted in FOUND if code == locale)
    page.goto(f"{book_url}/{locale}/index.html")
    page.keyboard.press("Control+k")
    page.keyboard.type(query)
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=*")
    found_by(page)
    page.locator(f'#search-results a[href^="{wanted}.html"]').first.click()
    page.wait_for_url(f"{book_url}/{locale}/{wanted}.html*")


@pytest.mark.parametrize("locale", ["pl", "hi"])  # words are in the index as they are written
def test_a_heading_and_its_unit_are_two_words(locale):
    index = (BOOK.site / locale / "searchindex.js").read_text(encoding="utf-8")
    words = json.loads(index[index.index("{") : index.rindex("}") + 1])["terms"]
    pages = [path.read_text(encoding="utf-8") for path in sorted((BOOK.site / locale).glob("*.html"))]
    pairs = {
        (heading.lower(), unit.lower()) for page in pages for heading, unit in HEADING_AND_UNIT.findall(page)
    }
    assert any(heading in words for heading, _ in pairs)
    assert [heading + unit for heading, unit in sorted(pairs) if heading + unit in words] == []
