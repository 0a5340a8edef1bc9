"""What a night found, as a file, and several of them as the text of one issue. Only the standard library."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

#: Characters of one difference that an issue shows: its body may hold 65,536.
SHOWN = 2000
SHOWN_FAILURES = 20
GOOD = ("success", "skipped")


@dataclass(frozen=True)
class Failure:
    """One thing that went wrong.

    Attributes:
        step: "measure", "compare", "build", "links" or "colab".
        section: the section's slug; empty where it is no single section's.
        difference: what failed, or what was expected and what was found.
    """

    step: str
    section: str
    difference: str


@dataclass(frozen=True)
class Report:
    """One run of the book in a night.

    Attributes:
        leg: what tells the run apart: model, device and version of Python, or Colab and its languages.
        seconds: how long each step took.
    """

    leg: str
    commit: str
    date: str
    seconds: dict[str, float]
    failures: tuple[Failure, ...]


def write_report(path: Path, report: Report) -> None:
    """Write a report as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(report), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def read_report(path: Path) -> Report:
    """Read a report that `write_report` wrote."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    return Report(**{**raw, "failures": tuple(Failure(**failure) for failure in raw["failures"])})


@dataclass(frozen=True)
class Issue:
    """Title and body of an issue, in Markdown."""

    title: str
    body: str


def issue_of(reports: Iterable[Report], jobs: Mapping[str, str], *, run_url: str = "") -> Issue | None:
    """The issue that a night deserves; None where everything went well.

    Args:
        jobs: how each job of the night ended: "success", "failure", "cancelled" or "skipped". A job that
            failed is told of even where no report says why: it ran out of time, or never started.
    """
    failed = [report for report in reports if report.failures]
    bad_jobs = [name for name, result in jobs.items() if result not in GOOD]
    if not failed and not bad_jobs:
        return None
    parts = [_head(failed, jobs, bad_jobs, run_url)]
    shown = 0
    for report in failed:
        kept = report.failures[: max(0, SHOWN_FAILURES - shown)]
        shown += len(kept)
        parts.append(_of_report(report, kept))
    return Issue(_title(failed, bad_jobs), "\n\n".join(parts) + "\n")


def _title(failed: list[Report], bad_jobs: list[str]) -> str:
    sections = dict.fromkeys(
        failure.section or failure.step for report in failed for failure in report.failures
    )
    return f"Nightly run failed: {', '.join(sections or bad_jobs)}"


def _head(failed: list[Report], jobs: Mapping[str, str], bad_jobs: list[str], run_url: str) -> str:
    lines = [f"The nightly run did not pass. {f'Its log: {run_url}' if run_url else ''}".rstrip()]
    lines += [f"- Job `{name}` ended with `{jobs[name]}`." for name in bad_jobs]
    if bad_jobs and not failed:
        lines.append("- None of them left a report: look for a time limit, or a step before the run itself.")
    return "\n".join(lines)


def _of_report(report: Report, kept: tuple[Failure, ...]) -> str:
    """The failures of one run, each with its difference in a block of its own."""
    parts = [f"## {report.leg}\n\nCommit {report.commit}, {report.date}."]
    for failure in kept:
        where = f"`{failure.section}`, step {failure.step}" if failure.section else f"step {failure.step}"
        parts.append(f"### {where}\n\n{_fenced(failure.difference)}")
    left = len(report.failures) - len(kept)
    if left:
        parts.append(f"And {left} more: see the report among the run's files.")
    return "\n\n".join(parts)


def _fenced(text: str) -> str:
    """Text as a block of code that nothing in it can end."""
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}\n… ({len(text) - SHOWN} characters more)"
    fence = "```"
    while fence in shown:
        fence += "`"
    return f"{fence}text\n{shown}\n{fence}"
