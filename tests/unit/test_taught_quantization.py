"""The code that the three sections on quantization teach is the package's, bit for bit."""

import ast
import re
from pathlib import Path

import pytest
import torch

from cheap_inference import quality
from cheap_inference.quantize import activation_rounding, nf4
from cheap_inference.quantize.schemes import (
    CHAPTER_SCHEMES,
    INT4_GROUP64,
    NF4_GROUP128,
)

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CELLS = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LONGEST_CELL = 20


def taught(slug: str, *names: str) -> dict:
    """What the cells that define `names` leave behind when they run, in their order."""
    text = (NOTEBOOKS / f"{slug}.md").read_text(encoding="utf-8")
    cells = [re.sub(r"^:.*\n", "", cell, flags=re.MULTILINE) for cell in CELLS.findall(text)]
    namespace: dict = {}
    for cell in cells:
        defined = {node.name for node in ast.parse(cell).body if isinstance(node, ast.FunctionDef)}
        if defined & set(names):
            assert len(cell.strip().splitlines()) <= LONGEST_CELL
            exec(cell, namespace)
    assert set(names) <= namespace.keys()
    return namespace


@pytest.fixture(scope="module")
def weights():
    return taught("weight-quantization", "round_absmax", "nf4_levels", "round_nf4")


def matrix(columns):
    weight = torch.randn(12, columns, generator=torch.Generator().manual_seed(columns))
    weight[0] = 0
    weight[1, :64] = 0
    weight[2, 3] = 50
    return weight


@pytest.mark.parametrize("columns", [576, 640, 33])
@pytest.mark.parametrize(
    "scheme", [*CHAPTER_SCHEMES, INT4_GROUP64, NF4_GROUP128], ids=lambda scheme: scheme.name
)
def test_the_taught_rounding_is_the_packages(weights, scheme, columns):
    if scheme.levels == "nf4":
        found = weights["round_nf4"](matrix(columns), scheme.granularity)
    else:
        found = weights["round_absmax"](matrix(columns), scheme.bits, scheme.granularity)
    assert torch.equal(found, scheme(matrix(columns)))


def test_the_taught_levels_are_the_packages(weights):
    assert torch.equal(weights["nf4_levels"](), nf4.nf4_levels())


@pytest.mark.parametrize("name", ["per_tensor", "per_token", "mixed"])
def test_the_taught_activation_rounding_is_the_packages(name):
    roundings = taught("activation-outliers", "rounded", "per_tensor", "mixed")["roundings"]
    inputs = torch.randn(2, 9, 64, generator=torch.Generator().manual_seed(0)) * 2
    inputs[:, 0, 5] = 40
    inputs[0, 3] = 0
    expected = getattr(activation_rounding, name)(inputs)
    assert torch.equal(roundings[name.replace("_", "-")](inputs), expected)
    assert not torch.equal(expected, inputs)


def test_the_taught_scores_are_the_packages():
    score_tokens = taught("quality", "score_tokens")["score_tokens"]
    generator = torch.Generator().manual_seed(0)
    before, after = torch.randn(2, 20, 50, generator=generator) * 3
    targets = torch.randint(0, 50, (20,), generator=generator)
    expected = quality.score_tokens(before, after, targets)
    for found, wanted in zip(score_tokens(before, after, targets), expected, strict=True):
        assert torch.equal(found, wanted)
    assert expected.flips.any()
