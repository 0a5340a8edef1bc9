"""The folder that downloaded and converted models are kept in: one writer at a time, whole files only."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock, Timeout
from platformdirs import user_cache_dir

from ..errors import UserError

CACHE_VARIABLE = "CHEAP_INFERENCE_CACHE"
SCRATCH_PREFIX = ".cheap-inference-partial-"
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


def cache_root() -> Path:
    """The cache's folder: $CHEAP_INFERENCE_CACHE, else the platform's place for caches."""
    return Path(os.environ.get(CACHE_VARIABLE) or user_cache_dir("cheap-inference")).expanduser().absolute()


@contextmanager
def locked_cache() -> Iterator[Path]:
    """Hold the cache's folder for this process alone; a second process waits, then finds what was made.

    Raises UserError where the folder cannot be written or the disk is full, in the block as well.
    """
    root = cache_root()
    with disk_errors_explained(root):
        root.mkdir(parents=True, exist_ok=True)
        with _lock(root):
            for leftover in root.glob(f"{SCRATCH_PREFIX}*"):  # of a process that was killed
                shutil.rmtree(leftover, ignore_errors=True)
            yield root


@contextmanager
def _lock(root: Path) -> Iterator[None]:
    lock = FileLock(root / ".lock")
    try:
        lock.acquire(timeout=1)
    except Timeout:
        print("Another process is preparing a model: waiting for it.")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def scratch_folder(root: Path) -> Iterator[Path]:
    """A folder on the cache's file system, gone afterwards: only a rename out of it makes a file count."""
    with TemporaryDirectory(dir=root, prefix=SCRATCH_PREFIX) as folder:
        yield Path(folder)


@contextmanager
def disk_errors_explained(root: Path) -> Iterator[None]:
    """Turn a full or read-only disk into a UserError that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise no_space(root) from error
        if error.errno in NOT_WRITABLE:
            raise UserError(
                f"The model cache {root} cannot be written ({error.strerror}): "
                f"set {CACHE_VARIABLE} to a folder that can."
            ) from error
        raise


def require_space(root: Path, needed: int) -> None:
    """Raise UserError unless `needed` bytes are free where the cache is."""
    if shutil.disk_usage(root).free < needed:
        raise no_space(root, needed)


def no_space(root: Path, needed: int | None = None) -> UserError:
    """The error of a full disk; `needed` in bytes, where it is known."""
    amount = f"{needed / 2**30:.1f} GiB are needed" if needed else "it is full"
    return UserError(
        f"No space on the disk of the model cache {root} ({amount}): free some, or set {CACHE_VARIABLE} "
        "to a folder on another disk."
    )
