"""A record's code digest moves with the measuring code and with nothing else."""

import json

import pytest

from cheap_inference import sourcekey

CELL = "from cheap_inference.cost import total\nx = total(3)\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package of the same name, so that files can be changed."""
    root = tmp_path / "cheap_inference"
    files = {
        "__init__.py": "",
        "cost.py": "from .basis import one\n\ndef total(n):\n    return n * one()\n",
        "basis.py": "def one():\n    return 1\n\n\nTEXT = 'words.txt'\n",
        "data/words.txt": "first",
        "data/other.txt": "first",
        "unused.py": "x = 1\n",
        "models/__init__.py": "",
        "models/load.py": "def load():\n    return 1\n",
        "views/__init__.py": "",
        "views/cost.py": "def table():\n    return 'a'\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(sourcekey, "PACKAGE", root)
    return root


def digest(*cells):
    return sourcekey.code_digest(list(cells or (CELL,)))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("cost.py", "n * one()", "n + one()"),
        ("basis.py", "return 1", "return 2"),
        ("models/load.py", "return 1", "return 2"),
        ("data/words.txt", "first", "second"),
    ],
)
def test_changing_code_that_is_reached_changes_the_digest(package, file, old, new):
    before = digest()
    path = package / file
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert digest() != before


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("unused.py", "x = 2\n"),
        ("data/other.txt", "second"),
        ("views/cost.py", "def table():\n    return 'b'\n"),
        (
            "basis.py",
            '"""A docstring."""\n\n\ndef one():\n    """One."""\n    # why\n    return 1\n\n\nTEXT = "words.txt"\n',
        ),
    ],
)
def test_wording_comments_and_unreached_code_do_not(package, file, text):
    cells = [CELL, "from cheap_inference.views import cost as view\n"]
    before = digest(*cells)
    (package / file).write_text(text, encoding="utf-8")
    assert digest(*cells) == before


def test_breaking_a_loop_in_a_cell_changes_the_digest(package):
    assert digest(CELL) != digest(CELL.replace("total(3)", "total(4)"))


def test_parameters_and_prose_are_no_code(tmp_path):
    def cell(kind, source, *tags):
        return {"cell_type": kind, "source": [source], "metadata": {"tags": list(tags)}}

    path = tmp_path / "n.ipynb"
    cells = [cell("markdown", "# Title"), cell("code", "locale = 'en'", "parameters"), cell("code", "x = 1")]
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert sourcekey.notebook_cells(path) == ["x = 1"]


def test_the_real_package_is_followed_through_relative_imports():
    names = {
        path.name for path in sourcekey.reached_files(["from cheap_inference.section import open_section"])
    }
    assert names == set(), "the section object only renders and stores; it is no measuring code"
    names = {path.name for path in sourcekey.reached_files(["from cheap_inference import records"])}
    assert {"records.py", "quantity.py", "errors.py"} <= names
