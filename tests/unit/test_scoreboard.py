"""The scoreboard is made from records alone, in one order, and its page says so in words."""

import json
import re
import subprocess
import sys
from importlib.resources import files

import jsonschema
import pytest

from cheap_inference.claims import VERDICTS, load, section_titles
from cheap_inference.claims_file import KINDS
from cheap_inference.errors import UserError
from cheap_inference.render.words import Words
from cheap_inference.scoreboard import build
from cheap_inference.views.scoreboard import note_words, scoreboard_html

MACHINE = {"cpu": "A", "isa": "AVX2", "threads": 2, "memory_bytes": 8 * 2**30}


def record(section="kv-cache", *, model="smollm2-135m", date="2026-01-02", claims=None, **run):
    described = {
        "id": f"{model}-cpu",
        "model": {"name": model, "title": "A & B", "revision": "r", "sha256": "s", "dtype": "float32"},
        "device": "cpu",
        "machine": MACHINE,
        "versions": {"torch": date},
        "commit": f"commit of {date}",
        "date": date,
    }
    return {
        "schema": 1,
        "section": section,
        "key": "k",
        "run": {**described, **run},
        "settings": {},
        "parts": {},
        "claims": claims or {},
    }


def quantity(value, unit, low=None, high=None, n=1):
    return {"value": value, "unit": unit, "low": low, "high": high, "n": n}


KV_CLAIMS = {
    "kv-cache.tokens-identical": quantity(True, ""),
    "kv-cache.faster": quantity(1.1, "ratio", 0.9, 1.3, 9),
    "kv-cache.score-row-bytes": quantity(16_384, "bytes"),
    "kv-cache.macs-uncached-4096": quantity(2_933_104_836_608, "MACs"),
    "kv-cache.positions": quantity(3_049, "positions"),
}


def entries(board):
    return {entry["id"]: entry for entry in board["claims"]}


def test_the_board_has_the_published_schema():
    board = build([record(claims=KV_CLAIMS)], load())
    assert list(board) == ["schema", "runs", "claims"]
    assert board["schema"] == 1
    assert [list(run) for run in board["runs"]] == [
        ["id", "model", "device", "machine", "versions", "commit", "date"]
    ]
    for entry in board["claims"]:
        assert list(entry) == ["id", "section", "kind", "text", "chapter_value", "unit", "results"]
        assert list(entry["results"]) == ["smollm2-135m-cpu"]
        for result in entry["results"].values():
            assert list(result) == ["value", "verdict", "note"]
            assert result["verdict"] in VERDICTS
    assert [entry["id"] for entry in board["claims"]] == [claim.id for claim in load()]
    assert json.loads(json.dumps(board, allow_nan=False)) == board


def test_results_follow_the_records():
    board = entries(build([record(claims=KV_CLAIMS)], load()))
    found = {name: entry["results"]["smollm2-135m-cpu"] for name, entry in board.items()}
    assert found["kv-cache.tokens-identical"] == {"value": True, "verdict": "holds", "note": ""}
    assert found["kv-cache.faster"] == {"value": 1.1, "verdict": "below-noise", "note": "spread"}
    assert found["kv-cache.positions"]["verdict"] == "fails"
    assert found["kv-cache.macs-ratio"] == {
        "value": None,
        "verdict": "not-measured",
        "note": "not-registered",
    }
    assert found["fits.table"] == {"value": None, "verdict": "not-measured", "note": "no-record"}


def test_the_chapters_value_is_given_in_the_unit_of_the_claim():
    board = entries(build([], load()))
    assert board["cache-size.total-only"]["chapter_value"] == 768 * 2**20
    assert board["weight-quantization.bytes-at-32"]["chapter_value"] == 1_980_000_000
    assert board["kv-cache.crossing-default"]["chapter_value"] is None
    assert board["kv-cache.faster"]["results"] == {}


