"""The GPU check, on a CPU and on the small book: it is one command with files in and files out."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile

import pytest

from bookbuild import gpu_check, gpu_commands
from bookbuild.gpu_report import Outcome, report_text
from cheap_inference import gpu, runs
from cheap_inference.models import KNOWN_MODELS

SMALL = ["--model", "smollm2-135m", "--device", "cpu"]


@pytest.fixture(autouse=True)
def environment_as_before(monkeypatch):
    """The command sets variables of its process; a test's process goes on."""
    for name in (*gpu_commands.OFFLINE, "PYTHONPATH"):
        monkeypatch.setenv(name, os.environ.get(name, ""))


def check(project, tmp_path, *more):
    """Exit status, report, and the records by their names in the archive."""
    out = tmp_path / "out"
    status = gpu_commands.main(project.root, [*SMALL, "--out", str(out), *more])
    with zipfile.ZipFile(out / "records.zip") as archive:
        records = {name: json.loads(archive.read(name)) for name in archive.namelist()}
    return status, (out / "report.md").read_text(encoding="utf-8"), records


@pytest.mark.site
def test_it_brings_back_records_and_a_report_and_leaves_the_checkout_alone(project, tmp_path):
    status, report, records = check(project, tmp_path, "--sections", "fake")
    assert status == 0
    assert list(records) == ["smollm2-135m-cpu/fake.json"]
    assert records["smollm2-135m-cpu/fake.json"]["parts"]["count"]["rows"] == [0, 1, 2]
    assert "1 of 1 sections measured" in report
    assert "- torch: " in report
    assert not project.build.exists()


@pytest.mark.site
def test_a_section_that_fails_is_told_of_and_keeps_no_record(project, tmp_path):
    path = project.sources / "fake.md"
    path.write_text(path.read_text(encoding="utf-8").replace('rows": list', 'rows": lst'), encoding="utf-8")
    status, report, records = check(project, tmp_path)
    assert status == 1
    assert records == {}
    assert "- fake: fake: the cell" in report
    assert "NameError: name 'lst' is not defined" in report


@pytest.mark.site
def test_a_section_that_takes_too_long_is_ended(project, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_check, "LEAST_SECONDS", 1.0)
    path = project.sources / "fake.md"
    text = path.read_text(encoding="utf-8")
    path.write_text(f"{text}\n```{{code-cell}}\nimport time\n\ntime.sleep(300)\n```\n", encoding="utf-8")
    status, report, _ = check(project, tmp_path, "--minutes", "0.15")
    assert status == 1
    assert "- fake: Not finished: its time of 9 s was up." in report


def test_without_time_nothing_is_started(project, tmp_path):
    status, report, records = check(project, tmp_path, "--minutes", "0.1")
    assert status == 1
    assert "- fake: Not started: the time was up." in report
    assert records == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--device", "cpu", "--sections", "nowhere"], "must be one of fake, not 'nowhere'"),
        (["--device", "cpu", "--model", "./gone.gguf"], "No such folder or file"),
        (["--device", "tpu"], "--device must be one of"),
    ],
)
def test_bad_arguments_are_one_line(project, capsys, arguments, words):
    assert gpu_commands.main(project.root, arguments) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_the_file_of_a_known_model_goes_by_its_name(tmp_path, monkeypatch):
    file = tmp_path / "any.gguf"
    file.write_bytes(b"GGUF")
    prepared = []
    monkeypatch.setattr(gpu_check, "converted", lambda digest, source: prepared.append(source(tmp_path)))
    monkeypatch.setattr(gpu_check, "gguf_digest", lambda path: KNOWN_MODELS["smollm2-135m"].sha256)
    assert gpu_check.known_name(str(file)) == "smollm2-135m"
    assert prepared == [file]
    monkeypatch.setattr(gpu_check, "gguf_digest", lambda path: "another")
    assert gpu_check.known_name(str(file)) == str(file)
    assert gpu_check.known_name("qwen2.5-0.5b") == "qwen2.5-0.5b"
    assert len(prepared) == 1


def test_the_report_counts_verdicts_and_shows_what_does_not_hold():
    quantity = {"value": 0.9, "unit": "ratio", "low": 0.8, "high": 0.95, "n": 5}
    run = {
        "id": "tiny-cuda",
        "model": {"name": "tiny", "title": "Tiny", "revision": None, "sha256": None},
        "device": "cuda",
        "machine": {"cpu": "A", "gpu": "B"},
        "versions": {"torch": "2.13.0"},
        "commit": "abc",
        "date": "2026-03-01",
    }
    record = {"section": "kv-cache", "run": run, "claims": {"kv-cache.faster": quantity}}
    outcomes = [Outcome("kv-cache", 12.34, ""), Outcome("fits", 1.0, "fits: the cell failed")]
    text = report_text(outcomes, {"kv-cache": record}, run_id="tiny-cuda", seconds=13.6)
    assert "1 of 2 sections measured, in 14 s." in text
    assert "| kv-cache | 12.3 | 0 | 1 | 0 |" in text
    assert "- kv-cache.faster: fails, 0.9" in text
    assert "- gpu: B" in text
    assert "| fits (failed) | 1.0 | 0 | 0 | 0 | 0 |" in text


def answered(text):
    return lambda *_, **__: subprocess.CompletedProcess([], 0, text, "")


def test_a_gpu_is_named_by_its_driver(monkeypatch):
    monkeypatch.setattr(subprocess, "run", answered("NVIDIA X, 16384 MiB, 580.1\n"))
    assert gpu.describe_gpu() == {"gpu": "NVIDIA X", "gpu_memory": "16384 MiB", "gpu_driver": "580.1"}
    monkeypatch.setattr(subprocess, "run", answered("no devices\n"))
    assert gpu.describe_gpu() == {}


def test_a_machine_without_a_driver_has_no_gpu(monkeypatch):
    monkeypatch.setattr(gpu, "QUERY", ("no-such-command-here",))
    assert gpu.describe_gpu() == {}


def test_only_runs_on_a_gpu_name_one(monkeypatch):
    monkeypatch.setattr(gpu, "describe_gpu", lambda: {"gpu": "X"})
    spec = KNOWN_MODELS["smollm2-135m"]
    assert runs.describe_run(spec, device="cuda")["machine"]["gpu"] == "X"
    assert "gpu" not in runs.describe_run(spec, device="cpu")["machine"]
