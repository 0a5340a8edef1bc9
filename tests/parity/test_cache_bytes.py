"""Three accounts of the cache: the formula, the tensors a model filled, and what the allocator saw."""

import pytest
import torch
from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

from cheap_inference import memory
from cheap_inference.generation import prefill
from cheap_inference.kv_cache import cache_bytes, cache_bytes_formula, cache_tensors, new_cache
from cheap_inference.models.load import random_model

CPU = torch.device("cpu")
# The cache does not depend on the MLP nor on the vocabulary, so both are small.
SMALL = {"intermediate_size": 16, "vocab_size": 64, "pad_token_id": None}


def config(kind, layers, heads, kv_heads, hidden, **more):
    return kind(
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        hidden_size=hidden,
        **SMALL,
        **more,
    )


CONFIGS = {
    "default-model": config(LlamaConfig, 30, 9, 3, 576),
    "chapters-model": config(Qwen2Config, 24, 14, 2, 896),
    "multi-head": config(LlamaConfig, 30, 9, 9, 576),
    "one-kv-head": config(LlamaConfig, 30, 9, 1, 576),
    "head-dim-of-its-own": config(Qwen3Config, 8, 8, 2, 256, head_dim=64),
}
BYTES_PER_TOKEN = {  # written out, in bf16: 2 x layers x kv_heads x head_dim x 2
    "default-model": 23_040,
    "chapters-model": 12_288,
    "multi-head": 69_120,
    "one-kv-head": 7_680,
    "head-dim-of-its-own": 4_096,
}


def filled(model, tokens):
    cache = new_cache(model.config)
    prefill(model, torch.zeros(1, tokens, dtype=torch.long), cache)
    return cache


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("tokens", [1, 295])
def test_formula_tensors_and_allocator_agree(name, tokens):
    model = random_model(CONFIGS[name], dtype=torch.bfloat16, seed=0)
    formula = cache_bytes_formula(model.config, tokens, bytes_per_element=2)
    assert formula == tokens * BYTES_PER_TOKEN[name]
    filled(model, 1)  # whatever the first pass sets up for good
    held = []
    seen = memory.growth(lambda: held.append(filled(model, tokens)), device=CPU)
    assert formula == cache_bytes(held[0]) == seen


def test_shape_and_bytes_of_the_chapters_cache():
    model = random_model(CONFIGS["chapters-model"], dtype=torch.bfloat16, seed=0)
    cache = filled(model, 295)
    assert {tensor.shape for pair in cache_tensors(cache) for tensor in pair} == {(1, 2, 295, 64)}
    assert cache_bytes(cache) == 3_624_960


def test_one_more_token_grows_what_is_held_by_one_tokens_bytes():
    model = random_model(CONFIGS["default-model"], dtype=torch.bfloat16, seed=0)
    filled(model, 1)
    sizes = [memory.growth(lambda n=n: filled(model, n), device=CPU) for n in (99, 100)]
    assert sizes[1] - sizes[0] == BYTES_PER_TOKEN["default-model"]


def test_sliding_layers_hold_at_most_the_window_after_a_step():
    window = 16
    model = random_model(
        config(MistralConfig, 4, 8, 2, 256, sliding_window=window), dtype=torch.bfloat16, seed=0
    )

    def stepped():
        cache = filled(model, 40)
        prefill(model, torch.zeros(1, 1, dtype=torch.long), cache)
        return cache

    stepped()
    formula = cache_bytes_formula(model.config, 41, bytes_per_element=2)
    assert cache_bytes(stepped()) == formula
    # The tensors are views that leave out the token before the window; its bytes are still held.
    held = formula * window // (window - 1)
    assert memory.growth(stepped, device=CPU) == pytest.approx(held, abs=64)  # and each layer's counters
