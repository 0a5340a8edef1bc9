"""Notebook sources into notebooks without outputs: what is executed, and what readers download."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
from jupytext.myst import MystMetadataParsingError
from nbformat import NotebookNode

from cheap_inference.records import write_atomically
from cheap_inference.render.words import Words

from .contents import Contents
from .errors import BuildError
from .files import emptied
from .layout import Layout
from .links import relink_notebook
from .publication import Publication
from .setup_cell import setup_cell
from .translation.apply import Translator

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def stage_notebooks(layout: Layout, contents: Contents, locale: str) -> None:
    """Write the notebook of every section in `contents`, in one language, and no others.

    Raises:
        BuildError: the language has catalogues, and they lack something.
    """
    folder = emptied(layout.notebooks(locale))
    translator = Translator(layout, locale)
    for slug in contents.sections:
        notebook = read_source(layout.sources / f"{slug}.md")
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = translator.markdown(cell.source)
        write_notebook(folder / f"{slug}.ipynb", notebook)


def publish_notebooks(
    layout: Layout, contents: Contents, locale: str, folder: Path, publication: Publication
) -> None:
    """Write the staged notebooks for readers, each with a first cell that gets the package in Colab.

    Their links lead to the published site, as Colab resolves no relative ones; where its address is not
    known they lead to the notebooks and pages beside them.
    """

    def target(page: str) -> str | None:
        if page in contents.left_out:
            return None
        if publication.site:
            return f"{publication.site}/{locale}/{page}.html"
        return f"{page}.ipynb" if page in contents.sections else f"../../{locale}/{page}.html"

    folder.mkdir(parents=True)
    for slug in contents.sections:
        notebook = nbformat.read(layout.notebooks(locale) / f"{slug}.ipynb", as_version=4)
        relink_notebook(notebook, target)
        notebook.cells.insert(0, setup_cell(slug, publication, Words(locale)))
        (folder / f"{slug}.ipynb").write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


def read_source(path: Path) -> NotebookNode:
    """Read a jupytext notebook, with a fixed kernel, fixed cell ids and no other metadata than tags.

    Raises:
        BuildError: a cell's options are not readable.
    """
    try:
        notebook = jupytext.read(path, fmt="md:myst")
    except MystMetadataParsingError as error:
        raise BuildError(f"{path.stem}: {str(error).partition(';')[0]}.") from error
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    for index, cell in enumerate(notebook.cells):
        cell.id = f"{path.stem}-{index}"
        cell.metadata = nbformat.from_dict({"tags": cell.metadata["tags"]} if "tags" in cell.metadata else {})
    return notebook


def write_notebook(path: Path, notebook: NotebookNode) -> None:
    """Write a notebook, the same bytes for the same notebook."""
    nbformat.validate(notebook)
    write_atomically(path, nbformat.writes(notebook) + "\n")
