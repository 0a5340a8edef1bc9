"""Groups, tails and exact sizes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cheap_inference.errors import UserError
from cheap_inference.quantize.granularity import join, scale_count, split, stored_bits
from cheap_inference.quantize.schemes import (
    CHAPTER_SCHEMES,
    INT4_GROUP128,
    INT4_ROW,
    INT4_TENSOR,
    INT8_GROUP128,
    INT8_ROW,
    INT8_TENSOR,
    NF4_GROUP64,
)

GRANULARITIES = st.one_of(st.sampled_from(["tensor", "row"]), st.integers(1, 12))


@given(rows=st.integers(1, 5), columns=st.integers(1, 20), granularity=GRANULARITIES)
def test_join_undoes_split_for_every_shape(rows, columns, granularity):
    weight = torch.arange(float(rows * columns)).reshape(rows, columns)
    blocks = split(weight, granularity)
    assert torch.equal(join(blocks, weight.shape), weight)
    assert blocks.shape[0] * blocks.shape[1] == scale_count((rows, columns), granularity)


def test_a_tail_group_stays_in_its_row_and_is_filled_with_its_last_weight():
    weight = torch.tensor([[1.0, 2, 3, 4, 5], [6.0, 7, 8, 9, -10]])
    assert split(weight, 2).tolist() == [[[1, 2], [3, 4], [5, 5]], [[6, 7], [8, 9], [-10, -10]]]


def test_rows_of_576_take_five_scales_in_groups_of_128():
    bits = INT4_GROUP128.stored_bits((10, 576))
    assert bits == 10 * (576 * 4 + 5 * 16)
    assert bits / 5760 == pytest.approx(4.139, abs=5e-4)


#: Shapes of the chapter's matrices: 24 layers of q, k, v, o, gate, up and down.
CHAPTER_SHAPES = 24 * (
    [(896, 896), (128, 896), (128, 896), (896, 896), (4864, 896), (4864, 896), (896, 4864)]
)


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        (INT8_TENSOR, 8.000),
        (INT8_ROW, 8.014),
        (INT8_GROUP128, 8.125),
        (INT4_TENSOR, 4.000),
        (INT4_ROW, 4.014),
        (INT4_GROUP128, 4.125),
        (NF4_GROUP64, 4.25),
    ],
)
def test_bits_per_weight_of_the_chapters_matrices(scheme, expected):
    weights = sum(rows * columns for rows, columns in CHAPTER_SHAPES)
    assert weights == 357_826_560
    assert len(CHAPTER_SHAPES) == 168
    bits = sum(scheme.stored_bits(shape) for shape in CHAPTER_SHAPES)
    assert bits / weights == pytest.approx(expected, abs=5e-4)


def test_fp32_magnitudes_make_nf4_four_and_a_half_bits():
    assert stored_bits((8, 640), bits=4, granularity=64, scale_bits=32) == 4.5 * 8 * 640


def test_names_tell_the_schemes_apart():
    names = [scheme.name for scheme in CHAPTER_SCHEMES]
    assert names == [
        "int8-tensor",
        "int8-row",
        "int8-group128",
        "int4-tensor",
        "int4-row",
        "int4-group128",
        "nf4-group64",
    ]


@pytest.mark.parametrize("tensor", [torch.zeros(3), torch.zeros(2, 2, 2)])
def test_only_matrices_are_taken(tensor):
    with pytest.raises(UserError, match="matrices"):
        split(tensor, "row")


def test_a_group_of_no_weights_is_refused():
    with pytest.raises(UserError, match="at least one"):
        split(torch.zeros(2, 2), 0)
