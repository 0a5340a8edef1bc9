"""The arguments of `scripts/nightly.py`: run a night, or add the records of a build to the history."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from cheap_inference.errors import UserError

from .cli import Arguments, Parser, checked
from .errors import BuildError, Interrupted
from .layout import Layout
from .night import add_to_history, report_path, run_night
from .night_report import issue_of, write_report
from .progress import Reporter


def main(root: Path, argv: list[str] | None = None) -> int:
    """Do what the arguments ask for and return the exit status: 0, or 1 where something failed."""
    layout = Layout(root)
    try:
        options = _parser().parse_args(argv)
        if options.command == "history":
            print(f"{add_to_history(layout)} new in {layout.history}")
            return 0
        return _run(layout, options)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, Interrupted):
        print("Interrupted.", file=sys.stderr)
        return 130


def _parser() -> Parser:
    parser = Parser(description="The book's nightly run.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure, compare, build and check; report what failed")
    run.add_argument("--model", default="auto", help="as in scripts/build.py")
    run.add_argument("--device", default="auto", help="as in scripts/build.py")
    run.add_argument("--locale", nargs="+", default=["all"], help="as in scripts/build.py")
    run.add_argument("--section", nargs="+", metavar="SLUG", help="as in scripts/build.py")
    run.add_argument(
        "--keep", action="store_true", help="add the values of all records of this build to the history"
    )
    commands.add_parser("history", help="add the records in _build/records to the history, without a run")
    return parser


def _run(layout: Layout, options: Namespace) -> int:
    request = checked(
        layout, Arguments(options.model, options.device, options.locale, options.section, fresh=False)
    )
    with Reporter() as reporter:
        report = run_night(layout, request, reporter, keep=options.keep)
    path = report_path(layout, report)
    write_report(path, report)
    issue = issue_of([report], {})
    if issue:
        print(issue.title, issue.body, sep="\n\n", file=sys.stderr)
    print(path)
    return 1 if issue else 0
