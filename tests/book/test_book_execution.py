"""Running notebooks: parameters, errors, interruption, and what may be used again."""

from __future__ import annotations

import io
import json
import shutil
import threading

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from rich.console import Console

from bookbuild.contents import read_contents
from bookbuild.environment import kernel_environment
from bookbuild.errors import BuildError, Interrupted
from bookbuild.execute import Kernels, check_parameters, execute
from bookbuild.layout import Layout
from bookbuild.progress import Reporter
from bookbuild.schedule import Run, Schedule
from bookbuild.stage import KERNEL, stage_notebooks, write_notebook
from bookbuild.trust import complete
from cheap_inference import claims
from cheap_inference.errors import UserError
from cheap_inference.records import Record

RUN = Run("smollm2-135m-cpu", "smollm2-135m", "cpu")


def notebook_of(*sources: str, tags: tuple[str, ...] = ("parameters",)):
    cells = [new_code_cell(source, id=f"c{i}") for i, source in enumerate(sources)]
    cells[0].metadata["tags"] = list(tags)
    return new_notebook(cells=cells, metadata={"kernelspec": KERNEL})


def run(tmp_path, *sources: str, kernels: Kernels | None = None, advance=lambda: None):
    write_notebook(tmp_path / "page.ipynb", notebook_of("x = 1", *sources))
    return execute(
        tmp_path / "page.ipynb",
        parameters={"x": 2},
        environment=kernel_environment(records=tmp_path, notebooks=tmp_path, mode="auto"),
        log=tmp_path / "log",
        kernels=kernels or Kernels(),
        advance=advance,
    )


@pytest.mark.parametrize(
    ("notebook", "message"),
    [
        (notebook_of("x = 1", tags=()), "page: one cell must be tagged `parameters`, not 0."),
        (notebook_of("y = 1"), "page: its parameters cell does not set x."),
        (
            notebook_of("y = 1\nx = "),
            "page: its parameters cell must set plain values only: invalid syntax (<unknown>, line 2).",
        ),
        (
            notebook_of("x = 1\nif x"),
            "page: its parameters cell must set plain values only: expected ':' (<unknown>, line 2).",
        ),
        (
            notebook_of("x = int(1)"),
            "page: its parameters cell must set plain values only: malformed node or string on line 1.",
        ),
    ],
)
def test_papermills_silent_mistakes_are_errors(notebook, message):
    with pytest.raises(BuildError) as failure:
        check_parameters("page", notebook, {"x"})
    assert str(failure.value) == message


def test_parameters_reach_the_kernel_and_every_cell_is_reported(tmp_path):
    calls = []
    executed = run(tmp_path, "x", advance=lambda: calls.append(1))
    assert executed.cells[-1].outputs[0].data["text/plain"] == "2"
    assert len(calls) == 3, "two cells and the injected one"


def test_the_environment_reaches_the_kernel(tmp_path):
    executed = run(tmp_path, "import os", "os.environ['OMP_WAIT_POLICY'], os.environ['CHEAP_INFERENCE_MODE']")
    assert executed.cells[-1].outputs[0].data["text/plain"] == "('passive', 'auto')"


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (
            "# a comment\nint('x')",
            BuildError,
            "page: the cell “# a comment” failed: ValueError: invalid literal for int() with base 10: 'x'",
        ),
        ("assert False", BuildError, "page: the cell “assert False” failed: AssertionError"),
        (
            "from cheap_inference.errors import UserError\nraise UserError('rows must be fewer.')",
            UserError,
            "rows must be fewer.",
        ),
    ],
)
def test_a_failed_cell_is_one_line(tmp_path, source, error, message):
    with pytest.raises(error) as failure:
        run(tmp_path, source)
    assert str(failure.value) == message


def test_a_killed_kernel_is_one_line(tmp_path):
    with pytest.raises(BuildError, match="page: its kernel died"):
        run(tmp_path, "import os, signal", "os.kill(os.getpid(), signal.SIGKILL)")


def test_stopping_the_kernels_ends_a_long_cell(tmp_path):
    kernels = Kernels()
    started = threading.Event()
    threading.Thread(target=lambda: (started.wait(60), kernels.stop())).start()
    with pytest.raises(Interrupted):
        run(tmp_path, "1", "import time; time.sleep(60)", kernels=kernels, advance=started.set)
    with pytest.raises(Interrupted):
        run(tmp_path, "1", kernels=kernels)


def schedule_of(layout: Layout) -> Schedule:
    return Schedule(layout, RUN, Reporter(Console(file=io.StringIO())))


@pytest.fixture
def schedule(project, contents) -> Schedule:
    """The schedule of the small book, staged."""
    stage_notebooks(project, contents, "en")
    return schedule_of(project)


