"""Folders and digests."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path


def emptied(folder: Path) -> Path:
    """Make `folder` an empty folder: what an earlier build left there must not reach this one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def digest_of(*parts: bytes | str) -> str:
    """One digest of several texts or byte strings; the borders between them count."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def digest_of_tree(folder: Path) -> str:
    """Digest of every source and data file under `folder`, names included."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return digest_of(
        *(part for path in files for part in (path.relative_to(folder).as_posix(), path.read_bytes()))
    )
