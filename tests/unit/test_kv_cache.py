"""The cache's length, bytes, cropping and copying, on tiny random models with and without windows."""

from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, MistralConfig

from cheap_inference import kv_cache
from cheap_inference.errors import UserError
from cheap_inference.models.load import random_model

SIZES = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,  # hidden / heads is 16
    "hidden_size": 64,
    "intermediate_size": 96,
    "vocab_size": 128,
    "pad_token_id": None,
}
WINDOW = 8
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model():
    return random_model(LlamaConfig(**SIZES), dtype=torch.float32, seed=0)


@pytest.fixture(scope="module")
def sliding_model():
    return random_model(MistralConfig(**SIZES, sliding_window=WINDOW), dtype=torch.float32, seed=0)


def random_ids(length, batch_size=1):
    return torch.randint(0, 128, (batch_size, length), generator=torch.Generator().manual_seed(1))


def filled(model, ids):
    cache = kv_cache.new_cache(model.config)
    logits = kv_cache.forward(model, ids, cache)
    return cache, logits


def test_a_new_cache_is_empty(model):
    cache = kv_cache.new_cache(model.config)
    assert kv_cache.cache_length(cache) == 0
    assert kv_cache.cache_tensors(cache) == []
    assert (
        kv_cache.cache_bytes(cache) == 0 == kv_cache.cache_bytes_formula(model.config, 0, bytes_per_element=4)
    )


def test_tensors_and_bytes_of_a_filled_cache(model):
    cache, _ = filled(model, random_ids(11, batch_size=3))
    assert kv_cache.cache_length(cache) == 11
    shapes = [tensor.shape for pair in kv_cache.cache_tensors(cache) for tensor in pair]
    assert shapes == [(3, 2, 11, 24)] * 4
    formula = kv_cache.cache_bytes_formula(model.config, 11, bytes_per_element=4, batch_size=3)
    assert (
        kv_cache.cache_bytes(cache)
        == formula
        == 33 * kv_cache.bytes_per_token(model.config, bytes_per_element=4)
    )


def test_bytes_per_token_of_the_chapters_shape():
    shape = {"num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "head_dim": 64}
    config = SimpleNamespace(**shape, hidden_size=896, intermediate_size=4864, vocab_size=151936)
    assert kv_cache.bytes_per_token(config, bytes_per_element=2) == 12_288
    assert kv_cache.cache_bytes_formula(config, 295, bytes_per_element=2) == 3_624_960


@pytest.mark.parametrize("length", [0, 1, 5, 11])
def test_a_cropped_cache_is_that_of_the_shorter_text(model, length):
    ids = random_ids(11)
    cache, _ = filled(model, ids)
    kv_cache.crop_to(cache, length)
    assert kv_cache.cache_length(cache) == length
    assert kv_cache.cache_bytes(cache) == kv_cache.cache_bytes_formula(
        model.config, length, bytes_per_element=4
    )
    token = random_ids(1)
    _, expected = filled(model, torch.cat([ids[:, :length], token], dim=1))
    logits = kv_cache.forward(model, token, cache)
    assert kv_cache.cache_length(cache) == length + 1
    torch.testing.assert_close(logits[:, -1], expected[:, -1])


@pytest.mark.parametrize("length", [-1, 12])
def test_cropping_to_a_length_that_is_not_there_is_refused(model, length):
    cache, _ = filled(model, random_ids(11))
    with pytest.raises(UserError, match="11 tokens cannot be cropped"):
        kv_cache.crop_to(cache, length)
    assert kv_cache.cache_length(cache) == 11


@pytest.mark.parametrize("tokens", [1, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW])
def test_sliding_layers_keep_the_window_less_the_current_token(sliding_model, tokens):
    cache, _ = filled(sliding_model, random_ids(tokens))
    assert kv_cache.cache_length(cache) == tokens
    formula = kv_cache.cache_bytes_formula(sliding_model.config, tokens, bytes_per_element=4)
    assert kv_cache.cache_bytes(cache) == formula


def test_sliding_layers_can_be_cropped_only_while_they_have_dropped_nothing(sliding_model):
    cache, _ = filled(sliding_model, random_ids(WINDOW - 1))
    kv_cache.crop_to(cache, 2)
    assert kv_cache.cache_length(cache) == 2
    cache, _ = filled(sliding_model, random_ids(WINDOW))
    kv_cache.crop_to(cache, WINDOW)
    with pytest.raises(UserError, match="dropped early tokens"):
        kv_cache.crop_to(cache, 2)


def test_a_copy_grows_apart(model):
    cache, _ = filled(model, random_ids(5))
    copy = kv_cache.copy_cache(cache)
    token = random_ids(1)
    first = kv_cache.forward(model, token, copy)
    assert (kv_cache.cache_length(cache), kv_cache.cache_length(copy)) == (5, 6)
    torch.testing.assert_close(kv_cache.forward(model, token, cache), first, rtol=0, atol=0)


def test_a_filled_cache_has_the_length_and_bytes_of_a_real_one(model):
    cache = kv_cache.filled_cache(model.config, tokens=9, batch_size=2, dtype=torch.bfloat16, device=CPU)
    assert kv_cache.cache_length(cache) == 9
    formula = kv_cache.cache_bytes_formula(model.config, 9, bytes_per_element=2, batch_size=2)
    assert kv_cache.cache_bytes(cache) == formula


def test_forward_in_pieces_equals_forward_at_once(model):
    ids = random_ids(10)
    whole = kv_cache.forward(model, ids)
    assert whole.shape == (1, 10, 128)
    cache = kv_cache.new_cache(model.config)
    pieces = [kv_cache.forward(model, part, cache) for part in ids.split([6, 1, 3], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole)
    last = kv_cache.forward(model, ids, logits_to_keep=1)
    torch.testing.assert_close(last, whole[:, -1:])


class _Newer:
    def forward(self, ids, cache=None, use_cache=None, logits_to_keep=0):
        raise NotImplementedError


class _Older:
    def forward(self, ids, past_key_values=None, use_cache=None, logits_to_keep=0):
        raise NotImplementedError


@pytest.mark.parametrize(("kind", "name"), [(_Newer, "cache"), (_Older, "past_key_values")])
def test_the_cache_goes_in_under_the_name_the_model_has(kind, name):
    received = {}

    class Model(kind):
        def __call__(self, ids, **inputs):
            received.update(inputs)
            return SimpleNamespace(logits=ids)

    kv_cache.forward(Model(), torch.zeros(1, 1), "the cache", position_ids="positions")
    assert received == {
        name: "the cache",
        "use_cache": True,
        "logits_to_keep": 0,
        "position_ids": "positions",
    }
