"""Another language must cost seconds: replaying and rendering load neither torch nor transformers."""

import subprocess
import sys
from pathlib import Path

import pytest

import cheap_inference
from cheap_inference import experiments, settings

PACKAGE = Path(cheap_inference.__file__).parent
RENDERING = sorted(
    path.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".")
    for folder in ("render", "views")
    for path in (PACKAGE / folder).glob("[!_]*.py")
)
HEAVY = ("torch", "transformers", "jupyter_book", "papermill")


def loaded_after(code: str) -> set[str]:
    """Which heavy libraries a fresh interpreter has loaded after running `code`."""
    probe = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return set(done.stdout.split("\n")[-2].split())


def test_all_of_rendering_at_once_loads_nothing_heavy():
    assert loaded_after("import " + ", ".join(RENDERING)) == set()


@pytest.mark.parametrize(
    "module", ["section", "records", "claims", "scoreboard", "sourcekey", "machine", "models"]
)
def test_opening_and_reading_records_loads_nothing_heavy(module):
    assert loaded_after(f"import cheap_inference.{module}") == set()


def test_opening_a_section_loads_nothing_heavy():
    opened = (
        "from cheap_inference.section import open_section\n"
        "open_section('kv-cache', model='smollm2-135m', device='cpu', locale='pl')"
    )
    assert loaded_after(opened) == set()


@pytest.mark.parametrize("use", ["", "\nexperiment.judge_schemes"])
def test_a_sections_measurements_are_loaded_at_their_first_use(use):
    imported = "from cheap_inference.experiments import quality as experiment" + use
    assert loaded_after(imported) == ({"torch", "transformers"} if use else set())


def test_a_deferred_module_can_be_changed_like_any_other(monkeypatch):
    deferred = experiments._Deferred("cheap_inference.settings")
    monkeypatch.setattr(deferred, "between", "changed")
    assert settings.between == deferred.between == "changed"
    monkeypatch.undo()
    assert callable(settings.between)


def test_an_experiment_that_is_not_there_is_an_import_error():
    with pytest.raises(ImportError, match="nothing"):
        from cheap_inference.experiments import nothing  # noqa: F401


def test_the_probe_can_fail():
    assert loaded_after("import torch") == {"torch"}
