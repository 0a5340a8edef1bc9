"""Asymmetric rounding: a scale and an offset a block, so that all 2^bits levels span minimum to maximum.

The offset is the block's smallest weight, stored in fp16 beside the scale as in the GGUF type Q4_1;
that is 32 bits of side information a block instead of 16.
"""

from __future__ import annotations

import torch

from .granularity import Granularity, join, split


def encode(
    weight: torch.Tensor, *, bits: int, granularity: Granularity
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes 0 ... 2^bits - 1 [rows, columns] (uint8), scales and offsets [rows, groups] (fp16)."""
    blocks = split(weight, granularity)
    low, high = blocks.aminmax(dim=-1, keepdim=True)
    steps = 2**bits - 1
    scale, offset = ((high - low) / steps).half(), low.half()
    divisor = torch.where(scale > 0, scale.float(), 1)
    codes = ((blocks - offset.float()) / divisor).round().clamp(0, steps).to(torch.uint8)
    return join(codes, weight.shape), scale[..., 0], offset[..., 0]


def decode(
    codes: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor, *, granularity: Granularity
) -> torch.Tensor:
    """The matrix that codes, scales and offsets stand for, fp32."""
    blocks = split(codes, granularity).float() * scale[..., None].float() + offset[..., None].float()
    return join(blocks, codes.shape)
