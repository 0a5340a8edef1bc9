"""The code that shared-heads, batching and fits teach: right by hand-worked cases, and the package's where it has the same."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from cheap_inference import claims, fits
from cheap_inference.generation import generate_with_cache

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SLUGS = ("shared-heads", "batching", "fits")
CELL = re.compile(r"^```\{code-cell\}\n(?::[^\n]*\n)*(.*?)^```$", re.MULTILINE | re.DOTALL)


def cells(slug):
    return CELL.findall((NOTEBOOKS / f"{slug}.md").read_text(encoding="utf-8"))


@cache
def taught(slug):
    """What the cells that define functions leave in a namespace, the functions and imports alone executed."""
    kept = (ast.FunctionDef, ast.Import, ast.ImportFrom)
    namespace: dict = {}
    for cell in cells(slug):
        if re.search(r"^def ", cell, re.MULTILINE):
            body = [node for node in ast.parse(cell).body if isinstance(node, kept)]
            exec(compile(ast.Module(body, []), slug, "exec"), namespace)
    return namespace


@pytest.mark.parametrize("slug", SLUGS)
def test_every_claim_of_the_section_is_registered(slug):
    registered = re.findall(r'page\.claim\(\s*"([^"]+)"', "\n".join(cells(slug)))
    assert sorted(registered) == sorted(claim.id for claim in claims.claims_of(slug))


@pytest.mark.parametrize("slug", SLUGS)
def test_taught_cells_are_short_enough_to_read(slug):
    found = [cell for cell in cells(slug) if re.search(r"^def ", cell, re.MULTILINE)]
    assert found
    assert all(len(cell.strip().splitlines()) <= 20 for cell in found)


@pytest.mark.parametrize("kv_heads", [12, 6, 3, 1])
def test_shared_attention_is_torchs_grouped_attention(kv_heads):
    torch.manual_seed(kv_heads)
    query, keys, values = torch.randn(12, 8), torch.randn(kv_heads, 5, 8), torch.randn(kv_heads, 5, 8)
    expected = functional.scaled_dot_product_attention(
        query[None, :, None], keys[None], values[None], enable_gqa=True
    )[0, :, 0]
    found = taught("shared-heads")["attend"](query, keys, values)
    torch.testing.assert_close(found, expected)


def test_shared_attention_is_multi_head_with_repeated_keys():
    torch.manual_seed(0)
    attend = taught("shared-heads")["attend"]
    query, keys, values = torch.randn(6, 4), torch.randn(2, 7, 4), torch.randn(2, 7, 4)
    repeated = attend(query, keys.repeat_interleave(3, dim=0), values.repeat_interleave(3, dim=0))
    torch.testing.assert_close(attend(query, keys, values), repeated)


def test_a_batch_gives_every_row_its_own_tokens(tiny_llama):
    prompts = torch.randint(0, 128, (3, 9), generator=torch.Generator().manual_seed(1))
    alone = [generate_with_cache(tiny_llama, prompt[None], 7) for prompt in prompts]
    together = taught("batching")["generate_batch"](tiny_llama, prompts, 7)
    assert torch.equal(together, torch.stack(alone))


@pytest.mark.parametrize(
    ("throughputs", "knee"),
    [
        ((1, 2, 4, 8), None),  # every doubling pays
        ((1, 2, 4, 4.1), 4),
        ((1, 1.1, 2.2, 2.4), 4),  # a slow second size does not end the search
        ((1, 1.1, 1.2, 1.3), 1),  # none pays
        ((1, 2, 2.4, 2.5), 4),  # exactly a fifth more still counts
        ((1, 2, 2.1, 2.6), None),  # the last one pays although the one before did not
    ],
)
def test_the_knee_by_hand(throughputs, knee):
    assert taught("batching")["find_knee"]((1, 2, 4, 8), throughputs) == knee


def test_one_size_is_its_own_knee():
    assert taught("batching")["find_knee"]((1,), (5.0,)) == 1


@pytest.mark.parametrize("model", fits.open_models(), ids=lambda model: model.name)
@pytest.mark.parametrize("asked", [(16, 16, 4096), (4.125, 8.125, 32_768)])
def test_the_taught_sum_is_the_packages(model, asked):
    bits, cache_bits, context = asked
    for gib in (2, 24, 640):
        settings = {
            "card_bytes": gib * fits.GIB,
            "bits_per_weight": bits,
            "context": context,
            "cache_bits": cache_bits,
        }
        assert taught("fits")["fit"](model, **settings) == fits.fit(model, **settings)
