"""Published notebooks run as Colab runs them: a fresh environment, no checkout, no edit."""

from __future__ import annotations

import subprocess
from importlib import metadata

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from bookbuild import colab_check, colab_visit
from bookbuild.after_night import main as after_night
from bookbuild.colab_machine import environment_there, make_machine, with_requirements
from bookbuild.colab_visit import Visit, committed, copy_sources, publish, visited
from bookbuild.contents import read_contents
from bookbuild.errors import BuildError
from bookbuild.layout import Layout
from bookbuild.publication import Publication

SECTION = "cache-size"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--section", "nowhere"], "--section must be one of"),
        (["--locale", "de"], "--locale must be one of"),
        (["--fast"], "--fast"),
    ],
)
def test_a_bad_argument_is_one_line(repository, capsys, arguments, words):
    assert colab_check.main(repository.root, arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_a_machine_knows_nothing_of_the_build():
    here = {
        "PATH": "/bin",
        "HOME": "/root",
        "CHEAP_INFERENCE_CACHE": "/cache",
        "CHEAP_INFERENCE_RECORDS": "/records",
        "PYTHONPATH": "/work",
        "HF_TOKEN": "secret",
    }
    assert set(environment_there(here)) == {"PATH", "HOME", "CHEAP_INFERENCE_CACHE"}


def test_a_machine_has_what_libraries_require_and_not_what_builds_the_book():
    names = {each.name.lower() for each in with_requirements(("torch", "matplotlib"))}
    assert {"torch", "sympy", "numpy", "matplotlib", "pillow"} <= names
    assert not names & {"cheap-inference", "papermill", "gguf"}


def visit(outputs=(), seconds=5.0, installed=("cheap-inference",)):
    first = type("Cell", (), {"outputs": list(outputs)})
    return Visit(type("Notebook", (), {"cells": [first]}), seconds, seconds, installed)


@pytest.mark.parametrize(
    ("met", "complaint"),
    [
        (visit(outputs=["a line"]), "its first cell is not quiet"),
        (visit(seconds=121.0), "its first cell took 121 seconds"),
        (visit(installed=("cheap-inference", "numpy")), "its first cell installed numpy anew"),
    ],
)
def test_a_first_cell_that_does_too_much_is_told(met, complaint):
    assert colab_visit._complaint(met, None, None) == complaint


def test_a_notebook_that_fails_is_reported_and_keeps_no_other_from_running(
    repository, tmp_path, monkeypatch, capsys
):
    """Every section in two languages, with a stand-in for the visits; the report becomes the night's issue."""
    layout = copy_sources(repository, tmp_path / "checkout")
    opened = []

    def stand_in(_checkout, slug, locale, _publication, *, kept):
        opened.append((slug, locale))
        if slug == SECTION and locale == "hi":
            raise BuildError(f"{slug} ({locale}) in Colab: NameError: name 'x' is not defined")
        return visit()

    monkeypatch.setattr(colab_check, "visited", stand_in)
    assert colab_check.main(layout.root, ["--locale", "en", "hi"]) == 1
    sections = read_contents(layout.root).sections
    assert opened == [(slug, locale) for locale in ("en", "hi") for slug in sections]
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == len(opened) - 1
    assert err == f"{SECTION} (hi) in Colab: NameError: name 'x' is not defined\n"

    issue = ["issue", "--reports", str(layout.night), "--out", str(tmp_path / "issue")]
    assert after_night(layout.root, [*issue, "--jobs", '{"colab": {"result": "failure"}}']) == 0
    body = (tmp_path / "issue" / "body.md").read_text(encoding="utf-8")
    assert "Job `colab` ended with `failure`." in body
    assert "## Colab (en, hi)" in body
    assert f"### `{SECTION}`, step colab" in body
    assert "NameError: name 'x' is not defined" in body


@pytest.fixture(scope="module")
def checkout(repository, translate, tmp_path_factory):
    """A copy of this checkout with a Polish translation, made of marked English."""
    copied = copy_sources(repository, tmp_path_factory.mktemp("colab") / "checkout")
    translate(copied, "pl", {})
    return copied


@pytest.fixture(scope="module")
def publication(checkout):
    """Its commit, where pip can clone it."""
    return committed(checkout)


def shown(notebook) -> str:
    """Everything that the cells put out, as text."""
    data = (output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))
    return "\n".join(text for each in data for mime, text in each.items() if mime.startswith("text/"))


@pytest.mark.model
@pytest.mark.colab
@pytest.mark.parametrize("locale", ["en", "pl"])
def test_a_section_runs_from_its_first_cell_to_its_last(checkout, publication, locale):
    publish(checkout, locale, publication)
    met = visited(checkout, SECTION, locale, publication)
    assert {"cheap-inference", "gguf"} <= set(met.installed)
    verdicts = [cell for cell in met.notebook.cells if cell.source.rstrip().endswith("page.verdicts()")]
    assert "<table" in verdicts[0].outputs[0].data["text/html"]
    assert ("(pl)" in shown(met.notebook)) == (locale == "pl")


@pytest.mark.model
@pytest.mark.colab
def test_a_commit_that_is_not_there_is_one_line(checkout, publication, tmp_path):
    gone = type(publication)(publication.repository, "0" * 40)
    publish(checkout, "en", gone)
    with pytest.raises(BuildError, match=rf"^{SECTION} \(en\) in Colab: RuntimeError: .+"):
        visited(checkout, SECTION, "en", gone, kept=tmp_path)
    assert (tmp_path / f"{SECTION}.ipynb").exists()


@pytest.mark.colab
def test_a_cell_that_hangs_is_given_up_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(colab_visit, "CELL_SECONDS", 2)
    published = Layout(tmp_path)
    notebook = published.site / "notebooks" / "en" / f"{SECTION}.ipynb"
    notebook.parent.mkdir(parents=True)
    nbformat.write(new_notebook(cells=[new_code_cell("import time; time.sleep(600)")]), notebook)
    with pytest.raises(BuildError, match=rf"^{SECTION} \(en\) in Colab: a cell took over 2 seconds$"):
        visited(published, SECTION, "en", Publication("file:///nowhere", "0" * 40))


@pytest.mark.colab
def test_a_machine_starts_without_the_package_and_with_the_libraries_of_this_one(tmp_path):
    machine = make_machine(tmp_path / "machine")
    assert set(machine.installed()) == set()
    code = (
        "import importlib.util as u; from importlib.metadata import version;"
        "import google.colab; print(u.find_spec('cheap_inference'), u.find_spec('papermill'), version('torch'))"
    )
    done = subprocess.run(
        [machine.folder / "python/bin/python", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=machine.content,
        env=environment_there({}),
    )
    assert done.stdout.split() == ["None", "None", metadata.version("torch")]
