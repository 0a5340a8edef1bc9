"""An executed notebook as the page that readers see: answer first, plumbing away, origin last."""

from __future__ import annotations

import copy

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from .contents import Contents
from .links import relink_notebook
from .outputs import alternative_text, tagged

#: A cell whose outputs are the answer: shown below the heading, while its code stays in its place.
LEAD = "lead"
#: papermill's own cell.
INJECTED = "injected-parameters"


def page_of(slug: str, notebook: NotebookNode, contents: Contents, *, origin: str) -> NotebookNode:
    """The notebook that jupyter-book renders.

    Args:
        notebook: an executed notebook, its first cell the heading with the section's question.
        origin: HTML that says how and where the page was made; it closes the page.

    Raises:
        BuildError: a figure without alternative text, or several in one cell.
    """
    page = copy.deepcopy(notebook)
    page.cells = [cell for cell in page.cells if INJECTED not in cell.metadata.get("tags", [])]
    for cell in page.cells:
        cell.metadata.pop("papermill", None)
    relink_notebook(page, lambda target: site_source(target, contents))
    answers = [_moved_outputs(cell) for cell in tagged(page, LEAD)]
    page.cells[1:1] = answers
    for cell in page.cells:
        alt = alternative_text(slug, cell)
        if alt is not None:
            cell.metadata["mystnb"] = {"image": {"alt": alt}}
    page.cells.append(new_markdown_cell(origin, id=f"{slug}-origin"))
    page.metadata.pop("papermill", None)
    return page


def _moved_outputs(cell: NotebookNode) -> NotebookNode:
    """Take the outputs of a cell into a cell of their own that hides its code."""
    outputs, cell.outputs = cell.outputs, []
    return new_code_cell(
        cell.source,  # myst-nb drops a cell without code, outputs and all
        id=f"{cell.id}-{LEAD}",
        metadata={"tags": ["remove-input", f"{LEAD}-outputs"]},
        outputs=outputs,
    )


def site_source(page: str, contents: Contents) -> str | None:
    """The file, in the folder that jupyter-book reads, that a link to a page leads to."""
    if page in contents.left_out:
        return None
    return f"{page}.ipynb" if page in contents.sections else f"{page}.md"
