"""Packed weights: bytes counted on real tensors, values equal to the ones rounded in place."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cheap_inference.errors import UserError
from cheap_inference.quantize.packed import pack, pack_nibbles, unpack_nibbles
from cheap_inference.quantize.schemes import (
    CHAPTER_SCHEMES,
    INT4_ASYMMETRIC_GROUP32,
    INT4_GROUP128,
    INT8_ROW,
    Scheme,
)


@pytest.mark.parametrize(
    "scheme", [*CHAPTER_SCHEMES, INT4_ASYMMETRIC_GROUP32], ids=lambda scheme: scheme.name
)
@pytest.mark.parametrize("shape", [(6, 576), (5, 33), (1, 1)])
def test_dequantised_equals_in_place_to_the_last_bit(scheme, shape):
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(pack(weight, scheme).dequantize(), scheme(weight))


@pytest.mark.parametrize("scheme", CHAPTER_SCHEMES, ids=lambda scheme: scheme.name)
def test_bytes_are_the_bits_of_the_formula(scheme):
    weight = torch.randn(6, 576)
    assert pack(weight, scheme).nbytes * 8 == scheme.stored_bits((6, 576))


def test_an_odd_count_costs_one_half_byte_more():
    packed = pack(torch.randn(3, 3), INT4_GROUP128)
    assert packed.codes.numel() == 5
    assert packed.codes.dtype == torch.uint8


def test_nibbles_by_hand():
    assert pack_nibbles(torch.tensor([1, 15, 8], dtype=torch.uint8)).tolist() == [0x1F, 0x80]


@given(st.lists(st.integers(0, 15), max_size=30))
def test_unpacking_undoes_packing(values):
    codes = torch.tensor(values, dtype=torch.uint8)
    assert unpack_nibbles(pack_nibbles(codes), len(values)).tolist() == values


def test_other_widths_are_refused():
    with pytest.raises(UserError, match="8 or 4 bits"):
        pack(torch.ones(2, 2), Scheme("absmax", 3, "row"))


def test_int8_keeps_one_byte_a_weight():
    packed = pack(torch.randn(4, 10), INT8_ROW)
    assert (packed.codes.dtype, packed.codes.numel()) == (torch.int8, 40)
    assert packed.scales[0].dtype == torch.float16