def test_the_order_of_the_records_does_not_matter():
    records = [
        record(claims=KV_CLAIMS),
        record("fits", date="2026-02-01"),
        record(model="qwen2.5-0.5b", claims=KV_CLAIMS),
    ]
    board = build(records, load())
    assert json.dumps(board) == json.dumps(build(records[::-1], load()))
    assert [run["id"] for run in board["runs"]] == ["qwen2.5-0.5b-cpu", "smollm2-135m-cpu"]


def test_sections_of_a_run_merge_under_the_newest_versions():
    elsewhere = {**MACHINE, "threads": 4}
    [run] = build([record("fits", date="2026-03-01"), record(date="2026-01-01", machine=elsewhere)], load())[
        "runs"
    ]
    assert (run["date"], run["commit"], run["versions"]) == (
        "2026-03-01",
        "commit of 2026-03-01",
        {"torch": "2026-03-01"},
    )
    assert run["machine"] == {**MACHINE, "threads": None}


def test_the_newest_record_of_a_section_counts():
    old = {"kv-cache.tokens-identical": quantity(False, "")}
    new = {"kv-cache.tokens-identical": quantity(True, "")}
    board = entries(
        build([record(date="2026-02-01", claims=new), record(date="2026-01-01", claims=old)], load())
    )
    assert board["kv-cache.tokens-identical"]["results"]["smollm2-135m-cpu"]["verdict"] == "holds"


def test_two_models_under_one_run_are_refused():
    other = record("quality")
    other["run"]["model"] = {**other["run"]["model"], "sha256": "another"}
    with pytest.raises(UserError, match="smollm2-135m-cpu differ in model"):
        build([record(), other], load())


def test_the_chapters_model_is_compared_with_the_chapter():
    measured = {"quality.reference": quantity(23.5, "perplexity"), "quality.nf4": quantity(1.3, "ratio")}
    board = entries(build([record("quality", model="qwen2.5-0.5b", claims=measured)], load()))
    notes = {name: board[name]["results"]["qwen2.5-0.5b-cpu"]["note"] for name in measured}
    assert notes == {"quality.reference": "agrees", "quality.nf4": "differs"}


def test_a_value_that_json_cannot_hold_is_left_out():
    measured = {"quality.int4-per-tensor": quantity(float("inf"), "ratio")}
    board = entries(build([record("quality", claims=measured)], load()))
    assert board["quality.int4-per-tensor"]["results"]["smollm2-135m-cpu"] == {
        "value": None,
        "verdict": "holds",
        "note": "not-finite",
    }


class Marked(Words):
    """English in which every string that went through the catalogue is marked."""

    def gettext(self, message):
        return f"«{message}»" if message else ""

    def ngettext(self, singular, plural, count):
        return f"«{plural}»"


@pytest.fixture
def page():
    return scoreboard_html(build([record(claims=KV_CLAIMS)], load()), Words("en"))


def row_of(page, name):
    return re.search(rf'<tr id="{re.escape(name)}".*?</tr>', page).group()


@pytest.fixture(scope="module")
def schema():
    text = files("cheap_inference").joinpath("data", "scoreboard.schema.json").read_text(encoding="utf-8")
    found = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


OTHER_MODEL = {"quality.reference": quantity(23.5, "perplexity"), "quality.nf4": quantity(1.3, "ratio")}
BOARDS = {
    "no run": [],
    "one run": [record(claims=KV_CLAIMS)],
    "two runs": [
        record(claims=KV_CLAIMS),
        record("fits", machine={**MACHINE, "threads": 4}),
        record("quality", model="qwen2.5-0.5b", claims=OTHER_MODEL),
        record("beyond-the-port", model="qwen2.5-0.5b"),
    ],
    "not finite": [record("quality", claims={"quality.int4-per-tensor": quantity(float("inf"), "ratio")})],
}


@pytest.mark.parametrize("records", BOARDS.values(), ids=BOARDS)
def test_every_board_follows_the_schema(schema, records):
    schema.validate(build(records, load()))


