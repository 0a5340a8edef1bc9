"""Which GPU a measurement was made on, as its driver names it. Imports no torch."""

from __future__ import annotations

import subprocess

QUERY = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader", "--id=0")
FIELDS = ("gpu", "gpu_memory", "gpu_driver")


def describe_gpu() -> dict[str, str]:
    """Name, memory and driver of the first GPU as a record keeps them; empty where no driver answers."""
    try:
        done = subprocess.run(QUERY, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in done.stdout.partition("\n")[0].split(",")]
    return dict(zip(FIELDS, values, strict=True)) if len(values) == len(FIELDS) else {}
