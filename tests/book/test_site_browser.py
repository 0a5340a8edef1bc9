"""The site in a real browser, as a reader meets it: every page, wide and light, narrow and dark."""

from __future__ import annotations

import functools
import http.server
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from bookbuild.cli import main
from bookbuild.layout import Layout
from bookbuild.site_links import dead_links
from bookbuild.translation.theme import THEME_STRINGS

pytestmark = pytest.mark.site

BOOK = Layout(Path(__file__).parents[2])
NARROW, WIDE = 390, 1280
GRAVE = ("serious", "critical")


@dataclass
class Visit:
    """What one page showed in one setting."""

    name: str
    overflow: int = 0
    complaints: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    without_alt: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A file server that keeps no log."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def served(folder: Path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def book_url():
    """The book's own site."""
    assert (BOOK.site / "index.html").exists(), "build the book first: make book"
    yield from served(BOOK.site)


POLISH = {"Each row is one more": "Każdy wiersz to o jeden więcej"}
HINDI = {"Counting is cheap": "गिनती सस्ती है"}


@pytest.fixture(scope="module")
def small_url(shared_project, translate):
    """The small book in English, Polish and Hindi, the theme's words included."""
    translate(shared_project, "pl", POLISH)
    translate(shared_project, "hi", HINDI)
    assert main(shared_project.root, ["--model", "smollm2-135m", "--device", "cpu"]) == 0
    yield from served(shared_project.site)


def page_names() -> list[str]:
    return [path.relative_to(BOOK.site).as_posix() for path in sorted(BOOK.site.glob("*/*.html"))]


@pytest.fixture(scope="module")
def visits(browser, book_url) -> list[Visit]:
    """Every page of the book in two settings that differ in everything."""
    seen = []
    for width, scheme in ((WIDE, "light"), (NARROW, "dark")):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        seen += [visit(context, book_url, name, f"{name} at {width}, {scheme}") for name in page_names()]
        context.close()
    return seen


def visit(context, url: str, name: str, setting: str) -> Visit:
    page = context.new_page()
    seen = Visit(setting)
    page.on(
        "console", lambda message: note(seen.complaints, message.text, message.type in ("error", "warning"))
    )
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("response", lambda response: note(seen.complaints, response.url, response.status >= 400))
    page.on(
        "request",
        lambda request: note(seen.strangers, request.url, not request.url.startswith((url, "data:"))),
    )
    page.goto(f"{url}/{name}")
    page.evaluate("window.MathJax?.startup?.promise")
    seen.overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    seen.without_alt = page.eval_on_selector_all(
        "img",
        "all => all.filter(i => !i.alt.trim() && i.getAttribute('role') !== 'presentation').map(i => i.src)",
    )
    seen.violations = grave_violations(page)
    page.close()
    return seen


def note(notes: list[str], text: str, worth_it: bool) -> None:
    if worth_it:
        notes.append(text)


def grave_violations(page: Page) -> list[str]:
    # axe would load style sheets once more, from where their own imports do not resolve.
    found = Axe().run(page, options={"preload": False}).response["violations"]
    return [
        f"{violation['id']}: {node['html'][:120]}"
        for violation in found
        if violation["impact"] in GRAVE
        for node in violation["nodes"]
    ]


def test_pages_load_without_complaints(visits):
    assert {seen.name: seen.complaints for seen in visits if seen.complaints} == {}


def test_pages_ask_nothing_of_other_servers(visits):
    assert {seen.name: seen.strangers for seen in visits if seen.strangers} == {}


def test_pages_fit_their_width(visits):
    assert {seen.name: seen.overflow for seen in visits if seen.overflow > 0} == {}


def test_images_have_alternative_text(visits):
    assert {seen.name: seen.without_alt for seen in visits if seen.without_alt} == {}


def test_pages_are_accessible(visits):
    assert {seen.name: seen.violations for seen in visits if seen.violations} == {}


#: Everything outside the article that a reader sees or hears.
LABELS = """
() => [...document.querySelectorAll("*")].flatMap((node) => [
  ...["title", "aria-label", "placeholder", "data-tooltip", "data-bs-title"].map((name) => node.getAttribute(name)),
  node.closest("article") || node.children.length ? null : node.textContent,
]).filter(Boolean).map((text) => text.trim())
"""


