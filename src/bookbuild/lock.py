"""requirements.txt: one lock for every supported Python and system, made by uv. Only the standard library."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

#: Pins are chosen for this Python and all later ones; where they differ, a line says for which.
LOWEST = "3.11.5"
SOURCES = ("pyproject.toml", "requirements.in")
HEADER = """\
# Every package that the book is built and tested with, pinned, for every Python from 3.11.5 on.
# Made by `make lock` from pyproject.toml and requirements.in: change those.
"""
#: Packages of torch's CUDA build: torch pins them itself, and its build for the CPU has none.
OF_CUDA = re.compile(r"^(nvidia|cuda)-|^triton==")


def lock(root: Path, *, uv: str, upgrade: bool) -> str:
    """The text of the lock; pins that are there stay as they are unless `upgrade` asks for the newest.

    Raises:
        CalledProcessError: uv failed; its message went to stderr.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "requirements.txt")
        if (root / "requirements.txt").exists():
            shutil.copyfile(root / "requirements.txt", out)
        command = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", LOWEST]
        command += ["--no-header", "--no-annotate", "--output-file", str(out), *SOURCES]
        command += ["--upgrade"] if upgrade else []
        subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)
        return tidied(out.read_text(encoding="utf-8"))


def tidied(text: str) -> str:
    """The pins alone, without those of CUDA, under a heading that says where they come from."""
    pins = [line for line in text.splitlines() if line and line[0] != "#" and not OF_CUDA.match(line)]
    return HEADER + "".join(f"{pin}\n" for pin in pins)
