"""A night's run on the small book, by the commands that the workflow calls."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from bookbuild import night as night_module
from bookbuild import night_commands
from bookbuild.after_night import main as after_night
from bookbuild.cli import main as build
from bookbuild.layout import Layout
from bookbuild.night_report import Failure, read_report
from bookbuild.reference import write_references

#: Whole builds take seconds each: they run with the tests of the site.
pytestmark = pytest.mark.site
ARGUMENTS = ["--model", "smollm2-135m", "--device", "cpu", "--locale", "en"]
SECOND = "fake-two"


@pytest.fixture(scope="module")
def built(shared_project, repository):
    """The small book, built once, with a second section, a drift page, and the reference of both sections."""
    project = shared_project
    text = (project.sources / "fake.md").read_text(encoding="utf-8")
    (project.sources / f"{SECOND}.md").write_text(
        text.replace('open_section("fake"', f'open_section("{SECOND}"'), encoding="utf-8"
    )
    toc = project.root / "_toc.yml"
    pages = toc.read_text(encoding="utf-8").replace("- file: fake\n", f"- file: fake\n  - file: {SECOND}\n")
    toc.write_text(f"{pages}  - file: drift\n", encoding="utf-8")
    (project.pages / "drift.md").write_text("# Drift\n\n<!-- drift -->\n", encoding="utf-8")
    settings = project.root / "tests" / "book"
    settings.mkdir(parents=True)
    shutil.copy(repository.root / "tests" / "book" / "nbval_sanitize.cfg", settings)
    assert build(project.root, ARGUMENTS) == 0
    write_references(project)
    return project


@pytest.fixture
def book(built, tmp_path):
    """A copy of it to change at will."""
    shutil.copytree(built.root, tmp_path / "book")
    return Layout(tmp_path / "book")


def night(book, *more):
    """The exit status of a night's run, and its report."""
    status = night_commands.main(book.root, ["run", *ARGUMENTS, *more])
    (path,) = book.night.glob("*.json")
    return status, read_report(path)


def edit(book, slug, old, new):
    """Change a section's source."""
    path = book.sources / f"{slug}.md"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def issue(book, *more):
    """The text of the issue that follows; None where there is none."""
    out = book.root / "issue"
    assert after_night(book.root, ["issue", "--reports", str(book.night), "--out", str(out), *more]) == 0
    body = out / "body.md"
    return body.read_text(encoding="utf-8") if body.exists() else None


def test_a_good_night_measures_again_adds_its_line_and_leaves_a_site(book):
    record = book.records / "smollm2-135m-cpu" / "fake.json"
    before = record.stat().st_mtime_ns
    status, report = night(book, "--keep")
    assert (status, report.failures) == (0, ())
    assert record.stat().st_mtime_ns > before
    assert set(report.seconds) == {"measure", "compare", "build"}
    (line,) = book.history.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["run"] == "smollm2-135m-cpu"
    assert (book.site / "history.jsonl").read_bytes() == book.history.read_bytes()
    assert "1 night is recorded." in (book.site / "en" / "drift.html").read_text(encoding="utf-8")
    assert issue(book) is None


def test_a_broken_section_fails_the_night_alone_and_is_named_with_its_error(book):
    edit(book, "fake", '"rows": list', '"rows": lst')
    status, report = night(book, "--keep")
    assert status == 1
    (failure,) = report.failures
    assert (failure.step, failure.section) == ("measure", "fake")
    assert failure.difference.endswith("NameError: name 'lst' is not defined")
    assert (book.records / "smollm2-135m-cpu" / f"{SECOND}.json").exists(), "the next section ran"
    assert not (book.records / "smollm2-135m-cpu" / "fake.json").exists(), (
        "nothing of an earlier night is left"
    )
    text = issue(book)
    assert "`fake`, step measure" in text
    assert "NameError: name 'lst' is not defined" in text
    assert (book.root / "issue" / "title.txt").read_text(encoding="utf-8") == "Nightly run failed: fake\n"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (":tags: [parameters]", ":tags: [parameters", "fake: Code cell 1 at line 16 could not be read"),
        ("rows = 3", "rows = ", "fake: its parameters cell must set plain values only: invalid syntax"),
        ('"rows": list', "1: __import__('os')._exit(1), 2: list", "fake: its kernel died"),
    ],
)
def test_a_section_that_cannot_be_read_or_ends_its_kernel_fails_alone(book, capsys, old, new, says):
    record = book.records / "smollm2-135m-cpu" / f"{SECOND}.json"
    record.unlink()
    edit(book, "fake", old, new)
    status, report = night(book)
    assert status == 1
    (failure,) = report.failures
    assert (failure.step, failure.section) == ("measure", "fake")
    assert failure.difference.startswith(says)
    assert record.exists(), "the next section ran"
    said = capsys.readouterr().err
    assert "Nightly run failed: fake" in said
    assert says in said