def test_links_inside_the_site_lead_somewhere():
    assert list(BOOK.site.glob("*/index.html"))
    assert dead_links(BOOK.site) == []


def test_search_finds_a_word_of_a_section(browser, book_url):
    page = browser.new_page()
    page.goto(f"{book_url}/en/search.html?q=cache")
    page.wait_for_selector("#search-results li a")
    page.close()


def test_formulas_are_typeset(browser, small_url):
    page = browser.new_page()
    page.goto(f"{small_url}/en/fake.html")
    page.wait_for_selector("mjx-container")
    page.close()


@pytest.mark.parametrize(("locale", "expected"), [("pl-PL", "pl"), ("en-GB", "en"), ("de-DE", "en")])
def test_the_start_page_picks_the_readers_language(browser, small_url, locale, expected):
    context = browser.new_context(locale=locale)
    page = context.new_page()
    page.goto(f"{small_url}/")
    page.wait_for_url(f"{small_url}/{expected}/index.html")
    context.close()


def test_the_start_page_works_without_scripts(browser, small_url):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{small_url}/")
    page.get_by_role("link", name="Polski").click()
    assert page.url == f"{small_url}/pl/index.html"
    context.close()


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_the_language_can_be_switched_in_place(browser, small_url, width):
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.goto(f"{small_url}/en/fake.html#each-row-is-one-more")
    page.locator(".ci-languages summary").click()
    page.get_by_role("link", name="Polski").click()
    assert page.url == f"{small_url}/pl/fake.html#each-row-is-one-more"
    heading = page.locator("#each-row-is-one-more > h2")
    assert heading.inner_text().startswith("Każdy wiersz to o\u00a0jeden więcej")
    assert page.locator("html").get_attribute("lang") == "pl"
    page.goto(f"{small_url}/")
    page.wait_for_url(f"{small_url}/pl/index.html")  # the choice is remembered
    context.close()


def test_the_switcher_leads_to_the_section_in_view(browser, small_url):
    page = browser.new_page(viewport={"width": WIDE, "height": 300})
    page.goto(f"{small_url}/en/fake.html")
    page.locator("#each-row-is-one-more").evaluate("node => node.scrollIntoView({behavior: 'instant'})")
    # A click of a person does not scroll the page, as Playwright's own would.
    with page.expect_navigation():
        page.locator(".ci-languages a[lang=hi]").evaluate("link => link.click()")
    assert page.url == f"{small_url}/hi/fake.html#each-row-is-one-more"
    page.close()


@pytest.mark.parametrize(
    ("locale", "query", "found"),
    [("hi", "गिनती", True), ("hi", "गीनता", False), ("pl", "więcej", True), ("en", "counting", True)],
)
def test_search_finds_whole_words(browser, small_url, locale, query, found):
    # "गीनता" has the consonants of "गिनती" and other vowels.
    page = browser.new_page()
    page.goto(f"{small_url}/{locale}/search.html?q={query}")
    page.wait_for_function("Search.status?.innerText")
    pages = page.locator("#search-results li a").all_inner_texts()
    assert bool(pages) == found
    page.close()


def test_devanagari_is_shown_even_where_the_system_has_no_font_of_it(browser, small_url):
    page = browser.new_page()
    page.goto(f"{small_url}/hi/fake.html")
    assert page.evaluate(
        "document.fonts.load('16px \"Noto Sans Devanagari\"', 'गिनती').then((all) => all.length)"
    )
    page.close()


def test_no_label_of_the_theme_stays_english(browser, small_url):
    page = browser.new_page()
    page.goto(f"{small_url}/hi/fake.html")
    page.wait_for_selector("button.copybtn", state="attached")
    labels = page.evaluate(LABELS)
    page.close()
    assert [label for label in labels if label in THEME_STRINGS] == []
    assert {"Skip to main content (hi)", "Toggle primary sidebar (hi)", "Copy (hi)"} <= set(labels)


def test_a_table_can_be_scrolled_from_the_keyboard(browser, small_url):
    context = browser.new_context(viewport={"width": NARROW, "height": 900})
    page = context.new_page()
    page.goto(f"{small_url}/en/fake.html")
    table = page.get_by_role("region", name="Rows")
    table.focus()
    assert table.evaluate("node => node === document.activeElement")
    context.close()
