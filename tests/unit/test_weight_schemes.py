"""Rounding worked out by hand, and the cases that break naive versions."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cheap_inference.errors import UserError
from cheap_inference.quantize import absmax, asymmetric, nf4
from cheap_inference.quantize.schemes import (
    CHAPTER_SCHEMES,
    INT4_ASYMMETRIC_GROUP32,
    INT4_ASYMMETRIC_GROUP128,
    INT4_GROUP64,
    INT4_GROUP128,
    INT4_ROW,
    INT4_TENSOR,
    INT8_ROW,
    INT8_TENSOR,
    NF4_GROUP64,
    NF4_GROUP128,
)

ALL_SCHEMES = [
    *CHAPTER_SCHEMES,
    INT4_GROUP64,
    NF4_GROUP128,
    INT4_ASYMMETRIC_GROUP128,
    INT4_ASYMMETRIC_GROUP32,
]


def random_matrix(rows=16, columns=576, seed=0):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def test_absmax_by_hand():
    # Largest 7, so scale 1 and codes -7 ... 7; in the second row largest 3.5, so scale 0.5.
    weight = torch.tensor([[7.0, -2.4, 0.4, -6.6], [3.5, -1.0, 0.3, 0.1]])
    codes, scale = absmax.encode(weight, bits=4, granularity="row")
    assert codes.tolist() == [[7, -2, 0, -7], [7, -2, 1, 0]]
    assert scale.tolist() == [[1.0], [0.5]]
    assert INT4_ROW(weight).tolist() == [[7, -2, 0, -7], [3.5, -1, 0.5, 0]]


def test_one_large_weight_takes_the_levels_from_all_the_others():
    weight = torch.tensor([[0.2, -0.3, 0.1, 14.0], [0.25, 0.2, -0.1, 0.3]])
    assert INT4_TENSOR(weight)[0].tolist() == [0, 0, 0, 14]
    assert INT4_TENSOR(weight)[1].tolist() == [0, 0, 0, 0]
    assert INT4_ROW(weight)[1].abs().min() > 0


@pytest.mark.parametrize("bits", [4, 8])
def test_codes_are_symmetric_also_where_rounding_the_scale_would_overshoot(bits):
    # A scale rounded down to fp16 makes weight / scale exceed qmax; -qmax - 1 must not appear.
    weight = torch.linspace(-1.0003, 1.0003, 4001)[None]
    codes, _ = absmax.encode(weight, bits=bits, granularity="row")
    assert codes.min() == -codes.max() == -(2 ** (bits - 1) - 1)
    assert codes.unique().numel() == 2**bits - 1


@pytest.mark.parametrize("scheme", ALL_SCHEMES, ids=lambda scheme: scheme.name)
def test_zero_and_tiny_groups_give_zeros_and_no_nan(scheme):
    weight = random_matrix(4, 256)
    weight[0] = 0
    weight[1, :128] = 0
    weight[2] = 1e-30
    rounded = scheme(weight)
    assert rounded.isfinite().all()
    assert rounded[0].eq(0).all()
    assert rounded[1, :128].eq(0).all()
    assert rounded[2].abs().max() < 1e-6


@pytest.mark.parametrize("scheme", ALL_SCHEMES, ids=lambda scheme: scheme.name)
def test_shape_dtype_and_input_are_left_alone(scheme):
    weight = random_matrix(6, 200).to(torch.bfloat16)
    before = weight.clone()
    rounded = scheme(weight)
    assert rounded.shape == weight.shape
    assert rounded.dtype == torch.bfloat16
    assert torch.equal(weight, before)


@pytest.mark.parametrize("scheme", [INT8_TENSOR, INT8_ROW, INT4_ROW, INT4_GROUP128, INT4_GROUP64])
def test_no_weight_moves_by_more_than_half_a_scale(scheme):
    weight = random_matrix()
    _, scale = scheme.encode(weight)
    reach = scale.float().max() * 0.501  # the scale itself is rounded to fp16
    assert (scheme(weight) - weight).abs().max() <= reach


def test_finer_groups_have_smaller_errors():
    weight = random_matrix()
    weight[3, 7] = 40.0
    errors = [
        float((scheme(weight) - weight).norm())
        for scheme in (INT4_TENSOR, INT4_ROW, INT4_GROUP128, INT4_GROUP64)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 1.5 * errors[1]


@given(st.integers(2, 8), st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=40))
def test_rounding_twice_changes_nothing(bits, values):
    weight = torch.tensor([values])
    once = absmax.decode(*absmax.encode(weight, bits=bits, granularity=8), granularity=8)
    twice = absmax.decode(*absmax.encode(once, bits=bits, granularity=8), granularity=8)
    assert torch.allclose(once, twice, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("bits", [1, 9])
def test_other_bit_counts_are_refused(bits):
    with pytest.raises(UserError, match="2 to 8 bits"):
        absmax.encode(torch.ones(1, 4), bits=bits, granularity="row")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e9])
def test_a_scale_that_cannot_be_stored_is_refused(bad):
    with pytest.raises(UserError, match="not finite, or too large"):
        INT4_ROW(torch.tensor([[1.0, bad]]))


def test_asymmetric_by_hand():
    # 1 ... 4 in 16 levels: scale 0.2, offset 1.
    weight = torch.tensor([[1.0, 2.0, 2.5, 4.0]])
    codes, scale, offset = asymmetric.encode(weight, bits=4, granularity="row")
    assert codes.tolist() == [[0, 5, 8, 15]] or codes.tolist() == [[0, 5, 7, 15]]
    assert scale.item() == pytest.approx(0.2, rel=1e-3)
    assert offset.item() == 1.0


def test_asymmetric_gives_back_what_was_stored_that_way():
    generator = torch.Generator().manual_seed(1)
    codes = torch.randint(0, 16, (8, 64), generator=generator)
    codes[:, ::32], codes[:, 1::32] = 0, 15  # a real file's block uses its lowest and highest level
    scale = torch.rand(8, 2, generator=generator).half() + 0.1
    weight = asymmetric.decode(codes, scale.half(), -8 * scale.half(), granularity=32)
    assert torch.equal(INT4_ASYMMETRIC_GROUP32(weight), weight)


def test_nf4_levels_are_quantiles_with_an_exact_zero_and_ends():
    levels = nf4.nf4_levels()
    assert levels.tolist() == sorted(levels.tolist())
    assert (levels[0], levels[7], levels[15]) == (-1, 0, 1)
    assert (levels < 0).sum() == 7
    assert (levels > 0).sum() == 8


def test_nf4_by_hand():
    weight = torch.tensor([[2.0, -2.0, 0.01, 0.32, -1.06]])
    # Divided by 2: 1, -1, 0.005, 0.16, -0.53; nearest levels 1, -1, 0, 0.1609, -0.5251.
    expected = [2.0, -2.0, 0.0, 2 * 0.16093020, 2 * -0.52507305]
    assert NF4_GROUP64(weight)[0].tolist() == pytest.approx(expected, rel=1e-6)


def test_nf4_beats_uniform_levels_on_normal_weights_at_one_block_size():
    weight = random_matrix(64, 512)
    normal, uniform = ((scheme(weight) - weight).norm() for scheme in (NF4_GROUP128, INT4_GROUP128))
    assert normal < 0.9 * uniform
