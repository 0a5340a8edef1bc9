"""The history of the nightly runs: one line of JSON a night for each model and device, only ever added to.

A line holds what can move: the value, the spread and the verdict of every model and machine claim, with the
commit, the versions and the machine behind them. Exact claims are left out: where one of them moves, the
build fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from . import scoreboard
from .claims import Claim
from .errors import UserError
from .records import write_atomically

SCHEMA = 1
#: Kinds of claim whose values can move from night to night.
KINDS = ("model", "machine")
KEYS = frozenset({"schema", "run", "date", "commit", "model", "device", "machine", "versions", "claims"})
#: Significant digits that are kept of a measured number.
DIGITS = 7


def entry_of(records: Sequence[Mapping], claims: Sequence[Claim]) -> dict:
    """The line of one run, from the records of its sections as they lie on disk.

    Raises:
        UserError: the records come from different models or devices.
    """
    board = scoreboard.build(records, claims)
    (run,) = board["runs"]
    spreads: dict[str, Mapping | None] = {}
    for record in sorted(records, key=lambda record: record["run"]["date"]):
        spreads.update(record["claims"])
    values = {
        claim["id"]: _value(claim["results"][run["id"]], spreads[claim["id"]])
        for claim in board["claims"]
        if claim["kind"] in KINDS and claim["results"][run["id"]]["value"] is not None
    }
    facts = {key: run[key] for key in ("date", "commit", "model", "device", "machine", "versions")}
    return {"schema": SCHEMA, "run": run["id"], **facts, "claims": values}


def _value(result: Mapping, quantity: Mapping) -> dict:
    """Value and verdict, and the spread where there is one."""
    spread = {end: _short(quantity[end]) for end in ("low", "high") if quantity[end] is not None}
    return {"value": _short(result["value"]), **spread, "verdict": result["verdict"]}


def _short(number: float | bool) -> float | bool:
    return float(f"{number:.{DIGITS}g}") if isinstance(number, float) else number


def append(path: Path, entries: Iterable[dict]) -> int:
    """Add lines to the file, all of them or none, without those that it has; return how many were added.

    Raises:
        UserError: the file holds a line that is no entry.
    """
    known = read(path)
    new = [entry for entry in entries if entry not in known]
    if new:
        lines = [json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in (*known, *new)]
        write_atomically(path, "".join(f"{line}\n" for line in lines))
    return len(new)


def read(path: Path) -> list[dict]:
    """Every entry in the order of the file; none where there is no file.

    Raises:
        UserError: a line is no entry of this schema.
    """
    if not path.exists():
        return []
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    return [_entry(line, f"{path.name}, line {number}") for number, line in lines if line.strip()]


def _entry(line: str, where: str) -> dict:
    try:
        entry = json.loads(line)
    except ValueError:
        raise UserError(f"{where}: no JSON (a merge left half done, perhaps): restore the file.") from None
    if not isinstance(entry, dict) or entry.get("schema") != SCHEMA or entry.keys() != KEYS:
        raise UserError(f"{where}: no entry of schema {SCHEMA}: restore the file, or take a newer checkout.")
    return entry
