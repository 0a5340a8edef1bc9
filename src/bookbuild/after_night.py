"""The arguments of `scripts/after_night.py`: what follows the runs of a night. Only the standard library."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from .issue_tracker import post
from .night_report import issue_of, read_report
from .publish import publish_history, publish_site


def main(root: Path, argv: list[str] | None = None) -> int:
    """Write the issue's text, post it, or publish; return the exit status."""
    parser = argparse.ArgumentParser(description="What follows the runs of a night.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    issue = commands.add_parser("issue", help="the night's failures as one issue, where there are any")
    issue.add_argument("--reports", type=Path, required=True, help="folder of the runs' reports")
    issue.add_argument(
        "--jobs", default="{}", help='how the jobs ended, as JSON: {"name": {"result": "success"}}'
    )
    issue.add_argument("--out", type=Path, required=True, help="folder for title.txt and body.md")
    issue.add_argument("--post", action="store_true", help="open or update the issue on GitHub")
    for name, of in (("site", root / "_build" / "site"), ("history", root / "history" / "nights.jsonl")):
        publishing = commands.add_parser(name, help=f"publish the {name}")
        publishing.add_argument("--from", dest="source", type=Path, default=of, help="default: %(default)s")
        publishing.add_argument("--remote", required=True, help="address of the repository")
        publishing.add_argument("--branch", required=True)
    options = parser.parse_args(argv)
    if options.command == "issue":
        return _issue(options)
    publish = publish_site if options.command == "site" else publish_history
    publish(options.source, options.remote, options.branch)
    return 0


def _issue(options: argparse.Namespace) -> int:
    reports = [read_report(path) for path in sorted(options.reports.rglob("*.json"))]
    jobs = {name: job["result"] for name, job in json.loads(options.jobs).items()}
    issue = issue_of(reports, jobs, run_url=_run_url())
    if issue is None:
        print("The night went well.")
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "title.txt").write_text(f"{issue.title}\n", encoding="utf-8")
    (options.out / "body.md").write_text(issue.body, encoding="utf-8")
    print(post(issue) if options.post else options.out / "body.md")
    return 0


def _run_url() -> str:
    """Address of the workflow's run; empty elsewhere."""
    parts = [os.environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")]
    return "{}/{}/actions/runs/{}".format(*parts) if all(parts) else ""
