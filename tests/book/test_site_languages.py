"""Between the languages of the site: the start page, the switcher, and what each language has of its own."""

from __future__ import annotations

import csv
import re

import pytest
from babel.numbers import format_decimal
from playwright.sync_api import expect

from bookbuild.languages import own_name
from bookbuild.sections import section_ids
from bookbuild.translation.apply import Translator
from cheap_inference.render.typography import typeset
from cheap_inference.render.words import Words
from cheap_inference.settings import LOCALES, SOURCE_LOCALE
from tests.book.book_site import BOOK, LABELS, NARROW, WIDE

pytestmark = pytest.mark.site

TRANSLATED = [locale for locale in LOCALES if locale != SOURCE_LOCALE]
#: A page, and a heading far down on it.
PAGE, HEADING = "paged-cache", "A long answer is dear twice"
(ANCHOR,) = section_ids(f"## {HEADING}")
#: What stands inside numbers: between groups, and before the decimals.
SIGNS = {"en": ",.", "pl": "\u00a0,", "hi": ",.", "sv": "\u00a0,", "fr": "\u202f,"}


@pytest.fixture
def page(browser):
    """The first page of a reader who was never here."""
    context = browser.new_context(viewport=WIDE)
    yield context.new_page()
    context.close()


def expect_section(page, url: str, locale: str) -> None:
    """The page shows the section, in this language."""
    page.wait_for_url(f"{url}/{locale}/{PAGE}.html#{ANCHOR}")
    heading = page.locator(f"#{ANCHOR} > h2")
    assert heading.inner_text().startswith(Translator(BOOK, locale).unit(HEADING))
    assert page.locator("html").get_attribute("lang") == locale
    expect(heading).to_be_in_viewport()


@pytest.mark.parametrize("locale", LOCALES)
def test_the_switcher_keeps_page_and_section_and_the_choice(page, book_url, locale):
    others = [other for other in LOCALES if other != locale]
    for other in others:
        page.goto(f"{book_url}/{locale}/{PAGE}.html#{ANCHOR}")
        page.locator(".ci-languages summary").click()
        page.get_by_role("link", name=own_name(other), exact=True).click()
        expect_section(page, book_url, other)
    page.goto(f"{book_url}/")
    page.wait_for_url(f"{book_url}/{others[-1]}/index.html")


def test_the_switcher_works_on_a_narrow_screen(page, book_url):
    page.set_viewport_size(NARROW)
    page.goto(f"{book_url}/en/{PAGE}.html#{ANCHOR}")
    page.locator(".ci-languages summary").click()
    page.get_by_role("link", name=own_name("pl"), exact=True).click()
    expect_section(page, book_url, "pl")


def test_the_switcher_leads_to_the_section_in_view(page, book_url):
    page.goto(f"{book_url}/en/{PAGE}.html")
    page.locator(f"#{ANCHOR}").evaluate("node => node.scrollIntoView({behavior: 'instant'})")
    # A click of a person does not scroll the page, as Playwright's own would.
    page.locator(".ci-languages a[lang=hi]").evaluate("link => link.click()")
    expect_section(page, book_url, "hi")


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        (["pl-PL"], "pl"),
        (["hi-IN", "en-IN"], "hi"),
        (["sv"], "sv"),
        (["fr-CA"], "fr"),
        (["en-GB"], "en"),
        (["de-DE", "fr-FR", "en"], "fr"),
        (["de-DE"], "en"),
    ],
)
def test_the_start_page_picks_the_readers_language(page, book_url, languages, expected):
    page.add_init_script(f"Object.defineProperty(navigator, 'languages', {{value: {languages}}})")
    page.goto(f"{book_url}/")
    page.wait_for_url(f"{book_url}/{expected}/index.html")


def test_the_start_page_works_without_scripts(browser, book_url):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{book_url}/")
    names = page.get_by_role("link").evaluate_all("all => all.map((link) => link.innerText.split('\\n')[0])")
    assert names == [own_name(locale) for locale in LOCALES]
    page.get_by_role("link", name=own_name("pl")).click()
    assert page.url == f"{book_url}/pl/index.html"
    context.close()


@pytest.mark.parametrize("locale", LOCALES)
def test_numbers_of_a_table_have_the_form_of_the_language(page, book_url, locale):
    with (BOOK.site / "data/kv-cache/model-products.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    counts = ("tokens", "macs_with", "macs_without")
    wanted = [
        [
            *(format_decimal(int(row[name]), locale=locale) for name in counts),
            format_decimal(round(float(row["ratio"]), 1), locale=locale),
        ]
        for row in rows
    ]
    page.goto(f"{book_url}/{locale}/kv-cache.html")
    tables = page.locator(".ci-table tbody").evaluate_all(
        "all => all.map((body) => [...body.rows].map((row) => [...row.cells].map((cell) => cell.textContent)))"
    )
    assert wanted in tables
    assert set(re.sub(r"\d", "", "".join(map("".join, wanted)))) == set(SIGNS[locale])
    if locale == "hi":
        assert re.fullmatch(r"\d{1,2}(,\d\d)+,\d{3}", wanted[0][1])


@pytest.mark.parametrize("locale", TRANSLATED)
def test_labels_of_the_theme_are_in_the_language_of_the_page(page, book_url, locale):
    page.goto(f"{book_url}/{locale}/kv-cache.html")
    page.wait_for_selector("button.copybtn", state="attached")
    own = Translator(BOOK, locale).labels()
    wanted = {own[label] for label in ("Skip to main content", "Toggle primary sidebar", "Copy")}
    assert wanted | {typeset(Words(locale).gettext("Language") + ":", locale)} <= set(page.evaluate(LABELS))


def test_devanagari_is_shown_even_where_the_system_has_no_font_of_it(page, book_url):
    page.goto(f"{book_url}/hi/kv-cache.html")
    assert page.evaluate(
        "document.fonts.load('16px \"Noto Sans Devanagari\"', 'गिनती').then((all) => all.length)"
    )
