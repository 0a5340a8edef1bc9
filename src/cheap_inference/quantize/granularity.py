"""Which weights share one scale: the whole tensor, a row, or a group inside a row.

One rule for rows that the group size does not divide: groups never cross a row, and the last group of
each row is shorter. 576 weights in groups of 128 are four groups and a tail of 64, hence five scales.
"""

from __future__ import annotations

from typing import Literal

import torch

from ..errors import UserError

#: "tensor", "row", or the number of weights in a group.
Granularity = Literal["tensor", "row"] | int
#: Bits of a stored scale (fp16) unless a format says otherwise.
SCALE_BITS = 16


def split(weight: torch.Tensor, granularity: Granularity) -> torch.Tensor:
    """View of a matrix [rows, columns] as [rows, groups, size], one group per scale.

    A short tail group is filled with copies of the row's last weight, which change neither its
    maximum nor its minimum; `join` drops them. One scale for all: [1, 1, rows * columns].

    Raises:
        UserError: the weight is no matrix, or the group size is below one.
    """
    rows, columns = _shape(weight)
    if granularity == "tensor":
        return weight.reshape(1, 1, rows * columns)
    if granularity != "row" and granularity < 1:
        raise UserError(f"A group must hold at least one weight, not {granularity}.")
    size = columns if granularity == "row" else min(granularity, columns)
    missing = -columns % size
    if missing:
        weight = torch.cat([weight, weight[:, -1:].expand(rows, missing)], dim=1)
    return weight.reshape(rows, -1, size)


def join(blocks: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    """Inverse of `split`: [rows, groups, size] back to a matrix of `shape`, the filling dropped."""
    rows, columns = shape
    if blocks.shape[0] == 1 and blocks.shape[1] == 1:
        return blocks.reshape(rows, columns)
    return blocks.reshape(rows, -1)[:, :columns]


def scale_count(shape: tuple[int, int], granularity: Granularity) -> int:
    """Scales that a matrix of `shape` needs."""
    rows, columns = shape
    if granularity == "tensor":
        return 1
    return rows if granularity == "row" else rows * -(-columns // granularity)


def stored_bits(
    shape: tuple[int, int], *, bits: int, granularity: Granularity, scale_bits: int = SCALE_BITS
) -> int:
    """Bits of one matrix: its codes and its scales, nothing rounded up to whole bytes."""
    return bits * shape[0] * shape[1] + scale_bits * scale_count(shape, granularity)


def _shape(weight: torch.Tensor) -> tuple[int, int]:
    if weight.ndim != 2:
        raise UserError(f"Only matrices are quantized here, not a tensor of shape {tuple(weight.shape)}.")
    return tuple(weight.shape)