def test_the_schema_knows_what_the_package_knows(schema):
    claim, result = (schema.schema["$defs"][name]["properties"] for name in ("claim", "result"))
    assert claim["kind"]["enum"] == list(KINDS)
    assert result["verdict"]["enum"] == list(VERDICTS)
    assert all(note_words(code, Words("en")) or not code for code in result["note"]["enum"])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda board: board.pop("runs"),
        lambda board: board.update(schema=2),
        lambda board: board["runs"][0].pop("date"),
        lambda board: board["runs"][0].update(date="2 January"),
        lambda board: board["claims"][0].update(kind="other"),
        lambda board: board["claims"][0].update(extra=1),
        lambda board: board["claims"][0]["results"]["smollm2-135m-cpu"].update(verdict="maybe"),
        lambda board: board["claims"][0]["results"]["smollm2-135m-cpu"].update(value="3"),
    ],
)
def test_the_schema_can_fail(schema, spoil):
    board = build([record(claims=KV_CLAIMS)], load())
    spoil(board)
    assert not schema.is_valid(board)


def test_columns_appear_with_the_records_of_a_run():
    pages = {name: scoreboard_html(build(records, load()), Words("en")) for name, records in BOARDS.items()}
    assert {name: page.count('colspan="2"') / len(section_titles()) for name, page in pages.items()} == {
        "no run": 0,
        "one run": 1,
        "two runs": 2,
        "not finite": 1,
    }
    row = row_of(pages["two runs"], "quality.reference")
    assert re.findall(r'class="verdict ([\w-]+)"', row) == ["holds", "not-measured"]


def test_the_page_has_every_claim_once_under_its_section(page):
    assert re.findall(r'<tr id="([^"]+)"', page) == [claim.id for claim in load()]
    links = re.findall(r'<h2 id="([^"]+)"><a href="([^"]+)">', page)
    assert links == [(slug, f"{slug}.html") for slug in section_titles()]


def test_rows_carry_what_the_menus_filter_by(page):
    assert 'data-kind="machine" data-verdict="below-noise"' in row_of(page, "kv-cache.faster")
    menus = set(re.findall(r'<option value="([^"]+)"', page))
    assert menus == {*VERDICTS, "exact", "model", "machine"}
    assert 'aria-live="polite"' in page


def test_values_are_grouped_and_the_chapters_keep_their_unit(page):
    assert "2,933,104,836,608" in row_of(page, "kv-cache.macs-uncached-4096")
    assert "768\u00a0MiB" in row_of(page, "cache-size.total-only")
    assert "1.98\u00a0GB" in row_of(page, "weight-quantization.bytes-at-32")
    assert "≈ below the noise" in row_of(page, "kv-cache.faster")


def test_the_counts_add_up(page):
    counts = re.search(r"A &amp; B on cpu</th>(.*?)</tr>", page).group(1)
    numbers = [int(number) for number in re.findall(r">(\d+)<", counts)]
    assert numbers == [3, 1, 1, len(load()) - 5]


def test_what_records_say_is_escaped():
    made = record()
    made["run"]["model"]["title"] = "<script>alert(1)</script>"
    assert "<script>alert" not in scoreboard_html(build([made], load()), Words("en"))


def test_every_word_for_the_reader_goes_through_the_catalogue():
    board = build([record(claims=KV_CLAIMS)], load())
    page = scoreboard_html(board, Marked("en")).split("<script>")[0]
    texts = [text.strip() for text in re.findall(r">([^<>]+)<", page)]
    bare = [text for text in texts if re.search(r"[A-Za-z]{2}", text) and "«" not in text]
    assert not bare


def test_a_board_without_runs_says_so():
    page = scoreboard_html(build([], load()), Words("en"))
    assert "No run has been recorded yet." in page
    assert page.count('data-verdict="not-measured"') == len(load())


def test_several_runs_stand_side_by_side():
    board = build([record(claims=KV_CLAIMS), record(model="other")], load())
    row = row_of(scoreboard_html(board, Words("en")), "kv-cache.tokens-identical")
    assert 'data-verdict="holds not-measured"' in row
    assert row.count("<td") == 2 + 2 * 2


def test_no_torch_is_loaded_for_the_page():
    code = "import sys, cheap_inference.scoreboard, cheap_inference.views.scoreboard; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
