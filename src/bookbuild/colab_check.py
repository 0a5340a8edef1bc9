"""Every published notebook, run as Colab runs it: `scripts/colab_check.py`."""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
import time
from pathlib import Path

from cheap_inference.errors import UserError
from cheap_inference.settings import LOCALES, SOURCE_LOCALE, one_of

from .cli import Parser, failed
from .colab_visit import Visit, committed, copy_sources, publish, visited
from .contents import read_contents
from .errors import BuildError
from .layout import Layout
from .night import collected
from .night_report import Failure, Report, write_report
from .publication import read_publication


def main(root: Path, argv: list[str] | None = None) -> int:
    """Run the notebooks that the arguments name, leave a report, and return the exit status."""
    layout = Layout(root)
    started = time.monotonic()
    try:
        sections, locales = _checked(layout, argv)
        commit = read_publication(root).commit or "unknown"
        failures = visit_all(layout, sections, locales)
    except UserError as error:
        return failed(error, 2)
    except BuildError as error:
        return failed(error, 1)
    seconds = {"colab": round(time.monotonic() - started, 1)}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    report = Report(f"Colab ({', '.join(locales)})", commit, today, seconds, tuple(failures))
    write_report(layout.night / "colab.json", report)
    return 1 if failures else 0


def _checked(layout: Layout, argv: list[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    parser = Parser(description="Run published notebooks as Colab does.", allow_abbrev=False)
    parser.add_argument("--section", nargs="+", metavar="SLUG", help="default: every one")
    parser.add_argument("--locale", nargs="+", default=[SOURCE_LOCALE], help=", ".join(LOCALES))
    arguments: argparse.Namespace = parser.parse_args(argv)
    known = read_contents(layout.root).sections
    sections = tuple(one_of("--section", slug, known) for slug in arguments.section or known)
    return sections, tuple(one_of("--locale", locale, LOCALES) for locale in arguments.locale)


def visit_all(layout: Layout, sections: tuple[str, ...], locales: tuple[str, ...]) -> list[Failure]:
    """Open the notebooks one after another; one that fails keeps no other from running.

    Raises:
        BuildError: a language has catalogues, and they lack something.
    """

    def visit(slug: str, locale: str) -> list[Failure]:
        met = visited(checkout, slug, locale, publication, kept=layout.build / "colab" / locale)
        print(_told(slug, locale, met), flush=True)
        return []

    failures = []
    with tempfile.TemporaryDirectory(prefix="colab-") as folder:
        checkout = copy_sources(layout, Path(folder) / "checkout")
        publication = committed(checkout)
        for locale in locales:
            publish(checkout, locale, publication)
        for locale in locales:
            for slug in sections:
                found = collected("colab", slug, lambda slug=slug, locale=locale: visit(slug, locale))
                failures += found
                for failure in found:
                    print(failure.difference, file=sys.stderr, flush=True)
    return failures


def _told(slug: str, locale: str, visit: Visit) -> str:
    return (
        f"{slug} ({locale}): {visit.setup_seconds:.0f} s to install {', '.join(visit.installed)}; "
        f"{visit.total_seconds:.0f} s in all"
    )
