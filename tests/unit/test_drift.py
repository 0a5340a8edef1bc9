"""Moves beyond the noise, and the page that shows them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from cheap_inference.drift import WINDOW, Change, courses
from cheap_inference.render.words import Words
from cheap_inference.views.drift import drift_html

CLAIM = "kv-cache.faster"


def night(day, value, *, low=None, high=None, run="tiny-cpu", claim=CLAIM, **changed):
    """A line of the history; `changed` replaces versions."""
    spread = {"low": value if low is None else low, "high": value if high is None else high}
    found = {"value": value, "verdict": "holds"} | ({} if isinstance(value, bool) else spread)
    model, _, device = run.partition("-")
    return {
        "schema": 1,
        "run": run,
        "date": f"2026-03-{day:02d}",
        "commit": f"{day:012x}",
        "model": {"name": model, "title": model.title(), "revision": "1", "sha256": None},
        "device": device,
        "machine": {"cpu": "A", "isa": "AVX2", "threads": 2, "memory_bytes": 1},
        "versions": {"torch": "2.13.0"} | changed,
        "claims": {claim: found},
    }


def moved(entries):
    (course,) = courses(entries)
    return [point.moved for points in course.series.values() for point in points]


def steady(count):
    return [night(day + 1, 4.0, low=3.8, high=4.2) for day in range(count)]


@pytest.mark.parametrize(
    ("value", "low", "high", "is_moved"),
    [(4.3, 4.1, 4.5, False), (4.5, 4.3, 4.7, True), (3.5, 3.3, 3.7, True), (4.0, 1.0, 9.0, False)],
)
def test_a_move_is_a_spread_that_touches_nothing_of_the_nights_before(value, low, high, is_moved):
    assert moved([*steady(3), night(9, value, low=low, high=high)]) == [False, False, False, is_moved]


def test_a_new_level_is_marked_on_its_first_night_alone():
    high = [night(day, 5.0, low=4.9, high=5.1) for day in (5, 6, 7)]
    assert moved([*steady(2), *high]) == [False, False, True, False, False]


def test_old_nights_leave_the_range():
    early = night(1, 9.0, low=8.9, high=9.1)
    later = [night(day, 4.0, low=3.8, high=4.2) for day in range(2, 2 + WINDOW)]
    back = night(20, 9.0, low=8.9, high=9.1)
    assert moved([early, *later, back])[-1]


def test_what_another_processor_does_to_a_value_without_a_spread_is_no_move():
    assert moved([night(1, 100.0), night(2, 100.001), night(3, 100.1)]) == [False, False, True]


def test_a_property_moves_when_it_turns():
    entries = [night(1, True), night(2, True), night(3, False), night(4, True)]
    assert moved(entries) == [False, False, True, True]


def test_changes_of_versions_are_those_of_the_run_itself():
    entries = [
        night(1, 4.0),
        night(1, 2.0, run="tiny-cuda", torch="2.14.0"),
        night(2, 4.0, torch="2.14.0"),
        night(3, 4.0, torch="2.14.0"),
    ]
    on_cpu, on_gpu = courses(entries)
    assert [found.changes for found in on_cpu.nights] == [(), (Change("torch", "2.13.0", "2.14.0"),), ()]
    assert [found.changes for found in on_gpu.nights] == [()]


def test_a_night_without_the_value_leaves_a_gap():
    entries = [night(1, 4.0), night(2, 1.0, claim="prefill-decode.decode-slower"), night(3, 4.0)]
    (course,) = courses(entries)
    assert [point.night for point in course.series[CLAIM]] == [0, 2]


def test_without_a_history_one_sentence_says_so():
    html = drift_html([], Words("en"))
    assert re.findall(r"<p>(.*?)</p>", html) == [
        "No night has been recorded yet, so there is nothing to compare."
    ]


def test_the_page_shows_moves_versions_and_every_run():
    entries = [
        *steady(2),
        night(3, 5.0, low=4.9, high=5.1, torch="2.14.0"),
        night(3, 8.0, run="tiny-cuda"),
    ]
    html = drift_html(entries, Words("en"))
    assert html.count('class="ci-moved"') == 1
    assert html.count('class="ci-new"') == 1
    assert "torch 2.13.0 → 2.14.0" in html
    assert "Tiny on cpu" in html
    assert "Tiny on cuda" in html
    assert "5.00\xa0× in the newest night. Moved beyond the noise: Mar 3, 2026." in html
    assert "3 nights are recorded. 1 move lies beyond the noise. The range" in html
    assert '<a href="../history.jsonl" download>' in html


def test_what_was_new_in_a_night_is_a_list_of_the_language():
    entries = [night(1, 4.0, numpy="2.3"), night(2, 4.0, torch="2.14.0", numpy="2.4")]
    assert "<td>torch 2.13.0 → 2.14.0 i\u00a0numpy 2.3 → 2.4</td>" in drift_html(entries, Words("pl"))


def test_the_page_is_well_formed_in_every_number_form():
    entries = [*steady(2), night(3, 5.0), night(4, True, run="other-cpu"), night(5, 7.0, claim="gone.claim")]
    for locale in ("en", "pl", "hi"):
        html = drift_html(entries, Words(locale))
        ElementTree.fromstring(html.replace("<a href", '<a x="" href').replace(" download>", ">"))
        assert "gone.claim" not in html


def test_old_nights_leave_the_table_and_stay_in_the_panels():
    entries = [night(1 + day % 28, 4.0) for day in range(40)]
    html = drift_html(entries, Words("en"))
    assert html.count("<tr><th") == 1 + 30
    assert html.count("<circle") == 40
