"""Links between pages: in the sources they lead to Markdown files, in the outputs to what readers open."""

from __future__ import annotations

import re
from collections.abc import Callable

from nbformat import NotebookNode

#: `[text](../notebooks/kv-cache.md#anchor)`: a link to another page of the book; web addresses never match.
PAGE_LINK = re.compile(
    r"\[(?P<text>[^\]]*)\]\((?:\.\./(?:notebooks|book)/)?(?P<page>[\w-]+)\.md(?P<anchor>#[^)\s]*)?\)"
)


def relink(markdown: str, target: Callable[[str], str | None]) -> str:
    """Rewrite every link to a page; `target` gives the file it leads to, None to keep the text alone."""

    def rewritten(link: re.Match) -> str:
        file = target(link["page"])
        return link["text"] if file is None else f"[{link['text']}]({file}{link['anchor'] or ''})"

    return PAGE_LINK.sub(rewritten, markdown)


def relink_notebook(notebook: NotebookNode, target: Callable[[str], str | None]) -> None:
    """Rewrite the links in a notebook's prose, in place."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = relink(cell.source, target)


def linked_pages(markdown: str) -> set[str]:
    """Names of the pages that a text leads to."""
    return {link["page"] for link in PAGE_LINK.finditer(markdown)}
