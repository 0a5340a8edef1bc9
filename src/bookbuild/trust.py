"""Whether a section's record can be replayed, told without executing its notebook."""

from __future__ import annotations

from pathlib import Path

import nbformat

from cheap_inference import claims, records
from cheap_inference.models import resolve
from cheap_inference.runs import describe_run, key_of

from .execute import default_parameters
from .outputs import tagged


def trusted(path: Path, *, notebook: Path, model: str, device: str) -> bool:
    """Whether the record at `path` is complete and what the notebook, as it stands, would make here."""
    record = records.read(path)
    if record is None or not complete(record):
        return False
    run = describe_run(resolve(model, device=device), device=device)
    settings = {**record.settings, **defaults(notebook, record.settings)}
    return record.key == key_of(run=run, settings=settings, notebook=notebook)


def complete(record: records.Record) -> bool:
    """Whether the section ran to its end: it registers its claims last, all of them."""
    return all(claim.id in record.claims for claim in claims.load() if claim.section == record.section)


def defaults(notebook: Path, names: dict) -> dict:
    """The values that the notebook's parameters cell gives to the settings in `names`."""
    cell = next(tagged(nbformat.read(notebook, as_version=4), "parameters"))
    return {name: value for name, value in default_parameters(cell.source).items() if name in names}
