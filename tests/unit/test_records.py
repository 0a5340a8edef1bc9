"""Records keep exactly what was measured, and only whole, current files are trusted."""

import dataclasses
import json
import multiprocessing
import os
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from cheap_inference import records
from cheap_inference.errors import UserError
from cheap_inference.quantity import Quantity


@dataclass(frozen=True)
class Row:
    tokens: int
    time: Quantity


@dataclass(frozen=True)
class Result:
    identical: bool
    rows: tuple[Row, ...]
    note: str | None = None


RESULT = Result(True, (Row(16, Quantity(1.5, "ms", 1.4, 1.7, 5)),))


def make_record(**changes):
    run = {"id": "m-cpu", "model": {"name": "m"}, "device": "cpu"}
    record = records.Record("kv-cache", "k" * 64, run, {"new_tokens": 48}, {"loops": records.encode(RESULT)})
    return dataclasses.replace(record, **changes)


def test_a_result_comes_back_by_attribute():
    back = records.decode(json.loads(json.dumps(records.encode(RESULT))))
    assert back.identical is True
    assert back.note is None
    assert back.rows == [SimpleNamespace(tokens=16, time=Quantity(1.5, "ms", 1.4, 1.7, 5))]


def test_a_written_record_is_read_back_equal(tmp_path):
    path = records.path_of(tmp_path, "m-cpu", "kv-cache")
    records.write(path, make_record())
    assert records.read(path) == make_record()
    assert path == tmp_path / "m-cpu" / "kv-cache.json"
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == records.READABLE


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_record_refuses_what_is_no_number(value):
    with pytest.raises(ValueError, match="cannot keep"):
        records.encode({"x": value})


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", Result])
def test_a_record_refuses_other_types(value):
    with pytest.raises(TypeError, match="cannot keep"):
        records.encode([value])


def damaged(text):
    whole = json.loads(text)
    return {
        "empty": "",
        "cut short": text[: len(text) // 2],
        "not JSON": "hello",
        "a list": "[]",
        "null": "null",
        "other schema": json.dumps({**whole, "schema": records.SCHEMA + 1}),
        "no schema": json.dumps({k: v for k, v in whole.items() if k != "schema"}),
        "a field missing": json.dumps({k: v for k, v in whole.items() if k != "run"}),
        "a field too many": json.dumps({**whole, "extra": 1}),
    }


@pytest.mark.parametrize("kind", list(damaged('{"run": 1}')))
def test_a_damaged_record_counts_as_absent(tmp_path, kind):
    path = tmp_path / "r.json"
    records.write(path, make_record())
    path.write_text(damaged(path.read_text(encoding="utf-8"))[kind], encoding="utf-8")
    assert records.read(path) is None


def test_a_file_that_is_not_text_counts_as_absent(tmp_path):
    path = tmp_path / "r.json"
    path.write_bytes(b"\xff\xfe\x00")
    assert records.read(path) is None


def test_an_absent_record_is_none(tmp_path):
    assert records.read(tmp_path / "none.json") is None


def test_a_full_disk_leaves_the_old_record_and_one_clear_line(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    records.write(path, make_record())

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match="No space left") as caught:
        records.write(path, make_record(key="other"))
    assert "\n" not in str(caught.value)
    assert records.read(path) == make_record()
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_an_interrupt_while_writing_leaves_the_old_record(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    records.write(path, make_record())

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        records.write(path, make_record(key="other"))
    assert records.read(path) == make_record()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("field", ["settings", "model", "device", "machine", "versions", "code"])
def test_the_key_changes_with_everything_that_can_move_a_value(field):
    wanted = dict.fromkeys(["settings", "model", "device", "machine", "versions", "code"], "a")
    assert records.make_key(**wanted) != records.make_key(**{**wanted, field: "b"})


def write_many(path, key):
    for _ in range(50):
        records.write(path, make_record(key=key))


def test_two_writers_never_leave_half_a_record(tmp_path):
    path = tmp_path / "r.json"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_many, args=(path, key)) for key in ("a", "b")]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        found = records.read(path)
        assert found is None or found.key in ("a", "b")
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert records.read(path).key in ("a", "b")
