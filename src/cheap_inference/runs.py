"""What a run is: its model, device, machine and versions; and the key of the records that it may trust."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

from . import gpu, machine, records, sourcekey
from .models import ModelSpec


def key_of(*, run: dict, settings: dict, notebook: Path | None) -> str:
    """The key that a record must have to be trusted now; `notebook` is the .ipynb whose cells measure."""
    return records.make_key(
        code=sourcekey.code_digest(sourcekey.notebook_cells(notebook)) if notebook else "",
        settings=settings,
        model=[run["model"][field] for field in ("name", "revision", "sha256")],
        device=run["device"],
        machine=run["machine"],
        versions=run["versions"],
    )


def describe_run(spec: ModelSpec, *, device: str) -> dict:
    """Model, device, machine, versions, commit and date of a run, as records keep them."""
    return {
        "id": f"{spec.name}-{device}",
        "model": {"name": spec.name, "title": spec.title, "revision": spec.revision, "sha256": spec.sha256},
        "device": device,
        "machine": machine.describe() | (gpu.describe_gpu() if device == "cuda" else {}),
        "versions": machine.versions(),
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def _commit() -> str:
    here = Path(__file__).parent
    git = ["git", "-C", str(here), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
