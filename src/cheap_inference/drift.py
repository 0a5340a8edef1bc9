"""How measured values moved over the recorded nights, and which moves are more than noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: A value counts as moved where its spread lies outside all that so many nights before it spanned.
WINDOW = 7
#: Relative distance that is never a move: ten times what another processor does to a model's value.
TOLERANCE = 1e-4
#: Facts about the machine that are told apart; the rest follows from them.
MACHINE_FACTS = ("cpu", "threads", "gpu")


@dataclass(frozen=True)
class Change:
    """A version or a fact about machine or model that was another one the night before."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Night:
    """One entry of a run's history: its date (ISO 8601), its commit, and what was new in it."""

    date: str
    commit: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Point:
    """A value of one night; `low` and `high` equal it where there is no spread.

    Attributes:
        night: index into the nights of the course.
        moved: whether it lies beyond the noise of the nights before.
    """

    night: int
    value: float | bool
    low: float
    high: float
    verdict: str
    moved: bool


@dataclass(frozen=True)
class Course:
    """All nights of one model on one device.

    Attributes:
        series: the points of each claim by its id, oldest first.
    """

    run: str
    title: str
    device: str
    nights: tuple[Night, ...]
    series: dict[str, tuple[Point, ...]]


def courses(entries: Iterable[Mapping]) -> list[Course]:
    """The history by model and device, in the order of their first nights."""
    by_run: dict[str, list[Mapping]] = {}
    for entry in entries:
        by_run.setdefault(entry["run"], []).append(entry)
    return [_course(run, of_run) for run, of_run in by_run.items()]


def _course(run: str, entries: Sequence[Mapping]) -> Course:
    entries = sorted(entries, key=lambda entry: entry["date"])  # stable: one day's runs keep their order
    nights = tuple(
        Night(entry["date"], entry["commit"], _changes(before, entry))
        for before, entry in zip([entries[0], *entries], entries, strict=False)
    )
    ids = dict.fromkeys(name for entry in entries for name in entry["claims"])
    series = {name: _series(name, entries) for name in ids}
    return Course(run, entries[-1]["model"]["title"], entries[-1]["device"], nights, series)


def _changes(before: Mapping, after: Mapping) -> tuple[Change, ...]:
    old, new = _facts(before), _facts(after)
    names = dict.fromkeys([*old, *new])
    return tuple(
        Change(name, old.get(name, "–"), new.get(name, "–"))
        for name in names
        if old.get(name) != new.get(name)
    )


def _facts(entry: Mapping) -> dict[str, str]:
    """Everything that may explain a moved value, by name."""
    machine = {name: str(entry["machine"][name]) for name in MACHINE_FACTS if name in entry["machine"]}
    model = entry["model"]["revision"] or (entry["model"]["sha256"] or "")[:12]
    return {**entry["versions"], **machine, "model": model}


def _series(name: str, entries: Sequence[Mapping]) -> tuple[Point, ...]:
    points: list[Point] = []
    for night, entry in enumerate(entries):
        found = entry["claims"].get(name)
        if found is not None:
            value = found["value"]
            low, high = found.get("low", value), found.get("high", value)
            moved = beyond_noise(value, low, high, points[-WINDOW:])
            points.append(Point(night, value, low, high, found["verdict"], moved))
    return tuple(points)


def beyond_noise(value: float | bool, low: float, high: float, before: Sequence[Point]) -> bool:
    """Whether a value with its spread lies outside the range that the points before it span together."""
    if not before:
        return False
    if isinstance(value, bool):
        return value != before[-1].value
    lowest, highest = min(point.low for point in before), max(point.high for point in before)
    reach = TOLERANCE * max(abs(lowest), abs(highest))
    return high < lowest - reach or low > highest + reach
