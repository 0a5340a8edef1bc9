"""An executed notebook as a page: answer first, plumbing away, data and origin along."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from bookbuild.configuration import configuration
from bookbuild.edition import filled
from bookbuild.errors import BuildError
from bookbuild.notebook_page import page_of
from bookbuild.origin import origin_of
from bookbuild.outputs import alternative_text, tables
from cheap_inference.records import Record
from cheap_inference.render.words import Words

RUN = {
    "id": "tiny-cpu",
    "model": {"name": "tiny", "title": "Tiny", "revision": "1", "sha256": "0"},
    "device": "cpu",
    "machine": {"cpu": "A <fast> one", "isa": "AVX2", "threads": 2, "memory_bytes": 1},
    "versions": {"python": "3.11.7", "torch": "2.13.0"},
    "commit": "abc",
    "date": "2026-03-07",
}


def shown(mime: str, data: str, **own: str):
    return new_output("display_data", {mime: data}, metadata={"cheap_inference": own} if own else {})


def cell(source: str, *outputs, tags: tuple[str, ...] = ()):
    return new_code_cell(source, id=source.split()[0], outputs=list(outputs), metadata={"tags": list(tags)})


def executed(*cells):
    heading = new_markdown_cell("# Title\n\nA question, see [other](other.md).", id="heading")
    return new_notebook(cells=[heading, cell("injected", tags=("injected-parameters",)), *cells])


@pytest.fixture
def page(contents):
    """The page of an executed notebook with two answers, a figure and a table."""
    notebook = executed(
        cell("first", shown("text/markdown", "one")),
        cell("answer", shown("text/markdown", "two"), tags=("lead", "hide-input")),
        cell("drawing", shown("image/png", "AAAA", alt="A line.", figure="line"), tags=("lead",)),
    )
    return page_of("fake", notebook, contents, origin="<p>here</p>")


def test_answers_stand_below_the_heading_in_their_order(page):
    assert [cell.id for cell in page.cells] == [
        "heading",
        "answer-lead",
        "drawing-lead",
        "first",
        "answer",
        "drawing",
        "fake-origin",
    ]
    assert page.cells[1].outputs[0].data["text/markdown"] == "two"
    assert "remove-input" in page.cells[1].metadata.tags


def test_the_code_of_an_answer_stays_where_it_is_run(page):
    assert page.cells[4].source == "answer"
    assert page.cells[4].outputs == []


def test_a_moved_figure_keeps_its_alternative_text(page):
    assert page.cells[2].metadata.mystnb.image.alt == "A line."
    assert "mystnb" not in page.cells[5].metadata


def test_links_lead_to_files_of_the_stage(contents):
    notebook = executed()
    notebook.cells[0].source = "# T\n\n[a](fake.md) [b](../book/glossary.md#words) [c](unknown.md)"
    source = page_of("fake", notebook, contents, origin="").cells[0].source
    assert source == "# T\n\n[a](fake.ipynb) [b](glossary.md#words) [c](unknown.md)"
    notebook.cells[0].source = "# T\n\n[a](fake.md)"
    assert page_of("index", notebook, contents.only(()), origin="").cells[0].source == "# T\n\na"


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ([shown("image/png", "AAAA")], "has no alternative text"),
        ([shown("image/png", "AAAA", alt=" ")], "has no alternative text"),
        ([shown("image/png", "AAAA", alt="a")] * 2, "shows 2 figures: one a cell"),
    ],
)
def test_a_figure_that_some_could_not_see_is_an_error(outputs, message):
    with pytest.raises(BuildError, match=message):
        alternative_text("fake", cell("plot", *outputs))


def test_tables_are_found_by_name_and_names_are_told_apart():
    notebook = executed(cell("a", shown("text/html", "<table>", table="t", csv="x\n1\n")))
    assert tables("fake", notebook) == {"t": "x\n1\n"}
    notebook.cells.append(cell("b", shown("text/html", "<table>", table="t", csv="x\n2\n")))
    with pytest.raises(BuildError, match="two tables are named “t”"):
        tables("fake", notebook)


@pytest.mark.parametrize(
    ("locale", "date"),
    [("en", "March 7, 2026"), ("pl", "7 marca 2026"), ("hi", "7 मार्च 2026"), ("fr", "7 mars 2026")],
)
def test_a_page_ends_with_machine_versions_date_and_data(locale, date):
    line = origin_of(Record("fake", "key", RUN, {}), ["rows"], Words(locale))
    assert date in line
    assert "A &lt;fast&gt; one" in line
    assert "torch 2.13.0" in line
    for target in (
        "../data/fake/rows.csv",
        "../records/tiny-cpu/fake.json",
        f"../notebooks/{locale}/fake.ipynb",
    ):
        assert f'href="{target}"' in line


def test_generated_parts_cannot_be_broken_by_markdown():
    text = filled("# T\n\n<!-- board -->\n\nEnd.", {"board": "<div>\n\n<p>1</p>\n\n</div>"})
    assert text == "# T\n\n<div>\n<p>1</p>\n</div>\n\nEnd."


def test_repository_buttons_wait_for_a_repository(repository):
    path = repository.root / "_config.yml"
    for address in (None, "https://example.org/x"):
        config = configuration(path, Words("en"), locales=("en",), anchors={}, repository=address, colab={})
        assert config["html"]["use_repository_button"] is bool(address)
        assert config["repository"]["url"] == (address or "")
