"""Every page of the site in a real browser, in every language: one visit, narrow and dark, then wide and light."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from playwright.sync_api import Page

from bookbuild.contents import read_contents
from bookbuild.site_links import dead_links
from bookbuild.translation.apply import Translator
from cheap_inference.settings import LOCALES, SOURCE_LOCALE
from tests.book.accessibility import grave_violations
from tests.book.book_site import BOOK, LABELS, NARROW, WIDE

pytestmark = pytest.mark.site

CONTENTS = read_contents(BOOK.root)
NAMES = sorted([*CONTENTS.sections, *CONTENTS.pages, "search"])

#: Until fonts and formulas are there, and nothing is on its way from one colour to another.
SETTLED = """
async () => {
  await Promise.all([document.fonts.ready, window.MathJax?.startup?.promise]);
  document.getAnimations().forEach((each) => each.finish());
  return true;
}
"""
#: What one look at the page finds wrong with it, by kind.
WRONG = """
() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const named = (nodes) => nodes.map((node) => node.outerHTML.slice(0, 120));
  const torn = (heading) => {
    const word = document.createRange();
    const texts = document.createTreeWalker(heading, NodeFilter.SHOW_TEXT);
    for (let text; (text = texts.nextNode()); )
      for (const found of text.data.matchAll(/[\\p{L}\\p{M}\\p{N}]+/gu)) {
        word.setStart(text, found.index);
        word.setEnd(text, found.index + found[0].length);
        if (new Set([...word.getClientRects()].map((box) => box.top)).size > 1) return true;
      }
    return false;
  };
  const overflow = document.documentElement.scrollWidth - innerWidth;
  return {
    "wider than the screen": overflow > 0 ? [`${overflow} px`] : [],
    "image not loaded": named(all("img").filter((image) => !(image.complete && image.naturalWidth))),
    "image without alternative text": named(
      all("img").filter((image) => !image.alt.trim() && image.getAttribute("role") !== "presentation")
    ),
    "formula not typeset": named(
      all(".math").filter((math) => !math.querySelector("mjx-container") || math.querySelector("mjx-merror"))
    ),
    "caption cut": named(
      all(".ci-table caption").filter((node) => node.offsetWidth > node.closest(".ci-table").clientWidth)
    ),
    "heading of a column torn": named(all(".ci-table thead th").filter(torn)),
  };
}
"""
LANGUAGES = """
() => [document.documentElement.lang, ...[...document.querySelectorAll("link[rel=alternate][hreflang]")]
  .map((link) => `${link.hreflang} ${link.href}`)]
"""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("locale", LOCALES)
def test_a_page_is_sound(page, book_url, locale, name):
    with overheard(page, book_url) as wrong:
        page.goto(f"{book_url}/{locale}/{name}.html")
        # Colours are those of the theme, in every language: one is looked at in the dark, all are in the light.
        look(page, wrong, colours=locale == SOURCE_LOCALE)
        wrong["language"] += set(page.evaluate(LANGUAGES)) ^ {
            locale,
            *(f"{code} {book_url}/{code}/{name}.html" for code in LOCALES),
        }
        wrong["English label"] += sorted(english_labels(locale) & set(page.evaluate(LABELS)))
        # In this order: the theme gives what can be scrolled its tab stops when a page is loaded.
        page.set_viewport_size(WIDE)
        page.emulate_media(color_scheme="light")
        page.wait_for_function("document.documentElement.dataset.theme === 'light'")
        look(page, wrong)
    assert {kind: found for kind, found in wrong.items() if found} == {}


@contextmanager
def overheard(page: Page, url: str) -> Iterator[defaultdict[str, list[str]]]:
    """What the page complains of, and asks of other servers."""
    wrong = defaultdict(list)

    def note(kind: str, text: str, is_wrong: bool = True) -> None:
        wrong[kind] += [text] if is_wrong else []

    listeners = {
        "console": lambda said: note("console", said.text, said.type in ("error", "warning")),
        "pageerror": lambda error: note("script", str(error)),
        "response": lambda answer: note("not found", answer.url, answer.status >= 400),
        "requestfailed": lambda request: note("not found", request.url),
        "request": lambda request: note("elsewhere", request.url, not request.url.startswith((url, "data:"))),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    try:
        yield wrong
    finally:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)


def look(page: Page, wrong: defaultdict[str, list[str]], *, colours: bool = True) -> None:
    """Add what is wrong with the page as it is shown now."""
    page.wait_for_function(SETTLED)
    for kind, found in page.evaluate(WRONG).items():
        wrong[kind] += found
    wrong["axe"] += grave_violations(page, colours=colours)


@cache
def english_labels(locale: str) -> set[str]:
    """Labels of the theme that read otherwise in this language."""
    if locale == SOURCE_LOCALE:
        return set()
    return {label for label, own in Translator(BOOK, locale).labels().items() if label != own}


def test_the_site_has_every_page_in_every_language():
    found = {path.relative_to(BOOK.site).as_posix() for path in BOOK.site.glob("*/*.html")}
    assert found == {f"{locale}/{name}.html" for locale in LOCALES for name in NAMES}


def test_links_inside_the_site_lead_somewhere():
    assert list(BOOK.site.glob("*/index.html"))
    assert dead_links(BOOK.site) == []


def test_a_wide_table_is_scrolled_from_the_keyboard_and_keeps_its_caption_in_view(page, book_url):
    page.set_viewport_size(NARROW)
    page.goto(f"{book_url}/en/fits.html")
    regions = page.get_by_role("region")
    place = regions.evaluate_all("all => all.findIndex((each) => each.scrollWidth > each.clientWidth)")
    table = regions.nth(place)
    table.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("(node) => node.scrollLeft > 0", arg=table.element_handle())
    left = "node => node.getBoundingClientRect().left"
    assert table.locator("caption").evaluate(left) == pytest.approx(table.evaluate(left), abs=1)


def test_a_laptop_shows_tables_and_code_whole_and_a_large_screen_keeps_lines_short(page, book_url):
    page.goto(f"{book_url}/en/prefill-decode.html")
    width = "(node) => node.getBoundingClientRect().width"
    for size in (WIDE, {"width": 1600, "height": 900}):
        page.set_viewport_size(size)
        assert page.locator(".bd-article > section").first.evaluate(width) > 700
        assert page.locator(".bd-article p").first.evaluate(width) <= 47 * 16
