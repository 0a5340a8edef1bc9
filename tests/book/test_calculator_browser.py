"""The calculator of the section fits, in a real browser: the numbers of the Python function, in the page's language."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from playwright.sync_api import Page

from cheap_inference import fits
from cheap_inference.render.words import Words
from cheap_inference.views.calculator import calculator

pytestmark = pytest.mark.site

MODELS = [fits.MODEL_7B, fits.MODEL_13B, fits.MODEL_70B, *fits.open_models()]
ASKED = SimpleNamespace(card_gib=24, bits_per_weight=4.125, cache_bits=16, context=8192)
#: Card in GiB, bits per weight, bits of a cached number, tokens of a user.
SETTINGS = [
    (24, 4.125, 16, 8192),
    (8, 4.125, 16, 1),
    (16, 8, 4, 2048),
    (0.25, 16, 16, 100),
    (4096, 2, 1, 10**7),
]


@pytest.fixture
def page(browser):
    """An empty page that must not meet an error."""
    empty = browser.new_page()
    complaints = []
    empty.on("pageerror", lambda error: complaints.append(str(error)))
    yield empty
    empty.close()
    assert complaints == []


def opened(page: Page, locale: str) -> Page:
    html = calculator(SimpleNamespace(models=ASKED), Words(locale)).data["text/html"]
    page.set_content(f'<html lang="{locale}"><body>{html}</body></html>')
    return page


def fill(page: Page, card, bits, cache, context) -> None:
    for name, value in {"card": card, "bits": bits, "cache": cache, "context": context}.items():
        page.fill(f"input[name={name}]", str(value))


def text(page: Page, row: str) -> str:
    return page.text_content(f'dd[data-row="{row}"]').replace("\u00a0", " ").replace("\u202f", " ")


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_model_gets_the_numbers_of_the_python_function(page, settings):
    card, bits, cache, context = settings
    opened(page, "en")
    fill(page, *settings)
    for place, model in enumerate(MODELS):
        page.select_option("select", index=place)
        card_bytes = round(card * fits.GIB)
        found = fits.fit(
            model,
            card_bytes=card_bytes,
            bits_per_weight=bits,
            context=context,
            cache_bits=cache,
            reserve_bytes=min(fits.RESERVE_BYTES, card_bytes),
        )
        shown = page.eval_on_selector(".ci-calculator", "element => ({...element.dataset})")
        wanted = (found.users, found.tokens, found.weight_bytes, found.room_bytes)
        assert tuple(int(shown[name]) for name in ("users", "tokens", "weights", "room")) == wanted, (
            model.name
        )


def test_the_form_starts_from_this_runs_settings_and_says_what_runs_out(page):
    opened(page, "en")
    assert "It fits." in page.text_content("output")
    page.fill("input[name=card]", "4")
    assert "larger than the card" in page.text_content("output")
    fill(page, 8, 4.125, 16, 100_000)
    assert "of a single user" in page.text_content("output")


@pytest.mark.parametrize(
    ("locale", "tokens", "weights"),
    [("en", "65,378", "6.519 GiB"), ("fr", "65 378", "6,519 Gio"), ("hi", "65,378", "6.519 GiB")],
)
def test_numbers_have_the_form_of_the_language(page, locale, tokens, weights):
    opened(page, locale)
    fill(page, 16, 8, 16, 2048)
    assert (text(page, "tokens"), text(page, "weights")) == (tokens, weights)


def test_a_value_outside_sense_is_named_and_nothing_is_computed(page):
    opened(page, "en")
    page.fill("input[name=bits]", "0")
    assert "outside what makes sense" in page.text_content("output")
    assert not page.is_visible("dl")
