"""The algorithm on a page is the algorithm that other sections use: compared as syntax trees."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CELLS = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def functions(source: str) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}


def taught(slug: str) -> dict[str, ast.FunctionDef]:
    """Functions defined in a notebook's cells, without the option lines of the cells."""
    text = (ROOT / "notebooks" / f"{slug}.md").read_text(encoding="utf-8")
    cells = (re.sub(r"^:.*\n", "", cell, flags=re.MULTILINE) for cell in CELLS.findall(text))
    return functions("\n".join(cells))


@pytest.fixture(scope="module")
def loops():
    namespace: dict = {}
    code = "\n".join(ast.unparse(node) for node in taught("kv-cache").values())
    exec("import torch\nfrom cheap_inference.kv_cache import forward, new_cache\n" + code, namespace)
    return namespace


@pytest.mark.parametrize("name", ["generate_without_cache", "generate_with_cache"])
def test_the_taught_loops_give_the_packages_tokens(loops, name, tiny_llama):
    import torch

    from cheap_inference import generation

    prompt = torch.arange(7)[None]
    expected = getattr(generation, name)(tiny_llama, prompt, 9)
    assert torch.equal(loops[name](tiny_llama, prompt, 9), expected)
    assert expected.shape == (9,)


def test_the_taught_peak_is_the_packages(monkeypatch):
    from cheap_inference import memory

    namespace: dict = {}
    exec(ast.unparse(taught("peak-memory")["peak_of"]), namespace)
    events = [(1, 100), (2, 50), (1, -100), (9, -7), (3, 30), (1, 90), (2, -50), (4, 5)]
    monkeypatch.setattr(memory, "_memory_events", lambda *_: [(*event, "op") for event in events])
    blocks = [block for block in memory.allocations(lambda: None, device="cpu") if block.live_at_peak]
    peak, live = namespace["peak_of"](events)
    assert peak == sum(block.bytes for block in blocks) == 170
    assert sorted(live.values()) == sorted(block.bytes for block in blocks)
