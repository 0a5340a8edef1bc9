"""The serving notebooks: every claim registered, and the algorithm they teach is the package's."""

import ast
import re
from pathlib import Path

import pytest

from cheap_inference import claims, scheduling
from cheap_inference import paged_kv_cache as blocks

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def source(slug):
    return (NOTEBOOKS / f"{slug}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("slug", ["continuous-batching", "paged-cache"])
def test_every_claim_of_the_section_is_registered(slug):
    registered = re.findall(r'page\.claim\(\s*"([^"]+)"', source(slug))
    assert sorted(registered) == sorted(claim.id for claim in claims.claims_of(slug))


def without_docstrings(code):
    tree = ast.parse(code)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1 and isinstance(body[0], ast.Expr):
            node.body = body[1:] if isinstance(body[0].value, ast.Constant) else body
    return tree


def definition(tree, name):
    return ast.dump(next(node for node in ast.walk(tree) if getattr(node, "name", None) == name))


@pytest.mark.parametrize(
    ("slug", "module", "name"),
    [("continuous-batching", scheduling, "admit"), ("paged-cache", blocks, "BlockAllocator")],
)
def test_the_notebooks_algorithm_is_the_packages(slug, module, name):
    cells = re.findall(r"```\{code-cell\}\n(.*?)```", source(slug), re.DOTALL)
    cell = next(cell for cell in cells if re.search(rf"^(def|class) {name}\b", cell, re.MULTILINE))
    assert len(cell.strip().splitlines()) <= 20
    package = without_docstrings(Path(module.__file__).read_text(encoding="utf-8"))
    assert definition(without_docstrings(cell), name) == definition(package, name)
