"""Records: what was measured, with everything needed to trust it later. The only writer of them.

A record is one JSON file for a section, a model and a device. It holds quantities and settings and
no word of any language. Its key says which code, model, settings, machine and versions made it;
a record whose key differs from the one wanted now is never replayed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from .errors import UserError
from .quantity import Quantity

SCHEMA = 1
#: A temporary file is its owner's alone; a record is to be served and shared.
READABLE = 0o644


@dataclass
class Record:
    """A section's record while it is being made or replayed.

    Attributes:
        run: id, model, device, machine, versions, commit and date.
        parts: results of the section's measurements by name, in their JSON form.
        claims: measured values by claim id, in their JSON form.
    """

    section: str
    key: str
    run: dict
    settings: dict
    parts: dict = field(default_factory=dict)
    claims: dict = field(default_factory=dict)


def make_key(**wanted: object) -> str:
    """Digest of everything that must be the same for a record to be trusted."""
    text = json.dumps({"schema": SCHEMA, **wanted}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def encode(value: object) -> object:
    """Turn a result (dataclasses, quantities, plain values) into JSON types.

    Raises:
        TypeError: the result holds something that a record cannot keep.
        ValueError: it holds a NaN or an infinity.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a record cannot keep {value}")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Quantity):
        return {name: encode(item) for name, item in dataclasses.asdict(value).items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: encode(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(name): encode(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    raise TypeError(f"a record cannot keep a {type(value).__name__}")


def decode(value: object) -> object:
    """Turn JSON types back: quantities as `Quantity`, other objects as namespaces."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if isinstance(value, dict):
        if {"value", "unit", "low", "high", "n"} == set(value):
            return Quantity(**value)
        return SimpleNamespace(**{name: decode(item) for name, item in value.items()})
    return value


def path_of(root: Path, run_id: str, section: str) -> Path:
    """Where the record of a section lies under `root`."""
    return root / run_id / f"{section}.json"


def read(path: Path) -> Record | None:
    """The record at `path`, None where there is none or it cannot be understood.

    A half-written, damaged or older-schema file counts as absent: it is measured again.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw.pop("schema") != SCHEMA:
            return None
        return Record(**raw)
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
        return None


def write(path: Path, record: Record) -> None:
    """Write a record so that a reader sees the old one or the new one, never half of one.

    Raises:
        UserError: the folder cannot be written or the disk is full.
    """
    text = json.dumps({"schema": SCHEMA, **dataclasses.asdict(record)}, ensure_ascii=False, indent=1)
    try:
        write_atomically(path, text + "\n")
    except OSError as error:
        raise UserError(
            f"The record {path.name} could not be written to {path.parent} ({error.strerror}): "
            "free some space or choose a folder you may write to."
        ) from error


def write_atomically(path: Path, text: str) -> None:
    """Write text to a temporary neighbour of `path`, then rename it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        os.chmod(temporary, READABLE)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
