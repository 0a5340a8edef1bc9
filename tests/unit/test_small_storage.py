"""Models stored small: what is held, and that the kernels compute with it."""

import pytest
import torch
from transformers import LlamaConfig, Qwen2Config

from cheap_inference.errors import UserError
from cheap_inference.kv_cache import forward
from cheap_inference.models.load import random_model
from cheap_inference.quantize import small_storage
from cheap_inference.quantize.in_place import projections
from cheap_inference.quantize.small_storage import (
    kernel_group_size,
    storage_bytes,
    stored_small,
    supported,
)

SIZES = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "intermediate_size": 192,
    "vocab_size": 128,
    "tie_word_embeddings": True,
}


@pytest.fixture(params=[LlamaConfig, Qwen2Config], ids=["llama", "qwen2-biases"])
def model(request):
    model = random_model(request.param(**SIZES), dtype=torch.float32, seed=0)
    for linear in projections(model).values():
        if linear.bias is not None:
            linear.bias.data.fill_(0.5)
    return model


@pytest.mark.parametrize("bits", [8, 4])
def test_a_small_model_computes_nearly_the_same(model, bits):
    if not supported(model, bits=bits):
        pytest.skip("this torch has no such kernel")
    ids = torch.arange(12)[None]
    expected = forward(model, ids)
    found = forward(stored_small(model, bits=bits), ids).float()
    error = (found - expected).norm() / expected.norm()
    assert error < {8: 0.02, 4: 0.25}[bits]


@pytest.mark.parametrize("bits", [8, 4])
def test_bytes_are_counted_on_the_tensors_held(model, bits):
    if not supported(model, bits=bits):
        pytest.skip("this torch has no such kernel")
    weights = sum(linear.weight.numel() for linear in projections(model).values())
    rows = sum(linear.out_features for linear in projections(model).values())
    biases = sum(linear.bias.numel() for linear in projections(model).values() if linear.bias is not None)
    norms = 5 * 64
    scales = rows if bits == 8 else 2 * weights // 64  # a scale and a zero that stays 0
    expected = 2 * (128 * 64 + norms + biases + scales) + weights * bits // 8
    small = stored_small(model, bits=bits)
    buffers = sum(b.numel() * b.element_size() for n, b in small.named_buffers() if "inv_freq" in n)
    assert storage_bytes(small) - buffers == expected


def test_the_model_itself_is_left_alone(model):
    before = [linear.weight.clone() for linear in projections(model).values()]
    stored_small(model, bits=8)
    assert all(torch.equal(a, b.weight) for a, b in zip(before, projections(model).values(), strict=True))


def test_the_coarsest_group_that_divides_every_row():
    config = LlamaConfig(**SIZES | {"intermediate_size": 96})
    assert kernel_group_size(projections(random_model(config, dtype=torch.float32, seed=0))) == 32
    config = LlamaConfig(**SIZES | {"intermediate_size": 100})
    with pytest.raises(UserError, match="divides every row"):
        kernel_group_size(projections(random_model(config, dtype=torch.float32, seed=0)))


def test_a_missing_kernel_is_found_by_trying_it(model, monkeypatch):
    monkeypatch.delattr(small_storage.torch, "_weight_int8pack_mm")
    assert not supported(model, bits=8)
    with pytest.raises(UserError, match="no kernel"):
        stored_small(model, bits=8)
