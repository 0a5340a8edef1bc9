"""One visit to a published notebook: a fresh machine, the first cell to the last, and what it may not do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from .colab_machine import ColabMachine, environment_there, make_machine
from .contents import read_contents
from .errors import BuildError
from .layout import Layout
from .publication import Publication
from .setup_cell import LEFT_ALONE
from .stage import publish_notebooks, stage_notebooks, write_notebook

#: All of a checkout that the package and its notebooks are made of.
SOURCES = ("src", "notebooks", "book", "_config.yml", "_toc.yml", "pyproject.toml", "README.md", "LICENSE")
NOT_SOURCES = ("__pycache__", "*.egg-info")
PACKAGE = "cheap-inference"
#: What a reader may be made to wait for before the section begins.
SETUP_SECONDS = 120
#: No cell takes so long; one that hangs is given up, and the other notebooks are still run.
CELL_SECONDS = 900


@dataclass(frozen=True)
class Visit:
    """What a reader of one notebook met.

    Attributes:
        setup_seconds: from the start of the kernel to the end of the first cell.
        total_seconds: to the end of the last cell.
        installed: what pip added to the machine, by name.
    """

    notebook: NotebookNode
    setup_seconds: float
    total_seconds: float
    installed: tuple[str, ...]


def copy_sources(layout: Layout, folder: Path) -> Layout:
    """Copy what is published, as it stands in the checkout, so that nothing there is touched."""
    folder.mkdir()
    for name in SOURCES:
        source, target = layout.root / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns(*NOT_SOURCES))
        else:
            shutil.copyfile(source, target)
    return Layout(folder)


def committed(checkout: Layout) -> Publication:
    """Make a repository with one commit of a copied checkout; pip clones it as it would clone the real one."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(checkout.root), "-c", "user.name=check", "-c", "user.email=", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--no-gpg-sign", "--message", "As it stands")
    return Publication(checkout.root.as_uri(), git("rev-parse", "HEAD"))


def publish(checkout: Layout, locale: str, publication: Publication) -> None:
    """Write the notebooks of one language as the site has them."""
    contents = read_contents(checkout.root)
    stage_notebooks(checkout, contents, locale)
    shutil.rmtree(_published(checkout, locale), ignore_errors=True)
    publish_notebooks(checkout, contents, locale, _published(checkout, locale), publication)


def visited(
    checkout: Layout, slug: str, locale: str, publication: Publication, *, kept: Path | None = None
) -> Visit:
    """Open a published notebook on a fresh machine and run it from top to bottom.

    Args:
        kept: folder for the executed notebook, also of a run that failed.

    Raises:
        BuildError: a cell failed, or the first one did not do what it is for.
    """
    notebook = nbformat.read(_published(checkout, locale) / f"{slug}.ipynb", as_version=4)
    with tempfile.TemporaryDirectory(prefix="colab-") as folder:
        machine = make_machine(Path(folder) / "machine")
        try:
            setup_seconds, total_seconds = _run(notebook, machine)
        except (CellExecutionError, DeadKernelError) as error:
            reason = getattr(error, "ename", "") or "its kernel died"
            message = getattr(error, "evalue", "").strip().partition("\n")[0]
            raise BuildError(f"{slug} ({locale}) in Colab: {reason}: {message}".rstrip(": ")) from error
        except CellTimeoutError as error:
            raise BuildError(
                f"{slug} ({locale}) in Colab: a cell took over {CELL_SECONDS} seconds"
            ) from error
        finally:
            if kept:
                write_notebook(kept / f"{slug}.ipynb", notebook)
        visit = Visit(notebook, setup_seconds, total_seconds, tuple(sorted(machine.installed())))
        complaint = _complaint(visit, machine, publication)
    if complaint:
        raise BuildError(f"{slug} ({locale}) in Colab: {complaint}.")
    return visit


def _run(notebook: NotebookNode, machine: ColabMachine) -> tuple[float, float]:
    """Execute in place; seconds to the end of the first code cell and of the last one."""
    ends: list[float] = []
    client = NotebookClient(notebook, km=machine.kernel(), timeout=CELL_SECONDS)
    client.on_cell_executed = lambda **_: ends.append(time.monotonic())
    started = time.monotonic()
    with (machine.folder / "kernel.log").open("w", encoding="utf-8") as log:
        environment = environment_there(dict(os.environ))
        client.execute(cleanup_kc=True, cwd=str(machine.content), env=environment, stderr=log)
    return ends[0] - started, ends[-1] - started


def _complaint(visit: Visit, machine: ColabMachine, publication: Publication) -> str:
    """What the first cell did that it should not have done; empty where all is well."""
    if visit.notebook.cells[0].outputs:
        return "its first cell is not quiet"
    if visit.setup_seconds > SETUP_SECONDS:
        return f"its first cell took {visit.setup_seconds:.0f} seconds"
    replaced = sorted(set(LEFT_ALONE) & set(visit.installed))
    if replaced:
        return f"its first cell installed {', '.join(replaced)} anew"
    origin = json.loads(machine.installed()[PACKAGE].read_text("direct_url.json"))
    if origin["vcs_info"]["commit_id"] != publication.commit:
        return "its first cell installed another commit"
    return ""


def _published(checkout: Layout, locale: str) -> Path:
    return checkout.site / "notebooks" / locale
