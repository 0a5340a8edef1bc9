"""Committed records of other machines, below a section's page."""

from __future__ import annotations

import dataclasses
import json

from bookbuild.elsewhere import elsewhere
from cheap_inference.records import Record, write
from cheap_inference.render.words import Words

RUN = {
    "id": "tiny-cuda",
    "model": {"name": "tiny", "title": "Tiny", "revision": None, "sha256": None},
    "device": "cuda",
    "machine": {"cpu": "A", "isa": "AVX2", "threads": 2, "gpu": "NVIDIA X"},
    "versions": {"torch": "2.13.0"},
    "commit": "abc",
    "date": "2026-03-01",
}
FASTER = {"value": 4.2, "unit": "ratio", "low": 4.0, "high": 4.4, "n": 5}


def committed(project):
    """A committed record of the section kv-cache."""
    record = Record("kv-cache", "", RUN, {}, claims={"kv-cache.faster": FASTER})
    write(project.committed_records / "tiny-cuda" / "kv-cache.json", record)
    return record


def test_a_section_without_committed_records_says_nothing(project):
    assert elsewhere(project, "kv-cache", "smollm2-135m-cpu", Words("en")) == ""
    committed(project)
    assert elsewhere(project, "quality", "smollm2-135m-cpu", Words("en")) == ""


def test_a_committed_record_shows_its_verdicts_its_date_and_its_gpu(project):
    committed(project)
    html = elsewhere(project, "kv-cache", "smollm2-135m-cpu", Words("en"))
    assert "<summary>Tiny on cuda</summary>" in html
    assert "Measured on March 1, 2026 with Tiny on NVIDIA X, driven by A (AVX2, 2 threads)" in html
    assert '<span class="verdict holds">' in html
    assert '<span class="verdict not-measured">' in html, "claims that the record lacks"
    assert "\n\n" not in html, "an empty line would end the block"


def test_the_run_of_the_page_itself_is_no_other_machine(project):
    committed(project)
    assert elsewhere(project, "kv-cache", "tiny-cuda", Words("en")) == ""


def test_a_damaged_record_counts_as_absent(project):
    record = dataclasses.asdict(committed(project))
    path = project.committed_records / "tiny-cuda" / "kv-cache.json"
    path.write_text(json.dumps(record)[:50], encoding="utf-8")
    assert elsewhere(project, "kv-cache", "smollm2-135m-cpu", Words("en")) == ""
