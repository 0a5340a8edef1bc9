"""The arithmetic: the chapter's exact numbers, sums against closed forms, models it must refuse."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cheap_inference import cost
from cheap_inference.cost import Shape
from cheap_inference.errors import UserError

CHAPTER = Shape(
    layers=24,
    heads=14,
    kv_heads=2,
    head_dim=64,
    hidden=896,
    intermediate=4864,
    vocab=151936,
    vectors=24 * (2 * 896 + 896 + 2 * 128) + 896,
)
SMOLLM2 = Shape(layers=30, heads=9, kv_heads=3, head_dim=64, hidden=576, intermediate=1536, vocab=49152)

shapes = st.builds(
    Shape,
    layers=st.integers(1, 4),
    heads=st.integers(1, 6),
    kv_heads=st.integers(1, 3),
    head_dim=st.integers(1, 16),
    hidden=st.integers(1, 32),
    intermediate=st.integers(1, 32),
    vocab=st.integers(1, 50),
)


def config(**changes):
    fields = {
        "model_type": "llama",
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "hidden_size": 64,
        "intermediate_size": 96,
        "vocab_size": 100,
    }
    return SimpleNamespace(**(fields | changes))


@pytest.mark.parametrize(
    ("tokens", "cached", "uncached"),
    [
        (64, 266_240, 11_448_320),
        (256, 4_210_688, 720_027_648),
        (1024, 67_174_400, 45_880_115_200),
        (4096, 1_074_003_968, 2_933_104_836_608),
    ],
)
def test_one_heads_totals_are_the_chapters(tokens, cached, uncached):
    assert cost.cached_head_total(tokens, head_dim=64) == cached
    assert cost.uncached_head_total(tokens, head_dim=64) == uncached
    assert 3 * uncached == (2 * tokens + 1) * cached


@given(st.integers(1, 300), st.integers(1, 128))
def test_closed_forms_are_the_sums_of_the_steps(tokens, head_dim):
    steps = range(1, tokens + 1)
    cached = sum(cost.head_attention_macs(queries=1, keys=t, head_dim=head_dim) for t in steps)
    uncached = sum(cost.head_attention_macs(queries=t, keys=t, head_dim=head_dim) for t in steps)
    assert cached == cost.cached_head_total(tokens, head_dim=head_dim)
    assert uncached == cost.uncached_head_total(tokens, head_dim=head_dim)


@given(shapes, st.integers(1, 60))
def test_a_models_total_is_projections_plus_its_heads_plus_logits(shape, tokens):
    heads = shape.layers * shape.heads
    cached = cost.generation_macs(shape, prompt_tokens=1, new_tokens=tokens, cached=True)
    uncached = cost.generation_macs(shape, prompt_tokens=1, new_tokens=tokens, cached=False, head="last")
    positions = tokens * (tokens + 1) // 2
    assert cached == (
        tokens * (shape.projection_weights + shape.head_weights)
        + heads * cost.cached_head_total(tokens, head_dim=shape.head_dim)
    )
    assert uncached == (
        positions * shape.projection_weights
        + tokens * shape.head_weights
        + heads * cost.uncached_head_total(tokens, head_dim=shape.head_dim)
    )


def test_without_a_cache_all_logits_cost_a_head_for_every_position():
    macs = {
        head: cost.generation_macs(SMOLLM2, prompt_tokens=40, new_tokens=48, cached=False, head=head)
        for head in ("none", "last", "all")
    }
    assert macs["last"] - macs["none"] == 48 * 576 * 49152
    assert macs["all"] - macs["none"] == 3048 * 576 * 49152


def test_positions_of_both_loops():
    assert cost.positions_processed(prompt_tokens=40, new_tokens=48, cached=False) == 3048
    assert cost.positions_processed(prompt_tokens=40, new_tokens=48, cached=True) == 87


@pytest.mark.parametrize(("shape", "tokens"), [(CHAPTER, 8320), (SMOLLM2, 3072)])
def test_attention_overtakes_the_projections(shape, tokens):
    assert cost.attention_overtakes_linear(shape) == tokens
    before, at = (cost.attention_macs(shape, queries=1, keys=keys) for keys in (tokens - 1, tokens))
    assert before < shape.projection_weights <= at


def test_parameters_and_weight_bytes_of_the_chapters_model():
    assert CHAPTER.parameters == 494_032_768
    assert CHAPTER.projection_weights == 357_826_560
    assert cost.weight_bytes(CHAPTER, bytes_per_element=2) == 988_065_536
    assert cost.step_weight_bytes(CHAPTER, bytes_per_element=2) == 988_065_536  # tied: the head is read
    untied = Shape(**(vars(CHAPTER) | {"tied_head": False}))
    assert untied.parameters - CHAPTER.parameters == 896 * 151936
    assert cost.step_weight_bytes(untied, bytes_per_element=2) == 988_065_536


def test_cache_bytes_of_the_chapters_model():
    assert cost.kv_bytes_per_token(CHAPTER, bytes_per_element=2) == 12_288
    assert cost.kv_bytes(CHAPTER, tokens=295, bytes_per_element=2) == 3_624_960
    multi_head = Shape(**(vars(CHAPTER) | {"kv_heads": 14}))
    assert cost.kv_bytes_per_token(multi_head, bytes_per_element=2) == 86_016
    for users, tokens in ((32, 2048), (64, 1024), (128, 512)):
        assert cost.kv_bytes(CHAPTER, tokens=tokens, batch_size=users, bytes_per_element=2) == 768 * 2**20


def test_score_matrix_bytes():
    assert cost.score_bytes(queries=4096, keys=4096, bytes_per_element=4) == 67_108_864
    assert cost.score_bytes(queries=1, keys=4096, bytes_per_element=4) == 16_384


def test_sliding_layers_stop_growing():
    shape = Shape(**(vars(CHAPTER) | {"sliding_layers": 24, "window": 100}))
    full, sliding = (cost.kv_bytes(s, tokens=99, bytes_per_element=2) for s in (CHAPTER, shape))
    assert full == sliding == cost.kv_bytes(shape, tokens=5000, bytes_per_element=2)
    step = cost.attention_macs(shape, queries=1, keys=5000)
    assert step == cost.attention_macs(CHAPTER, queries=1, keys=100)


def test_shape_of_a_config_takes_its_own_head_dimension():
    assert Shape.from_config(config()).head_dim == 16  # hidden / heads is 8
    assert Shape.from_config(config(head_dim=None)).head_dim == 8
    assert Shape.from_config(config(num_key_value_heads=None)).kv_heads == 8


def test_shape_of_a_config_with_windows():
    kinds = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
    hybrid = Shape.from_config(config(sliding_window=7, layer_types=kinds))
    assert (hybrid.sliding_layers, hybrid.window) == (2, 7)
    every = Shape.from_config(config(sliding_window=7))
    assert (every.sliding_layers, every.window) == (4, 7)
    switched_off = Shape.from_config(config(sliding_window=7, layer_types=["full_attention"] * 4))
    assert (switched_off.sliding_layers, switched_off.window) == (0, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_local_experts": 8},
        {"kv_lora_rank": 512},
        {"model_type": "gpt_neox"},
        {"intermediate_size": None},
        {"layer_types": ["linear_attention"] * 4},
        {"num_kv_shared_layers": 2},
    ],
)
def test_models_the_formulas_do_not_cover_are_refused_in_one_line(changes):
    with pytest.raises(UserError, match="choose a dense decoder") as refusal:
        Shape.from_config(config(**changes))
    assert "\n" not in str(refusal.value)


def test_counting_needs_no_torch():
    code = "import sys, cheap_inference.cost; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
