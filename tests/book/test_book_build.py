"""The build from end to end on a small book: kernels, jupyter-book and all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import nbformat
import pytest

from bookbuild.cli import main

#: Whole builds take seconds each: they run with the tests of the site.
pytestmark = pytest.mark.site
ARGUMENTS = ["--model", "smollm2-135m", "--device", "cpu"]


@pytest.fixture(scope="module")
def site(shared_project):
    """The site of the small book in two languages."""
    assert main(shared_project.root, [*ARGUMENTS, "--locale", "en", "pl"]) == 0
    return shared_project.site


def text_of(path):
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path",
    [
        "index.html",
        "en/fake.html",
        "pl/fake.html",
        "notebooks/en/fake.ipynb",
        "notebooks/pl/fake.ipynb",
        "data/fake/rows.csv",
        "records/smollm2-135m-cpu/fake.json",
        "scoreboard.json",
        "_shared/mathjax/tex-chtml.js",
    ],
)
def test_a_site_has_the_files_that_others_rely_on(site, path):
    assert (site / path).is_file()


def test_data_is_machine_readable_whatever_the_language(site):
    assert text_of(site / "data/fake/rows.csv").startswith(
        "row,time,time_low,time_high,time_n\n0,1234.5,1.0,2.0,3\n"
    )
    assert json.loads(text_of(site / "scoreboard.json"))["schema"] == 1


def test_published_notebooks_have_no_outputs(site):
    published = nbformat.read(site / "notebooks/en/fake.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in published.cells)


def test_pages_speak_the_numbers_of_their_language(site):
    assert "1,234.5" in text_of(site / "en/fake.html")
    assert "1\xa0234,5" in text_of(site / "pl/fake.html")
    assert '<html lang="pl"' in text_of(site / "pl/fake.html")


def test_the_answer_stands_first_and_plumbing_nowhere(site):
    page = text_of(site / "en/fake.html")
    assert page.index("It took") < page.index("<h2>Each row is one more")
    assert "injected" not in page


def test_a_page_leads_to_itself_in_the_other_languages(site):
    page = text_of(site / "en/fake.html")
    assert '<a href="../pl/fake.html" lang="pl" hreflang="pl">Polski</a>' in page
    assert '<link rel="alternate" hreflang="pl" href="../pl/fake.html">' in page


def test_the_start_page_knows_the_languages_that_were_built(site):
    page = text_of(site / "index.html")
    assert 'const built = ["en", "pl"];' in page
    assert '<a href="pl/index.html" lang="pl" hreflang="pl">Polski<br>' in page


def test_a_part_is_built_from_what_was_executed_and_is_all_there_is(project, capsys, monkeypatch):
    monkeypatch.setattr("bookbuild.schedule.digest_of_tree", lambda _: "an edit meanwhile must not matter")
    assert main(project.root, [*ARGUMENTS, "--locale", "en", "pl"]) == 0
    assert capsys.readouterr().out == f"{project.site / 'index.html'}\n"
    executed = project.executed("en") / "fake.ipynb"
    before = executed.stat().st_mtime_ns
    assert main(project.root, [*ARGUMENTS, "--locale", "en", "--section", "fake"]) == 0
    assert executed.stat().st_mtime_ns == before, "nothing was executed again"
    assert not (project.site / "pl").exists()
    assert "ci-languages" not in text_of(project.site / "en/fake.html"), "no switch to one language"


def test_a_warning_of_the_pages_fails_the_build(project, capsys):
    page = project.pages / "glossary.md"
    page.write_text("# Glossary\n\n## Words\n\n[nowhere](nowhere.md)\n", encoding="utf-8")
    for _ in range(2):  # a second run must not forget the warning
        assert main(project.root, [*ARGUMENTS, "--locale", "en"]) == 1
        assert "nowhere.md" in capsys.readouterr().err
    assert not project.site.exists()


def test_a_cell_error_fails_the_build_in_one_line(project, capsys):
    path = project.sources / "fake.md"
    path.write_text(path.read_text(encoding="utf-8").replace('rows": list', 'rows": lst'), encoding="utf-8")
    assert main(project.root, [*ARGUMENTS, "--locale", "en"]) == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("fake: the cell “count = page.measure(")
    assert last.endswith("failed: NameError: name 'lst' is not defined")


def test_a_notebook_without_parameters_is_refused_before_it_runs(project, capsys):
    path = project.sources / "fake.md"
    path.write_text(path.read_text(encoding="utf-8").replace(":tags: [parameters]\n", ""), encoding="utf-8")
    assert main(project.root, [*ARGUMENTS, "--locale", "en"]) == 1
    assert capsys.readouterr().err == "fake: one cell must be tagged `parameters`, not 0.\n"


def test_an_interruption_is_one_line_and_the_next_run_goes_on(project, capsys):
    path = project.sources / "fake.md"
    whole = path.read_text(encoding="utf-8")
    endless = 'import pathlib, time\n\npathlib.Path("started").touch()\ntime.sleep(120)'
    path.write_text(f"{whole}\n```{{code-cell}}\n{endless}\n```\n", encoding="utf-8")
    # A run in the background of a script inherits that Ctrl-C is ignored.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"from pathlib import Path; from bookbuild.cli import main; sys.exit(main(Path({str(project.root)!r})))"
    )
    command = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUTF8": "1"}
    )
    deadline = time.monotonic() + 60
    while not (project.notebooks("en") / "started").exists():
        assert command.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    command.send_signal(signal.SIGINT)
    _, err = command.communicate(timeout=30)
    assert command.returncode == 130
    assert err.strip().splitlines()[-1].startswith("Interrupted")
    assert "Traceback" not in err
    assert not list(project.build.rglob("*.stamp"))

    path.write_text(whole, encoding="utf-8")
    assert main(project.root, [*ARGUMENTS, "--locale", "en"]) == 0
