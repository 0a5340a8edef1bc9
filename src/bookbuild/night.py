"""A night's run of the book: all of it live, compared, built and checked; failures are collected, not raised."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cheap_inference import claims, history
from cheap_inference.errors import UserError
from cheap_inference.models.registry import DEFAULT_MODEL

from .build import Request, build
from .errors import BuildError, Interrupted
from .layout import Layout
from .nbval_report import comparison_failures
from .night_report import Failure, Report
from .progress import Reporter
from .reference import compare_references
from .schedule import Run
from .section_run import measure_alone
from .site_links import dead_links
from .stage import stage_notebooks

#: The run that `reference/` was made by.
REFERENCE_RUN = f"{DEFAULT_MODEL}-cpu"


def run_night(layout: Layout, request: Request, reporter: Reporter, *, keep: bool) -> Report:
    """Measure every section anew, compare, build the site, check its links; say all that failed.

    A section that fails keeps no other from running. The site is built where every section has measured.

    Args:
        keep: whether the night's values are added to the history, before the drift page is made.
    """
    seconds: dict[str, float] = {}
    with timed(seconds, "measure"):
        failures = measure_all(layout, request, reporter)
    if keep:
        add_to_history(layout)
    if request.run.id == REFERENCE_RUN:
        with timed(seconds, "compare"):
            failed = {failure.section for failure in failures}
            measured = set(request.contents.sections) - failed
            failures += collected("compare", "", lambda: compare(layout, measured))
    if not any(failure.step == "measure" for failure in failures):
        with timed(seconds, "build"):
            failures += collected("build", "", lambda: build_site(layout, request, reporter))
    return report_of(layout, request.run, seconds, failures)


@contextmanager
def timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    """Note how long a step takes."""
    started = time.monotonic()
    yield
    seconds[step] = round(time.monotonic() - started, 1)


def collected(step: str, section: str, found: Callable[[], list[Failure]]) -> list[Failure]:
    """What `found` finds; where it fails itself, in whatever way, that is the failure and the night goes on."""
    try:
        return found()
    except Interrupted:
        raise
    except (BuildError, UserError) as error:
        return [Failure(step, section, str(error))]
    except Exception as error:
        return [Failure(step, section, f"{type(error).__name__}: {error}")]


def measure_all(layout: Layout, request: Request, reporter: Reporter) -> list[Failure]:
    """Measure the sections one after another; each failure is that of its section alone."""
    failures = []
    for slug in request.contents.sections:
        failures += collected("measure", slug, lambda slug=slug: measure_one(layout, request, slug, reporter))
    return failures


def measure_one(layout: Layout, request: Request, slug: str, reporter: Reporter) -> list[Failure]:
    """Stage one section alone, so that one that cannot be read keeps no other from running, and measure it."""
    first = request.locales[0]
    stage_notebooks(layout, request.contents.only((slug,)), first)
    problem = measure_alone(layout, request.run, slug, first, reporter)
    return [Failure("measure", slug, problem)] if problem else []


def compare(layout: Layout, sections: set[str]) -> list[Failure]:
    """Differences from `reference/` in these sections, the ones that have measured."""
    junit = layout.night / "nbval.xml"
    junit.parent.mkdir(parents=True, exist_ok=True)
    junit.unlink(missing_ok=True)
    status = compare_references(layout, junit=junit)
    found = comparison_failures(junit) if status else []
    if status and not found:
        return [Failure("compare", "", f"pytest ended with status {status} and names no cell.")]
    return [failure for failure in found if failure.section in sections | {""}]


def build_site(layout: Layout, request: Request, reporter: Reporter) -> list[Failure]:
    """Replay in every language, build the pages, and follow the links of the site."""
    build(layout, request, reporter)
    dead = dead_links(layout.site)
    return [Failure("links", "", "\n".join(dead))] if dead else []


def add_to_history(layout: Layout) -> int:
    """Add a line for every run whose records lie in this build; return how many were new."""
    entries = []
    for folder in sorted(path for path in layout.records.glob("*") if path.is_dir()):
        raw = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
        if raw:
            entries.append(history.entry_of(raw, claims.load()))
    return history.append(layout.history, entries)


def report_of(layout: Layout, run: Run, seconds: dict[str, float], failures: list[Failure]) -> Report:
    """The report of a run: where it was made is told by the records it left."""
    paths = sorted((layout.records / run.id).glob("*.json"))
    facts = json.loads(paths[0].read_text(encoding="utf-8"))["run"] if paths else {}
    python = ".".join(map(str, sys.version_info[:2]))
    return Report(
        leg=f"{run.id}, Python {python}",
        commit=facts.get("commit", "unknown"),
        date=facts.get("date", "unknown"),
        seconds=seconds,
        failures=tuple(failures),
    )


def report_path(layout: Layout, report: Report) -> Path:
    """Where a run's report lies."""
    return layout.night / f"{report.leg.replace(', Python ', '-py')}.json"
