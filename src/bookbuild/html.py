"""Running jupyter-book on a staged folder, warnings fatal."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from .errors import BuildError
from .layout import Layout

JUPYTER_BOOK = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
#: Always from scratch: an incremental run forgets the warnings of pages that it skips.
OPTIONS = ["--all", "--warningiserror", "--keep-going", "--nitpick", "--quiet"]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def build_pages(layout: Layout, locale: str) -> None:
    """Build the pages of one language.

    Raises:
        BuildError: jupyter-book failed or warned; the message carries what it said.
    """
    done = subprocess.run(
        [*JUPYTER_BOOK, "build", str(layout.stage(locale)), *OPTIONS],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1"},
        check=False,
    )
    if done.returncode:
        said = COLOURS.sub("", done.stderr).strip()
        raise BuildError(f"The pages in {locale!r} did not build:\n{said}")
