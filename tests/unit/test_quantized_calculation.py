"""Activations and the KV cache in few bits, on cases worked out by hand."""

import pytest
import torch

from cheap_inference.kv_cache import forward, new_cache
from cheap_inference.quantize import absmax
from cheap_inference.quantize.activation_rounding import (
    activations_rounded,
    mixed,
    per_tensor,
    per_token,
)
from cheap_inference.quantize.in_place import projections
from cheap_inference.quantize.kv_cache_rounding import (
    bits_per_element,
    round_channels,
    round_vectors,
    rounded_cache,
)


@pytest.fixture(scope="module")
def model(make_model):
    return make_model()


@pytest.fixture
def ids():
    return torch.randint(0, 128, (1, 40), generator=torch.Generator().manual_seed(0))


INPUTS = torch.tensor([[127.0, 0.4, 0.6], [1.27, 0.304, -0.506]])


def test_per_tensor_by_hand():
    # One scale of 1 for everything: the small token loses its digits.
    assert per_tensor(INPUTS).tolist() == [[127, 0, 1], [1, 0, -1]]


def test_per_token_by_hand():
    # Scales 1 and 0.01.
    assert per_token(INPUTS)[0].tolist() == [127, 0, 1]
    assert per_token(INPUTS)[1].tolist() == pytest.approx([1.27, 0.30, -0.51])


def test_mixed_keeps_whole_outlier_dimensions_in_float():
    # Only dimension 0 reaches 6; without it the scales are 0.6 / 127 and 0.506 / 127.
    rounded = mixed(INPUTS)
    assert torch.equal(rounded[:, 0], INPUTS[:, 0])
    assert (rounded - INPUTS).abs().max() <= 0.6 / 127 / 2 + 1e-7
    assert not torch.equal(rounded[:, 1:], INPUTS[:, 1:])


def test_the_threshold_belongs_to_the_outliers():
    inputs = torch.tensor([[6.0, 1.0, 0.3], [0.1, 5.9, 0.3]])
    assert torch.equal(mixed(inputs)[:, 0], inputs[:, 0])
    assert not torch.equal(mixed(inputs)[:, 2], inputs[:, 2])
    below = torch.tensor([[5.9, 1.0, 0.3], [0.1, 5.9, 0.3]])
    assert torch.equal(mixed(below), per_token(below))


@pytest.mark.parametrize("rounding", [per_tensor, per_token, mixed])
def test_zeros_stay_zeros_and_shapes_stay(rounding):
    assert rounding(torch.zeros(1, 3, 4)).eq(0).all()
    assert rounding(torch.randn(2, 3, 4)).shape == (2, 3, 4)


def test_rounded_floats_are_what_integer_arithmetic_gives():
    generator = torch.Generator().manual_seed(0)
    inputs, weight = torch.randn(5, 64, generator=generator), torch.randn(8, 64, generator=generator)
    codes, scale = absmax.encode(weight, bits=8, granularity="row")
    token_codes, token_scale = absmax.encode(inputs, bits=8, granularity="row", scale_dtype=torch.float32)
    integers = token_codes.int() @ codes.int().T  # int32, as an INT8 kernel accumulates
    expected = integers * token_scale * scale.float().T
    weights = absmax.decode(codes, scale, granularity="row")
    torch.testing.assert_close(per_token(inputs) @ weights.T, expected, rtol=1e-5, atol=1e-5)


def test_hooks_round_every_projection_input_and_go_away(model, ids):
    before = forward(model, ids)
    with activations_rounded(model, lambda inputs: inputs * 0):
        assert forward(model, ids).eq(forward(model, ids.flip(1)).flip(1)).all()
    with pytest.raises(ZeroDivisionError), activations_rounded(model, per_token):
        raise ZeroDivisionError
    assert torch.equal(forward(model, ids), before)
    assert not any(linear._forward_pre_hooks for linear in projections(model).values())


def test_key_vectors_by_hand():
    assert round_vectors(torch.tensor([[[[7.0, 0.4, -3.3]]]]), bits=4).tolist() == [[[[7, 0, -3]]]]


def test_channels_by_hand_and_the_unfilled_group_stays():
    # Two positions a group: channel 0 has scale 1, channel 1 scale 0.5; the fifth position waits.
    keys = torch.tensor([[[[7.0, 3.5], [0.4, 0.6], [7.0, 3.5], [-2.6, -0.2], [0.123, 9.9]]]])
    expected = [[[[7, 3.5], [0, 0.5], [7, 3.5], [-3, 0], [0.123, 9.9]]]]
    torch.testing.assert_close(round_channels(keys, bits=4, group=2), torch.tensor(expected))


@pytest.mark.parametrize("keys", ["token", "channel"])
def test_attention_reads_the_rounded_cache(model, ids, keys):
    plain = forward(model, ids, new_cache(model.config))
    cache = rounded_cache(model.config, bits=4, keys=keys)
    rounded = forward(model, ids, cache)
    assert not torch.allclose(plain, rounded)
    stored = cache.layers[0].values
    assert torch.equal(stored, round_vectors(stored, bits=4))
    error = (forward(model, ids, rounded_cache(model.config, bits=8, keys=keys)) - plain).abs().max()
    assert error < 0.2 * (rounded - plain).abs().max()


def test_bits_of_a_cached_number_count_its_scales():
    assert bits_per_element(bits=8, head_dim=64, keys="token") == 8 + 16 / 64
    assert bits_per_element(bits=4, head_dim=64, keys="channel") == 4 + (16 / 32 + 16 / 64) / 2
