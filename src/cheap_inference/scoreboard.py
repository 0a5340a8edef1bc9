"""The scoreboard: every claim once, with what each run found. Made from records, nothing typed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from .claims import Claim, chapter_in_unit, evaluate
from .errors import UserError
from .quantity import Quantity

SCHEMA = 1

#: A record as it lies on disk: section, run, claims and more.
Record = Mapping[str, object]


def build(records: Iterable[Record], claims: Sequence[Claim]) -> dict:
    """The scoreboard as JSON types, by `data/scoreboard.schema.json`; the order of `records` does not matter.

    Results hold a note code: those of `claims.evaluate`, "no-record" where the run has no record of
    the section, "not-registered" where its record says nothing of the claim, and "not-finite" where
    the value is one that JSON cannot hold.

    Raises:
        UserError: records of one run id come from different models or devices.
    """
    runs: dict[str, list[Record]] = {}
    for record in sorted(records, key=_age):
        runs.setdefault(record["run"]["id"], []).append(record)
    runs = dict(sorted(runs.items()))
    return {
        "schema": SCHEMA,
        "runs": [_merged(run_id, of_run) for run_id, of_run in runs.items()],
        "claims": [_entry(claim, runs) for claim in claims],
    }


def _age(record: Record) -> tuple[str, str]:
    """Oldest first (dates are ISO 8601), ties in a fixed order."""
    return record["run"]["date"], record["section"]


def _merged(run_id: str, records: Sequence[Record]) -> dict:
    """One run out of its sections' records: versions, commit and date are those of the newest."""
    newest = records[-1]["run"]
    for key in ("model", "device"):
        if any(record["run"][key] != newest[key] for record in records):
            raise UserError(f"The records of {run_id} differ in {key}: measure all its sections again.")
    shared = {"machine": _shared([record["run"]["machine"] for record in records])}
    keys = ("id", "model", "device", "machine", "versions", "commit", "date")
    return {key: {**newest, **shared}[key] for key in keys}


def _shared(facts: Sequence[Mapping]) -> dict:
    """The newest facts, with None for those that are not the same in all."""
    return {
        key: value if all(other.get(key) == value for other in facts) else None
        for key, value in facts[-1].items()
    }


def _entry(claim: Claim, runs: Mapping[str, Sequence[Record]]) -> dict:
    return {
        "id": claim.id,
        "section": claim.section,
        "kind": claim.kind,
        "text": claim.text,
        "chapter_value": chapter_in_unit(claim),
        "unit": claim.unit,
        "results": {run_id: _result(claim, of_run) for run_id, of_run in runs.items()},
    }


def _result(claim: Claim, records: Sequence[Record]) -> dict:
    of_section = [record for record in records if record["section"] == claim.section]
    if not of_section:
        return {"value": None, "verdict": "not-measured", "note": "no-record"}
    newest = of_section[-1]
    quantity = _quantity(newest["claims"].get(claim.id))
    if quantity is None:
        return {"value": None, "verdict": "not-measured", "note": "not-registered"}
    outcome = evaluate(claim, quantity, model_name=newest["run"]["model"]["name"])
    if isinstance(quantity.value, float) and not math.isfinite(quantity.value):
        return {"value": None, "verdict": outcome.verdict, "note": "not-finite"}
    return {"value": quantity.value, "verdict": outcome.verdict, "note": outcome.note}


def _quantity(encoded: Mapping | None) -> Quantity | None:
    """A record's JSON form of a quantity; None says that it could not be measured."""
    return None if encoded is None else Quantity(**encoded)
