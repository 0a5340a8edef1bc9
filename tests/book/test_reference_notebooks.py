"""Reference notebooks are the book's notebooks with outputs that can be compared, and no more."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from bookbuild.layout import Layout
from bookbuild.reference import IGNORED, reference_of
from bookbuild.stage import read_source

BOOK = Layout(Path(__file__).parents[2])
SLUGS = [path.stem for path in sorted(BOOK.sources.glob("*.md"))]


def shape(notebook) -> list[tuple]:
    """What a reference must share with its source: cells, their text, tags and order."""
    return [(cell.cell_type, cell.source, cell.metadata.get("tags", [])) for cell in notebook.cells]


def test_there_is_a_reference_for_every_section_and_for_nothing_else():
    assert {path.stem for path in BOOK.reference.glob("*.ipynb")} == set(SLUGS)


@pytest.mark.parametrize("slug", SLUGS)
def test_a_reference_has_its_sections_cells(slug):
    reference = nbformat.read(BOOK.reference / f"{slug}.ipynb", as_version=4)
    assert shape(reference) == shape(read_source(BOOK.sources / f"{slug}.md")), "run make reference"


@pytest.mark.parametrize("slug", SLUGS)
def test_a_reference_holds_only_what_can_be_compared(slug):
    text = (BOOK.reference / f"{slug}.ipynb").read_text(encoding="utf-8")
    assert "image/" not in text
    assert "papermill" not in text
    for cell in nbformat.reads(text, as_version=4).cells:
        if cell.cell_type == "code":
            assert cell.execution_count, "nbval compares no cell that looks unexecuted"
            assert not (IGNORED in cell.metadata.get("tags", []) and cell.outputs)


def test_a_reference_is_stripped_of_its_run():
    outputs = [
        new_output(
            "display_data", {"image/png": "AAAA", "text/plain": "A line."}, metadata={"x": {"csv": "1"}}
        ),
        new_output("execute_result", {"text/plain": "3"}, execution_count=9),
    ]
    cells = [
        new_code_cell("x = 1", id="a", metadata={"tags": ["parameters"], "papermill": {"duration": 1}}),
        new_code_cell("x = 2", id="b", metadata={"tags": ["injected-parameters"]}, execution_count=2),
        new_code_cell("y", id="c", outputs=outputs, execution_count=9),
        new_code_cell("t", id="d", outputs=outputs, execution_count=10, metadata={"tags": [IGNORED]}),
    ]
    reference = reference_of(new_notebook(cells=cells, metadata={"papermill": {}}))
    assert [cell.id for cell in reference.cells] == ["a", "c", "d"]
    assert [cell.execution_count for cell in reference.cells] == [1, 2, 3]
    assert [output.data for output in reference.cells[1].outputs] == [
        {"text/plain": "A line."},
        {"text/plain": "3"},
    ]
    assert reference.cells[2].outputs == []
    assert "papermill" not in nbformat.writes(reference)


def test_cells_that_vary_are_masked():
    """The pattern as nbval reads it from its file."""
    text = (Path(__file__).parent / "nbval_sanitize.cfg").read_text(encoding="utf-8")
    ((regex, replacement),) = re.findall(r"^regex: (.*)$\n^replace: (.*)$", text, flags=re.MULTILINE)
    row = '<td>1</td><td class="number varies">2 (1–3)</td><td class="varies"><span class="verdict holds">✓</span></td>'
    masked = '<td>1</td><td class="number varies">varies</td><td class="varies">varies</td>'
    assert re.sub(regex, replacement, row) == masked
    assert re.sub(regex, replacement, '<td class="number">7</td>') == '<td class="number">7</td>'
