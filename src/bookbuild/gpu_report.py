"""The report of a GPU check, in Markdown: every section, every verdict that is not "holds", the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cheap_inference import claims, scoreboard
from cheap_inference.claims import VERDICTS


@dataclass(frozen=True)
class Outcome:
    """How one section went.

    Attributes:
        problem: what went wrong; empty where nothing did.
    """

    section: str
    seconds: float
    problem: str


def report_text(
    outcomes: Sequence[Outcome], records: Mapping[str, Mapping], *, run_id: str, seconds: float
) -> str:
    """The report; `records` are those of the sections that measured, as they lie on disk."""
    board = scoreboard.build(records.values(), claims.load())
    results = {
        outcome.section: [
            (claim["id"], claim["results"][run_id])
            for claim in board["claims"]
            if claim["section"] == outcome.section and outcome.section in records
        ]
        for outcome in outcomes
    }
    failed = sum(bool(outcome.problem) for outcome in outcomes)
    parts = [
        f"# The book on {run_id}",
        f"{len(outcomes) - failed} of {len(outcomes)} sections measured, in {seconds:.0f} s.",
        *_origin(board["runs"]),
        _table(outcomes, results),
        *_problems(outcomes),
        *_others(results),
    ]
    return "\n\n".join(parts) + "\n"


def _origin(runs: Sequence[Mapping]) -> list[str]:
    """Machine, versions, commit and date; nothing where no section measured."""
    lines = [
        f"- {name}: {value}"
        for run in runs
        for name, value in {
            "model": run["model"]["title"],
            **run["machine"],
            **run["versions"],
            "commit": run["commit"],
            "date": run["date"],
        }.items()
    ]
    return ["\n".join(lines)] if lines else []


def _table(outcomes: Sequence[Outcome], results: Mapping[str, list]) -> str:
    lines = [f"| Section | Seconds | {' | '.join(VERDICTS)} |", f"|---|{'---:|' * (1 + len(VERDICTS))}"]
    for outcome in outcomes:
        counts = Counter(result["verdict"] for _, result in results[outcome.section])
        name = f"{outcome.section} (failed)" if outcome.problem else outcome.section
        cells = " | ".join(str(counts[verdict]) for verdict in VERDICTS)
        lines.append(f"| {name} | {outcome.seconds:.1f} | {cells} |")
    return "\n".join(lines)


def _problems(outcomes: Sequence[Outcome]) -> list[str]:
    lines = [f"- {outcome.section}: {outcome.problem}" for outcome in outcomes if outcome.problem]
    return ["## Failures", "\n".join(lines)] if lines else []


def _others(results: Mapping[str, list]) -> list[str]:
    """Claims that do not hold, with the value that says so."""
    lines = [
        f"- {claim}: {result['verdict']}, {result['value']} {result['note']}".rstrip()
        for of_section in results.values()
        for claim, result in of_section
        if result["verdict"] != "holds"
    ]
    return ["## Claims that do not hold, or were not judged", "\n".join(lines)] if lines else []
