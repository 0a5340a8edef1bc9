"""nbval guards what must not change: one deliberate breakage of each kind turns it red.

Each test compares this machine's records with a copy of a reference notebook that differs in one
respect; to nbval that is the same as a page that changed while its reference did not.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from bookbuild.layout import Layout
from bookbuild.reference import compare_references

pytestmark = pytest.mark.site

BOOK = Layout(Path(__file__).parents[2])
SLUG = "kv-cache"
ROW = re.compile(r"<tr>(?:(?!</tr>).)*</tr>", re.DOTALL)


def changed(folder: Path, change) -> int:
    """nbval's exit status for the reference after `change(notebook)`."""
    notebook = nbformat.read(BOOK.reference / f"{SLUG}.ipynb", as_version=4)
    change(notebook)
    nbformat.write(notebook, folder / f"{SLUG}.ipynb")
    return compare_references(BOOK, folder)


def html_of(notebook, caption):
    """The output whose table has this caption."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if caption in "".join(output.get("data", {}).get("text/html", "")):
                return output
    raise AssertionError(f"no table {caption!r}")


def edited(caption, edit):
    """A change of the HTML of one table, which must really change it."""

    def change(notebook):
        data = html_of(notebook, caption)["data"]
        before = "".join(data["text/html"])
        data["text/html"] = edit(before)
        assert data["text/html"] != before

    return change


def without_a_row(html):
    head, body = html.split("<tbody>")
    return f"{head}<tbody>{ROW.sub('', body, count=1)}"


def break_a_loop(notebook):
    cell = next(cell for cell in notebook.cells if "def generate_without_cache" in cell.source)
    assert "logits[:, -1]" in cell.source
    cell.source = cell.source.replace("logits[:, -1]", "logits[:, 0]")


LOOPS = "The same tokens, two loops"
HEAD = "Multiply-accumulates of one attention head"
BREAKAGES = {
    "an exact number": edited(HEAD, lambda html: html.replace("11,448,320", "11,448,321")),
    "a row": edited(HEAD, without_a_row),
    "a column": edited(HEAD, lambda html: re.sub(r'<th scope="col"[^>]*>Ratio.*?</th>', "", html)),
    "a row of a table of timings": edited(LOOPS, without_a_row),
    "a verdict": edited(
        "What the chapter claims", lambda html: html.replace("holds here", "does not hold here", 1)
    ),
    "a loop": break_a_loop,
}


@pytest.mark.parametrize("what", BREAKAGES)
def test_a_breakage_turns_the_comparison_red(tmp_path, what):
    assert changed(tmp_path, BREAKAGES[what]) == pytest.ExitCode.TESTS_FAILED


def test_masked_timings_may_differ(tmp_path):
    """The control: a changed timing is no breakage, so what fails above fails for its own reason."""
    masked = re.compile(r'(<td class="number varies">)[^<]*')
    change = edited(LOOPS, lambda html: masked.sub(r"\g<1>9,999", html))
    assert changed(tmp_path, change) == pytest.ExitCode.OK
