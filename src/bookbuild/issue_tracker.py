"""The one issue of the nightly run: opened by the first bad night, brought up to date by the next ones.

It speaks to GitHub through `gh`, its command-line tool, which takes its token from the environment.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from .night_report import Issue

#: Tells the issue apart from all others.
LABEL = "nightly"


def post(issue: Issue) -> str:
    """Open the issue, or rewrite the open one and add a comment to it; return its address.

    Raises:
        CalledProcessError: gh failed; its message went to stderr.
    """
    _gh("label", "create", LABEL, "--force", "--description", "The nightly run failed")
    with tempfile.TemporaryDirectory() as folder:
        body = Path(folder, "body.md")
        body.write_text(issue.body, encoding="utf-8")
        text = ("--title", issue.title, "--body-file", str(body))
        known = open_issue()
        if known is None:
            return _gh("issue", "create", *text, "--label", LABEL)
        _gh("issue", "comment", str(known), "--body", "It failed again; the text above is the newest.")
        return _gh("issue", "edit", str(known), *text)


def open_issue() -> int | None:
    """The number of the open issue, None where there is none."""
    found = json.loads(
        _gh("issue", "list", "--label", LABEL, "--state", "open", "--limit", "1", "--json", "number")
    )
    return found[0]["number"] if found else None


def _gh(*arguments: str) -> str:
    return subprocess.run(["gh", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
