"""The history of nights: what a line keeps, and that the file is only ever added to."""

from __future__ import annotations

import json
import os

import pytest

from cheap_inference import claims, history
from cheap_inference.errors import UserError

RUN = {
    "id": "tiny-cpu",
    "model": {"name": "tiny", "title": "Tiny", "revision": "1", "sha256": "ab"},
    "device": "cpu",
    "machine": {"cpu": "A", "isa": "AVX2", "threads": 2, "memory_bytes": 1},
    "versions": {"python": "3.12.1", "torch": "2.13.0"},
    "commit": "0123456789ab",
    "date": "2026-03-01",
}


def quantity(value, unit, low=None, high=None, n=1):
    """A quantity as records keep it."""
    return {"value": value, "unit": unit, "low": low, "high": high, "n": n}


def record(**measured):
    """A record of the section kv-cache."""
    return {"section": "kv-cache", "key": "", "run": RUN, "settings": {}, "parts": {}, "claims": measured}


def entry(value=4.2):
    """A line of the section kv-cache in which the cache was `value` times faster."""
    made = record(
        **{
            "kv-cache.faster": quantity(value, "ratio", value - 0.123456789, value + 0.2, 9),
            "kv-cache.tokens-identical": quantity(True, ""),
        }
    )
    return history.entry_of([made], claims.load())


def test_a_line_keeps_value_spread_and_verdict_of_what_can_move():
    line = entry()
    assert line["claims"] == {
        "kv-cache.faster": {"value": 4.2, "low": 4.076543, "high": 4.4, "verdict": "holds"}
    }
    assert line["run"] == "tiny-cpu"
    assert (line["date"], line["commit"], line["versions"]) == (RUN["date"], RUN["commit"], RUN["versions"])


def test_a_value_that_was_not_measured_is_left_out():
    assert history.entry_of([record(**{"kv-cache.faster": None})], claims.load())["claims"] == {}


def test_lines_are_added_once(tmp_path):
    path = tmp_path / "history" / "nights.jsonl"
    assert history.read(path) == []
    assert history.append(path, [entry(4.2)]) == 1
    assert history.append(path, [entry(4.2), entry(4.3)]) == 1
    assert [line["claims"]["kv-cache.faster"]["value"] for line in history.read(path)] == [4.2, 4.3]
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2


def test_an_interrupted_append_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "nights.jsonl"
    history.append(path, [entry(4.2)])
    before = path.read_bytes()

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        history.append(path, [entry(4.3)])
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["nights.jsonl"]


@pytest.mark.parametrize("line", ["{", "[]", '{"schema": 2}', '{"schema": 1}', "<<<<<<< HEAD"])
def test_a_damaged_line_is_named_and_nothing_is_written(tmp_path, line):
    path = tmp_path / "nights.jsonl"
    path.write_text(f"{json.dumps(entry())}\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"nights\.jsonl, line 2: no "):
        history.append(path, [entry(5.0)])


def test_the_committed_history_can_be_read(request):
    root = request.config.rootpath / "history" / "nights.jsonl"
    assert all(line["claims"] for line in history.read(root))