def test_a_step_that_breaks_in_an_unknown_way_is_a_failure_of_its_own(book, monkeypatch):
    def broken(*_, **__):
        raise KeyError("nobody thought of it")

    monkeypatch.setattr(night_module, "compare_references", broken)
    status, report = night(book)
    assert status == 1
    assert report.failures == (Failure("compare", "", "KeyError: 'nobody thought of it'"),)
    assert "build" in report.seconds


def test_a_moved_value_is_reported_with_what_was_expected_and_what_was_found(book):
    reference = book.reference / f"{SECOND}.ipynb"
    text = reference.read_text(encoding="utf-8")
    assert ">2</th>" in text
    reference.write_text(text.replace(">2</th>", ">7</th>"), encoding="utf-8")
    status, report = night(book)
    assert status == 1
    (failure,) = report.failures
    assert (failure.step, failure.section) == ("compare", SECOND)
    assert ">7</th>" in failure.difference
    assert ">2</th>" in failure.difference
    assert "\x1b" not in failure.difference
    assert not book.history.exists(), "only a run that is told to keeps its values"


def test_a_dead_link_fails_the_night(book):
    page = book.pages / "glossary.md"
    page.write_text(
        '# Glossary\n\n## Words\n\n<a href="gone.html">gone</a> <a href="fake.html#gone">gone</a>\n',
        encoding="utf-8",
    )
    status, report = night(book)
    assert status == 1
    (failure,) = report.failures
    assert failure.step == "links"
    assert failure.difference.splitlines() == [
        "en/glossary.html: gone.html",
        "en/glossary.html: fake.html#gone",
    ]


def test_a_page_that_does_not_build_fails_the_night(book):
    (book.pages / "glossary.md").write_text("# Glossary\n\n[nowhere](nowhere.md)\n", encoding="utf-8")
    status, report = night(book)
    assert status == 1
    assert [failure.step for failure in report.failures] == ["build"]
    assert "nowhere.md" in report.failures[0].difference


def test_the_command_runs_as_the_workflow_calls_it(book, repository):
    """Both scripts in processes of their own, the second one with another Python's bare library."""
    scripts = book.root / "scripts"
    scripts.mkdir()
    for name in ("nightly.py", "after_night.py"):
        shutil.copy(repository.root / "scripts" / name, scripts)
    (book.root / "src").symlink_to(repository.root / "src")
    edit(book, "fake", '"rows": list', '"rows": lst')
    run = [sys.executable, str(scripts / "nightly.py"), "run", *ARGUMENTS]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Nightly run failed: fake" in done.stderr
    jobs = json.dumps({"book": {"result": "failure", "outputs": {}}})
    after = [sys.executable, "-S", str(scripts / "after_night.py"), "issue", "--jobs", jobs]
    after += ["--reports", str(book.night), "--out", str(book.root / "issue")]
    place = {
        "GITHUB_SERVER_URL": "https://example.org",
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_RUN_ID": "7",
        "PATH": os.environ["PATH"],
    }
    subprocess.run(after, check=True, capture_output=True, text=True, env=place)
    text = (book.root / "issue" / "body.md").read_text(encoding="utf-8")
    assert "https://example.org/a/b/actions/runs/7" in text
    assert "Job `book` ended with `failure`." in text