@pytest.fixture(scope="module")
def measured_once(shared_project) -> Layout:
    """The small book after it was measured."""
    stage_notebooks(shared_project, read_contents(shared_project.root), "en")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bookbuild.schedule.digest_of_tree", lambda _: "package")
        schedule_of(shared_project).measure(["fake"], "en", fresh=False)
    return shared_project


@pytest.fixture
def measured(measured_once, tmp_path, monkeypatch) -> Schedule:
    """The schedule of a copy of the measured book, in which the package stays as it is."""
    copied = Layout(shutil.copytree(measured_once.root, tmp_path / "copy"))
    monkeypatch.setattr("bookbuild.schedule.digest_of_tree", lambda _: "package")
    return schedule_of(copied)


def test_what_was_measured_is_current_and_trusted(measured):
    assert measured.is_current("fake", "en")
    assert measured.has_record("fake", "en")
    executed = nbformat.read(measured.layout.executed("en") / "fake.ipynb", as_version=4)
    assert "1,234.5 ms" in executed.cells[5].outputs[0].data["text/markdown"]


def test_nothing_is_executed_twice(measured):
    path = measured.layout.executed("en") / "fake.ipynb"
    before = path.stat().st_mtime_ns
    measured.replay(["fake"], ["en"])
    assert path.stat().st_mtime_ns == before


def test_replaying_in_another_language_measures_nothing(measured, contents):
    before = measured.record_path("fake").read_bytes()
    stage_notebooks(measured.layout, contents, "pl")
    measured.replay(["fake"], ["en", "pl"])
    assert measured.record_path("fake").read_bytes() == before
    executed = nbformat.read(measured.layout.executed("pl") / "fake.ipynb", as_version=4)
    assert "1\xa0234,5 ms" in executed.cells[5].outputs[0].data["text/markdown"]


def test_a_changed_record_makes_the_executed_notebook_stale(measured):
    path = measured.record_path("fake")
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert not measured.is_current("fake", "en")
    assert measured.has_record("fake", "en")


def test_changed_prose_makes_the_executed_notebook_stale_but_not_the_record(measured):
    path = measured.layout.notebooks("en") / "fake.ipynb"
    path.write_text(
        path.read_text(encoding="utf-8").replace("Does a count cost", "Would a count cost"), encoding="utf-8"
    )
    assert not measured.is_current("fake", "en")
    assert measured.has_record("fake", "en")


@pytest.mark.parametrize(("old", "new"), [("1234.5", "1234.6"), ("rows = 3", "rows = 4")])
def test_changed_code_or_settings_make_the_record_stale(measured, old, new):
    path = measured.layout.notebooks("en") / "fake.ipynb"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert not measured.has_record("fake", "en")


@pytest.mark.parametrize("text", ["", "{", '{"schema": 1}'])
def test_a_damaged_record_is_measured_again(measured, text):
    measured.record_path("fake").write_text(text, encoding="utf-8")
    assert not measured.has_record("fake", "en")


def test_a_changed_package_makes_the_executed_notebook_stale(measured, monkeypatch):
    monkeypatch.setattr("bookbuild.schedule.digest_of_tree", lambda _: "another package")
    assert not schedule_of(measured.layout).is_current("fake", "en")


def test_a_lost_stamp_makes_the_executed_notebook_run_again(measured):
    (measured.layout.executed("en") / "fake.stamp").unlink()
    assert not measured.is_current("fake", "en")


def test_a_failed_cell_leaves_nothing_that_is_trusted(schedule, project):
    path = project.notebooks("en") / "fake.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(new_code_cell("1 / 0", id="last"))
    write_notebook(path, notebook)
    with pytest.raises(BuildError, match="ZeroDivisionError"):
        schedule.measure(["fake"], "en", fresh=False)
    assert not schedule.is_current("fake", "en")


def test_fresh_measures_what_has_a_record(measured):
    path = measured.record_path("fake")
    record = json.loads(path.read_text(encoding="utf-8"))
    record["parts"]["count"]["time"]["value"] = 7.0
    path.write_text(json.dumps(record), encoding="utf-8")
    measured.measure(["fake"], "en", fresh=False)
    assert json.loads(path.read_text(encoding="utf-8"))["parts"]["count"]["time"]["value"] == 7.0
    measured.measure(["fake"], "en", fresh=True)
    assert json.loads(path.read_text(encoding="utf-8"))["parts"]["count"]["time"]["value"] == 1234.5


def test_a_record_without_all_claims_is_no_complete_one():
    claim = claims.load()[0]
    section = [other.id for other in claims.load() if other.section == claim.section]
    record = Record(claim.section, "key", {}, {}, claims={claim_id: {} for claim_id in section})
    assert complete(record)
    del record.claims[claim.id]
    assert not complete(record)
