"""NF4: sixteen levels placed where a normal distribution has its weights (Dettmers et al., arXiv:2305.14314).

Each block is divided by its largest magnitude and every weight goes to the nearest level. The levels
are quantiles of the normal distribution, seven below zero and eight above, scaled to end at -1 and 1,
with an exact zero between them.
"""

from __future__ import annotations

from functools import cache
from statistics import NormalDist

import torch

from .granularity import Granularity, join, split

#: Probability of the outermost quantile: midway between those of 15 and of 16 equal shares,
#: 1 - (1/32 + 1/30) / 2, with the seven digits that the authors' table was made with.
OUTERMOST = 0.9677083
#: The levels as published (appendix E of the paper), to seven digits; `nf4_levels` derives them.
PUBLISHED_LEVELS = (
    *(-1.0, -0.6961928, -0.5250731, -0.3949175, -0.2844414, -0.1847734, -0.0910500),
    0.0,
    *(0.0795803, 0.1609302, 0.2461123, 0.3379152, 0.4407098, 0.5626170, 0.7229568, 1.0),
)
#: The smallest divisor, as in bitsandbytes: a block of zeros then gives zeros.
TINY = 1e-38


@cache
def nf4_levels() -> torch.Tensor:
    """The sixteen levels in ascending order, fp32, from -1 to 1.

    Interpolated in fp32 and normalised in fp32, which reproduces the published table bit for bit.
    """
    quantile = NormalDist().inv_cdf
    above = [quantile(p) for p in torch.linspace(OUTERMOST, 0.5, 9)[:-1].tolist()]
    below = [-quantile(p) for p in torch.linspace(OUTERMOST, 0.5, 8)[:-1].tolist()]
    levels = torch.tensor(sorted([*below, 0.0, *above]))
    return levels / levels.max()


def encode(
    weight: torch.Tensor, *, granularity: Granularity, scale_dtype: torch.dtype = torch.float16
) -> tuple[torch.Tensor, torch.Tensor]:
    """Level numbers 0 ... 15 [rows, columns] (uint8) and largest magnitudes [rows, groups].

    bitsandbytes keeps the magnitudes in fp32 (4.5 bits a weight in blocks of 64); fp16 makes it 4.25.
    """
    blocks = split(weight, granularity)
    absmax = blocks.abs().amax(dim=-1, keepdim=True).to(scale_dtype)
    scaled = blocks * (1.0 / absmax.float().clamp(min=TINY))
    levels = nf4_levels().to(weight.device)
    codes = torch.bucketize(scaled, (levels[:-1] + levels[1:]) / 2, out_int32=True).to(torch.uint8)
    return join(codes, weight.shape), absmax[..., 0]


def decode(codes: torch.Tensor, absmax: torch.Tensor, *, granularity: Granularity) -> torch.Tensor:
    """The matrix that level numbers and magnitudes stand for, fp32."""
    levels = nf4_levels().to(codes.device)
    blocks = levels[split(codes, granularity).int()] * absmax[..., None].float()
    return join(blocks, codes.shape)
