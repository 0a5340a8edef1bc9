"""One section measured alone: what goes wrong in it is an answer, and no other section's trouble."""

from __future__ import annotations

import threading

from cheap_inference.errors import UserError

from .errors import BuildError, Interrupted
from .layout import Layout
from .progress import Reporter
from .schedule import Run, Schedule


def measure_alone(
    layout: Layout, run: Run, slug: str, locale: str, reporter: Reporter, *, limit: float | None = None
) -> str:
    """Measure a staged section anew; return what went wrong, empty where nothing did.

    Args:
        limit: seconds after which its kernel is ended.
    """
    # A schedule stops for good at its first failure, so every section has its own.
    schedule = Schedule(layout, run, reporter)
    schedule.record_path(slug).unlink(missing_ok=True)  # nothing of an earlier run may stand for this one
    ended = threading.Event()

    def end() -> None:
        ended.set()
        schedule.kernels.stop()

    timer = threading.Timer(limit, end) if limit is not None else None
    if timer:
        timer.start()
    try:
        schedule.check([slug], locale)
        schedule.measure([slug], locale, fresh=True)
    except (BuildError, UserError) as error:
        return str(error)
    except Interrupted:
        if not ended.is_set():  # a person did
            raise
        return f"Not finished: its time of {limit:.0f} s was up."
    finally:
        if timer:
            timer.cancel()
    return ""
