"""The scoreboard in a real browser: its filters by mouse and keyboard, its count, and the page without scripts."""

from __future__ import annotations

import json
import shutil

import jsonschema
import pytest
import yaml

from bookbuild.cli import main
from cheap_inference import claims, records
from cheap_inference.quantity import Quantity
from tests.book.accessibility import grave_violations

pytestmark = pytest.mark.site

TOTAL = len(claims.load())
#: Claims of one section, with values that give one verdict each.
FOUND = {
    "kv-cache.tokens-identical": Quantity(True, ""),
    "kv-cache.faster": Quantity(1.1, "ratio", 0.9, 1.3, 9),
    "kv-cache.positions": Quantity(3_049, "positions"),
}
SHOWN_ROWS = ".ci-scoreboard tr[data-kind]:visible"


def keep_record(layout, model, found):
    """A committed record of the first section."""
    run = {
        "id": f"{model}-cuda",
        "model": {"name": model, "title": model.title(), "revision": "r", "sha256": "s"},
        "device": "cuda",
        "machine": {"cpu": "A", "isa": "AVX2", "threads": 2, "memory_bytes": 1},
        "versions": {"torch": "2"},
        "commit": "c",
        "date": "2026-01-02",
    }
    encoded = {name: records.encode(value) for name, value in found.items()}
    record = records.Record("kv-cache", "k", run, {}, {}, encoded)
    records.write(records.path_of(layout.committed_records, run["id"], "kv-cache"), record)


@pytest.fixture(scope="module")
def site(shared_project, repository):
    """The small book with the real scoreboard page, over the records of two more runs."""
    layout = shared_project
    shutil.copyfile(repository.pages / "scoreboard.md", layout.pages / "scoreboard.md")
    toc = yaml.safe_load((layout.root / "_toc.yml").read_text(encoding="utf-8"))
    toc["parts"][-1]["chapters"].append({"file": "scoreboard"})
    (layout.root / "_toc.yml").write_text(yaml.safe_dump(toc), encoding="utf-8")
    keep_record(layout, "first", FOUND)
    keep_record(layout, "second", {})
    assert main(layout.root, ["--model", "smollm2-135m", "--device", "cpu", "--locale", "en"]) == 0
    return layout.site


@pytest.fixture
def page(browser, site):
    """The scoreboard, opened as a file: no server is needed."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    complaints = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto((site / "en" / "scoreboard.html").as_uri())
    yield opened
    opened.close()
    assert complaints == []


def menu(page, name: str):
    return page.get_by_role("combobox", name=name)


def count(page) -> str:
    return page.locator(".ci-filters output").inner_text()


def kinds_shown(page) -> set[str]:
    return set(page.locator(SHOWN_ROWS).evaluate_all("rows => rows.map(row => row.dataset.kind)"))


def test_at_first_all_claims_are_shown_and_counted(page):
    assert page.locator(SHOWN_ROWS).count() == TOTAL
    assert count(page) == f"{TOTAL} of {TOTAL} claims shown"


def test_a_kind_leaves_its_claims_and_the_sections_that_have_some(page):
    menu(page, "Kind").select_option("machine")
    wanted = [claim for claim in claims.load() if claim.kind == "machine"]
    assert kinds_shown(page) == {"machine"}
    assert count(page) == f"{len(wanted)} of {TOTAL} claims shown"
    sections = page.locator(".ci-scoreboard section:visible h2").evaluate_all("all => all.map(h => h.id)")
    assert sections == list(dict.fromkeys(claim.section for claim in wanted))


@pytest.mark.parametrize(
    ("verdict", "shown"),
    [
        ("holds", ["kv-cache.tokens-identical"]),
        ("below-noise", ["kv-cache.faster"]),
        ("fails", ["kv-cache.positions"]),
    ],
)
def test_a_verdict_of_any_run_keeps_a_claim(page, verdict, shown):
    menu(page, "Verdict").select_option(verdict)
    assert page.locator(SHOWN_ROWS).evaluate_all("rows => rows.map(row => row.id)") == shown
    assert count(page) == f"{len(shown)} of {TOTAL} claims shown"


def test_both_menus_together_may_leave_nothing_and_say_so(page):
    menu(page, "Verdict").select_option("holds")
    menu(page, "Kind").select_option("machine")
    assert page.locator(SHOWN_ROWS).count() == 0
    assert count(page) == f"0 of {TOTAL} claims shown"


def test_the_menus_work_from_the_keyboard(page):
    menu(page, "Kind").focus()
    page.keyboard.press("ArrowDown")
    assert kinds_shown(page) == {"exact"}
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert page.locator(SHOWN_ROWS).count() == 1
    assert count(page) == f"1 of {TOTAL} claims shown"


def test_the_count_is_announced(page):
    assert page.locator(".ci-filters output").get_attribute("aria-live") == "polite"


def test_the_page_is_accessible_when_filtered(page):
    menu(page, "Kind").select_option("machine")
    assert grave_violations(page) == []


def test_without_scripts_it_is_a_plain_table(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "en" / "scoreboard.html").as_uri())
    assert page.locator(".ci-filters").is_hidden()
    assert page.locator(SHOWN_ROWS).count() == TOTAL
    context.close()


def test_every_run_has_columns(page):
    headings = page.locator("#kv-cache").locator("xpath=..").locator("th[colspan='2']").all_inner_texts()
    assert headings == ["First on cuda", "Second on cuda", "SmolLM2-135M-Instruct on cpu"]


def test_the_json_beside_the_page_follows_its_schema(site, repository):
    schema = repository.root / "src" / "cheap_inference" / "data" / "scoreboard.schema.json"
    board = json.loads((site / "scoreboard.json").read_text(encoding="utf-8"))
    jsonschema.validate(board, json.loads(schema.read_text(encoding="utf-8")))
    assert [run["id"] for run in board["runs"]] == ["first-cuda", "second-cuda", "smollm2-135m-cpu"]
    text = (site / "en" / "scoreboard.html").read_text(encoding="utf-8")
    assert 'href="../scoreboard.json"' in text
