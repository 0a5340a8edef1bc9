"""What a person sees while a build runs: live bars on a terminal, one line a step elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Advance = Callable[[], None]


class Reporter:
    """Reports steps; safe to use from several threads."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(
            *columns, console=self.console, transient=True, disable=not self.console.is_terminal
        )

    def __enter__(self) -> Reporter:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    @contextmanager
    def step(self, text: str, *, total: int = 1) -> Iterator[Advance]:
        """Show a step of `total` parts while it runs, and one line once it is done."""
        started = time.monotonic()
        if not self.console.is_terminal:
            self.say(f"{text} …")
        task = self._bars.add_task(text, total=total)
        try:
            yield lambda: self._bars.advance(task)
        finally:
            self._bars.remove_task(task)
        self.say(f"{text}: {time.monotonic() - started:.1f} s")

    def say(self, text: str) -> None:
        """Print one line above the bars."""
        self.console.print(text, markup=False, soft_wrap=True)
