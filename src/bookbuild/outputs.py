"""What an executed notebook carries for the build in the metadata of its outputs."""

from __future__ import annotations

from collections.abc import Iterator

from nbformat import NotebookNode

from cheap_inference.render.display import METADATA

from .errors import BuildError


def tables(slug: str, notebook: NotebookNode) -> dict[str, str]:
    """Every table of a notebook as CSV, by name.

    Raises:
        BuildError: two tables have the same name.
    """
    found: dict[str, str] = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            own = own_metadata(output)
            if "csv" not in own:
                continue
            if own["table"] in found:
                raise BuildError(f"{slug}: two tables are named “{own['table']}”.")
            found[own["table"]] = own["csv"]
    return found


def alternative_text(slug: str, cell: NotebookNode) -> str | None:
    """The alternative text of the cell's figure, None where the cell shows no figure.

    Raises:
        BuildError: a figure has none, or the cell shows several (only one of them could have it).
    """
    figures = [output for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    if not figures:
        return None
    if len(figures) > 1:
        raise BuildError(
            f"{slug}: the cell {first_line(cell.source)} shows {len(figures)} figures: one a cell."
        )
    alt = own_metadata(figures[0]).get("alt", "").strip()
    if not alt:
        raise BuildError(f"{slug}: the figure of the cell {first_line(cell.source)} has no alternative text.")
    return alt


def own_metadata(output: NotebookNode) -> dict:
    """What the package put beside an output."""
    return output.get("metadata", {}).get(METADATA, {})


def tagged(notebook: NotebookNode, tag: str) -> Iterator[NotebookNode]:
    """The cells with a tag, in order."""
    return (cell for cell in notebook.cells if tag in cell.metadata.get("tags", []))


def first_line(source: str) -> str:
    """How messages name a code cell: the first line of its code, quoted."""
    return f"“{next((line.strip() for line in source.splitlines() if line.strip()), '')}”"
