"""Reports of a night, the issue made of them, and the one that is kept on GitHub."""

from __future__ import annotations

import json
import os
import stat

import pytest

from bookbuild.issue_tracker import post
from bookbuild.nbval_report import comparison_failures
from bookbuild.night_report import (
    SHOWN,
    SHOWN_FAILURES,
    Failure,
    Issue,
    Report,
    issue_of,
    read_report,
    write_report,
)

#: Stands in for GitHub's tool: remembers its calls and answers the one that lists issues.
FAKE_GH = """#!/bin/sh
printf '%s\\n' "$*" >> "$CALLS"
case "$*" in
  "issue list"*) printf '%s' "$OPEN" ;;
  *) echo "https://example.org/issues/1" ;;
esac
"""


def report(*failures, leg="smollm2-135m-cpu, Python 3.12"):
    return Report(leg, "abc", "2026-03-01", {"measure": 1.0}, tuple(failures))


def test_a_report_survives_its_file(tmp_path):
    written = report(Failure("measure", "kv-cache", "é\nline two"))
    write_report(tmp_path / "night" / "a.json", written)
    assert read_report(tmp_path / "night" / "a.json") == written


def test_a_good_night_has_no_issue():
    assert issue_of([report()], {"book": "success", "gpu": "skipped"}) is None


def test_a_job_without_a_report_is_told_of():
    issue = issue_of([report()], {"book": "cancelled", "legs": "success"})
    assert issue.title == "Nightly run failed: book"
    assert "Job `book` ended with `cancelled`." in issue.body
    assert "left a report" in issue.body


def test_an_issue_names_each_section_once_and_shows_every_difference():
    differences = [Failure("compare", "quality", "- 1\n+ 2"), Failure("compare", "quality", "- 3\n+ 4")]
    other = report(Failure("links", "", "en/a.html: b.html"), leg="qwen2.5-0.5b-cpu, Python 3.12")
    issue = issue_of([report(*differences), other], {})
    assert issue.title == "Nightly run failed: quality, links"
    for part in ("- 1\n+ 2", "- 3\n+ 4", "en/a.html: b.html", "## qwen2.5-0.5b-cpu, Python 3.12"):
        assert part in issue.body


def test_a_difference_cannot_leave_its_block_or_fill_the_issue():
    hostile = "```\n# not a heading\n@someone\n" + "x" * 3 * SHOWN
    issue = issue_of([report(*[Failure("measure", "fits", hostile)] * 3 * SHOWN_FAILURES)], {})
    assert "````text\n```\n# not" in issue.body
    assert f"And {2 * SHOWN_FAILURES} more" in issue.body
    assert len(issue.body) < 65_536


@pytest.fixture
def gh(tmp_path, monkeypatch):
    """GitHub's tool with its calls in a file; set its open issues with the function given."""
    tool = tmp_path / "bin" / "gh"
    tool.parent.mkdir()
    tool.write_text(FAKE_GH, encoding="utf-8")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    calls = tmp_path / "calls"
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(calls))

    def posted(*numbers):
        monkeypatch.setenv("OPEN", json.dumps([{"number": number} for number in numbers]))
        assert post(Issue("Title", "Body\n")).startswith("https://")
        return calls.read_text(encoding="utf-8").splitlines()[1:]

    return posted


def test_the_first_bad_night_opens_an_issue(gh):
    listed, created = gh()
    assert listed.startswith("issue list --label nightly --state open")
    assert created.startswith("issue create --title Title --body-file ")
    assert created.endswith("--label nightly")


def test_the_next_one_brings_it_up_to_date(gh):
    _, commented, edited = gh(12)
    assert commented.startswith("issue comment 12 ")
    assert edited.startswith("issue edit 12 --title Title --body-file ")


def test_a_comparison_without_results_is_a_failure(tmp_path):
    (failure,) = comparison_failures(tmp_path / "missing.xml")
    assert failure.step == "compare"
