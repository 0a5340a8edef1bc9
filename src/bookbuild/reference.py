"""Reference notebooks: executed, English, text outputs only; what a regression test compares with."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from cheap_inference.settings import SOURCE_LOCALE

from .contents import read_contents
from .environment import kernel_environment
from .files import emptied
from .layout import Layout
from .notebook_page import INJECTED
from .stage import write_notebook

#: Tag of cells whose outputs differ from run to run.
IGNORED = "nbval-ignore-output"


def write_references(layout: Layout) -> Path:
    """Write `reference/<slug>.ipynb` from the executed English notebooks; return the folder."""
    folder = emptied(layout.reference)
    for slug in read_contents(layout.root).sections:
        executed = nbformat.read(layout.executed(SOURCE_LOCALE) / f"{slug}.ipynb", as_version=4)
        write_notebook(folder / f"{slug}.ipynb", reference_of(executed))
    return folder


def reference_of(executed: NotebookNode) -> NotebookNode:
    """The same cells without what an execution added besides outputs that can be compared."""
    reference = copy.deepcopy(executed)
    reference.metadata.pop("papermill", None)
    reference.cells = [cell for cell in reference.cells if INJECTED not in cell.metadata.get("tags", [])]
    count = 0
    for cell in reference.cells:
        cell.metadata = nbformat.from_dict(
            {"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {}
        )
        if cell.cell_type == "code":
            # nbval compares only cells that look executed; counts without the injected cell's.
            cell.execution_count = count = count + 1
            ignored = IGNORED in cell.metadata.get("tags", [])
            cell.outputs = (
                [] if ignored else [kept for kept in map(_comparable, cell.outputs) if kept.get("data", True)]
            )
    return reference


def _comparable(output: NotebookNode) -> NotebookNode:
    """An output without its image (its text stays: a figure's alternative text) and without run data."""
    for mime in [mime for mime in output.get("data", {}) if mime.startswith("image/")]:
        del output["data"][mime]
    if "metadata" in output:
        output["metadata"] = nbformat.from_dict({})
    if "execution_count" in output:
        output["execution_count"] = None
    return output


def compare_references(layout: Layout, folder: Path | None = None, *, junit: Path | None = None) -> int:
    """Execute `reference/` with nbval, replaying this machine's records of the default model on the CPU.

    Args:
        folder: other notebooks to compare with, in place of `reference/`.
        junit: file for the results, cell by cell, for programs to read.

    Returns:
        pytest's exit status.
    """
    folder = folder or layout.reference
    sanitize = layout.root / "tests" / "book" / "nbval_sanitize.cfg"
    environment = kernel_environment(records=layout.records, notebooks=folder, mode="replay")
    options = ["--nbval", "--nbval-sanitize-with", str(sanitize), "--rootdir", str(layout.root), str(folder)]
    # Replays disturb no timing; a notebook stays in one process.
    options += ["-n", "2", "--dist", "loadscope"]
    options += ["--junitxml", str(junit)] if junit else []
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=layout.root,
        env={**environment, "CUDA_VISIBLE_DEVICES": ""},
        check=False,
    ).returncode
