"""Symmetric abs-max rounding: one scale a block, set by its largest weight.

With scale = max / qmax the code -qmax - 1 cannot occur: 15 of 16 values are used at 4 bits, 255 of 256
at 8. Clamping to the symmetric range keeps it so when the rounding of the scale itself would overshoot.
"""

from __future__ import annotations

import torch

from ..errors import UserError
from .granularity import Granularity, join, split


def largest_code(bits: int) -> int:
    """qmax = 2^(bits-1) - 1: 127 for 8 bits, 7 for 4.

    Raises:
        UserError: a symmetric code needs 2 to 8 bits.
    """
    if not 2 <= bits <= 8:
        raise UserError(f"Symmetric codes have 2 to 8 bits, not {bits}.")
    return 2 ** (bits - 1) - 1


def absmax_scale(blocks: torch.Tensor, *, bits: int, scale_dtype: torch.dtype) -> torch.Tensor:
    """Scales [..., 1] of blocks [..., size], rounded to the width in which they are stored.

    Raises:
        UserError: a weight is not finite, or a scale does not fit `scale_dtype`.
    """
    scale = (blocks.abs().amax(dim=-1, keepdim=True).float() / largest_code(bits)).to(scale_dtype)
    if not scale.isfinite().all():
        raise UserError(f"A weight is not finite, or too large for a scale stored as {scale_dtype}.")
    return scale


def round_to_codes(blocks: torch.Tensor, scale: torch.Tensor, *, bits: int) -> torch.Tensor:
    """Codes (float, whole numbers from -qmax to qmax) of blocks under `scale`; 0 where the scale is 0."""
    qmax = largest_code(bits)
    codes = (blocks / torch.where(scale > 0, scale, 1)).round().clamp(-qmax, qmax)
    return torch.where(scale > 0, codes, 0)


def encode(
    weight: torch.Tensor,
    *,
    bits: int,
    granularity: Granularity,
    scale_dtype: torch.dtype = torch.float16,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes [rows, columns] (int8) and scales [rows, groups] ([1, 1] per tensor) of a matrix."""
    blocks = split(weight, granularity)
    scale = absmax_scale(blocks, bits=bits, scale_dtype=scale_dtype)
    codes = round_to_codes(blocks, scale.float(), bits=bits).to(torch.int8)
    return join(codes, weight.shape), scale[..., 0]


def decode(codes: torch.Tensor, scale: torch.Tensor, *, granularity: Granularity) -> torch.Tensor:
    """The matrix that codes and scales stand for, fp32."""
    blocks = split(codes, granularity).float() * scale[..., None].float()
    return join(blocks, codes.shape)
