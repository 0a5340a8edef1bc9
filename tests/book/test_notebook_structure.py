"""What every notebook of the book must look like, so that it reads well in HTML, Jupyter and Colab."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bookbuild.contents import read_contents
from bookbuild.execute import default_parameters
from bookbuild.layout import Layout
from bookbuild.links import linked_pages
from bookbuild.outputs import tagged
from bookbuild.stage import read_source
from cheap_inference.claims import section_titles

BOOK = Layout(Path(__file__).parents[2])
SLUGS = [path.stem for path in sorted(BOOK.sources.glob("*.md"))]
LONGEST_CELL = 20
TAGS = {
    "parameters",
    "lead",
    "hide-input",
    "hide-cell",
    "remove-input",
    "nbval-ignore-output",
}
#: Directives in backticks or colons, roles, and targets: read by MyST alone.
MYST = re.compile(r"^\s*(`{3,}|:{3,})\s*\{|(?<!`)\{[\w:-]+\}`|^\([\w-]+\)=\s*$", re.MULTILINE)
HEADING = re.compile(r"^(#{1,6}) ", re.MULTILINE)


@pytest.fixture(params=SLUGS)
def notebook(request):
    """Every notebook of the book."""
    return read_source(BOOK.sources / f"{request.param}.md")


def prose(notebook) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def code(notebook) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def test_the_book_has_notebooks():
    assert SLUGS


def test_a_page_has_one_title_and_asks_its_question_in_the_first_cell(notebook):
    titles = [text for text in prose(notebook) for level in HEADING.findall(text) if level == "#"]
    assert len(titles) == 1
    first = notebook.cells[0].source
    assert first.startswith("# ")
    assert "?" in first
    assert len(HEADING.findall(first)) == 1, (
        "the answer is shown below the first cell, so nothing else may be in it"
    )


def test_parameters_are_the_same_everywhere(notebook):
    (cell,) = tagged(notebook, "parameters")
    common = {"model": "auto", "device": "auto", "locale": "auto"}
    assert default_parameters(cell.source).items() >= common.items()
    assert notebook.cells.index(cell) == 1, "a reader finds them at the top"


def test_an_answer_leads_the_page(notebook):
    assert list(tagged(notebook, "lead"))


def test_prose_is_plain_markdown(notebook):
    found = [match[0] for text in prose(notebook) for match in MYST.finditer(text)]
    assert not found


def test_code_cells_can_be_read_at_a_glance(notebook):
    long = [source.splitlines()[0] for source in code(notebook) if len(source.splitlines()) > LONGEST_CELL]
    assert not long


def test_tags_are_known(notebook):
    used = {tag for cell in notebook.cells for tag in cell.metadata.get("tags", [])}
    assert used <= TAGS


def test_the_reader_predicts_first(notebook):
    assert any("<details>\n<summary>" in text for text in prose(notebook))


def has_claims(notebook) -> bool:
    """Whether claims.toml lists the section; the closing page, for one, makes no claims."""
    return slug_of(notebook) in section_titles()


def slug_of(notebook) -> str:
    return notebook.cells[0].id.rsplit("-", 1)[0]


def test_limits_and_sources_close_the_page(notebook):
    headings = re.findall(r"^## (.+)$", "\n".join(prose(notebook)), re.MULTILINE)
    assert headings[-2:] == ["Where it stops", "Sources"]


def test_a_section_without_claims_measures_in_one_part(notebook):
    # Its record then exists whole or not at all, as nothing else says that the section ran to its end.
    if not has_claims(notebook):
        assert sum(source.count("page.measure(") for source in code(notebook)) == 1
        assert "page.verdicts()" not in "\n".join(code(notebook))


def test_verdicts_close_the_code_and_limits_and_sources_follow(notebook):
    if not has_claims(notebook):
        return
    closing = [source.rstrip().endswith("page.verdicts()") for source in code(notebook)]
    assert closing.count(True) == 1
    assert any(closing[-2:]), "at most one note stands after the verdicts"
    last = next(cell for cell in notebook.cells if cell.source.rstrip().endswith("page.verdicts()"))
    after = [
        cell.source for cell in notebook.cells[notebook.cells.index(last) :] if cell.cell_type == "markdown"
    ]
    headings = re.findall(r"^## (.+)$", "\n".join(after), re.MULTILINE)
    assert headings[-1] == "Sources"
    assert len(headings) >= 2, "limits stand between the verdicts and the sources"


def test_every_claim_is_of_this_section(notebook):
    claimed = re.findall(r"page\.claim\(\s*\"([\w.-]+)\"", "\n".join(code(notebook)))
    assert bool(claimed) == has_claims(notebook)
    assert [claim for claim in claimed if claim.split(".")[0] != slug_of(notebook)] == []


def test_links_lead_to_pages_of_the_book(notebook):
    contents = read_contents(BOOK.root)
    known = {*contents.sections, *contents.pages}
    assert {page for text in prose(notebook) for page in linked_pages(text)} <= known


@pytest.mark.parametrize(
    "text",
    ["```{note}\nx\n```", ":::{tip}\nx\n:::", "see {cite}`x`", "(target)=", "{ref}`a <b>`"],
)
def test_myst_is_told_from_plain_markdown(text):
    assert MYST.search(text)
    assert not MYST.search("```python\nx = {1}\n```\n\n$\\{a\\}$ and `{x}` and (a) = b")
