"""Another language must cost seconds: replaying and rendering load neither torch nor transformers."""

import subprocess
import sys
from pathlib import Path

import pytest

import cheap_inference

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


def test_the_probe_can_fail():
    assert loaded_after("import torch") == {"torch"}
