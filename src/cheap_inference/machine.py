"""What machine and which versions a measurement was made with. Imports no torch."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path

from .quota import quota_threads

#: Distributions whose version can change a measured value.
VERSIONED = ("torch", "transformers", "numpy")


def cpu_name() -> str:
    """The processor's model name as the operating system gives it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return found.group(1).strip()
    return platform.processor() or platform.machine()


def isa() -> str:
    """The widest vector instruction set, since last digits of a sum depend on it."""
    info = Path("/proc/cpuinfo")
    flags = set(info.read_text(encoding="utf-8").split()) if info.exists() else set()
    for flag, name in (("avx512_bf16", "AVX-512 BF16"), ("avx512f", "AVX-512"), ("avx2", "AVX2")):
        if flag in flags:
            return name
    return platform.machine()


def threads() -> int:
    """Threads a computation should use: OMP_NUM_THREADS, or the CPUs this process really has."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(affinity, quota_threads() or affinity)


def memory_bytes() -> int:
    """Physical memory of the machine, in bytes (0 where the system does not say)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, AttributeError):
        return 0


def describe() -> dict:
    """The machine as a record keeps it."""
    return {"cpu": cpu_name(), "isa": isa(), "threads": threads(), "memory_bytes": memory_bytes()}


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that can move a value."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in VERSIONED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found
