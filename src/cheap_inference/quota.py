"""How many CPUs a container may really use."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/")


def quota_threads(*, root: Path = ROOT) -> int | None:
    """Whole CPUs that the control group's quota grants (at least 1), or None where there is no quota.

    Asking for more threads than that makes the kernel stop all of them for part of each period.
    Both versions of control groups are read; a parent's quota binds as well. `root` is "/" except in tests.
    """
    grants = [cpus for folder in _folders(root) for cpus in (_quota_v2(folder), _quota_v1(folder)) if cpus]
    return max(1, int(min(grants))) if grants else None


def _folders(root: Path) -> list[Path]:
    """The process's own control-group folders and all above them, for either version."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    mounts, folders = root / "sys/fs/cgroup", []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for mount in [mounts / "cpu", mounts / "cpu,cpuacct"] if controllers else [mounts]:
            own = mount / path.lstrip("/")
            folders += [own, *(parent for parent in own.parents if parent.is_relative_to(mount))]
    return folders


def _quota_v2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max": no quota
        return None


def _quota_v1(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text(encoding="ascii"))
        period = int((folder / "cpu.cfs_period_us").read_text(encoding="ascii"))
        return quota / period if quota > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
