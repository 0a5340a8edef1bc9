"""The map in ARCHITECTURE.md names every module once, and says of it what the module says of itself.

A module counts as named where its path below `src/`, or `scripts/…`, stands in backticks:
`cheap_inference/kv_cache.py`. `__init__.py` files need no name.
"""

from __future__ import annotations

import ast
import re
from collections import Counter


def test_the_map_is_the_tree(repository):
    text = (repository.root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = Counter(re.findall(r"`((?:cheap_inference|bookbuild|scripts)/[\w/]+\.py)`", text))
    sources = [path.relative_to(repository.root / "src") for path in (repository.root / "src").rglob("*.py")]
    scripts = [path.relative_to(repository.root) for path in (repository.root / "scripts").glob("*.py")]
    tree = Counter(path.as_posix() for path in [*sources, *scripts] if path.name != "__init__.py")
    assert sorted(tree - named) == [], "modules that the map lacks"
    assert sorted(named - tree) == [], "modules that the map invents or names twice"


def test_a_row_of_the_map_is_the_first_line_of_the_module(repository):
    text = (repository.root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `((?:cheap_inference|bookbuild)/[\w/]+\.py)` \| (.+?) \|$", text, re.MULTILINE)
    assert rows
    for name, told in rows:
        module = ast.parse((repository.root / "src" / name).read_text(encoding="utf-8"))
        said = ast.get_docstring(module).partition("\n\n")[0].replace("\n", " ")
        assert told.replace("`", "") == said.removesuffix(".").replace("`", ""), name
