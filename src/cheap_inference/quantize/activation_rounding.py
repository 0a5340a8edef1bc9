"""Activations in INT8: three ways to choose the scale of a layer's input, and the hooks that apply them.

Per tensor: one scale for all tokens of a call. Per token: one scale a token. Mixed (LLM.int8(),
Dettmers et al., arXiv:2208.07339): the dimensions in which any token reaches the threshold stay in
floating point, the rest is rounded per token. Scales are dynamic, taken from the very input, in fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from . import absmax
from .in_place import projections

#: Magnitude from which LLM.int8() keeps a dimension in floating point (section 3.2 of the paper).
OUTLIER_THRESHOLD = 6.0
BITS = 8

Rounding = Callable[[torch.Tensor], torch.Tensor]


def per_tensor(inputs: torch.Tensor) -> torch.Tensor:
    """Inputs [..., features] after INT8 with one scale for everything in the call."""
    return _rounded(inputs.flatten()).reshape(inputs.shape)


def per_token(inputs: torch.Tensor) -> torch.Tensor:
    """Inputs [..., features] after INT8 with one scale for each token."""
    return _rounded(inputs)


def mixed(inputs: torch.Tensor) -> torch.Tensor:
    """Inputs [..., features]: outlier dimensions as they are, the rest in INT8 per token."""
    outlier = (inputs.abs() >= OUTLIER_THRESHOLD).flatten(0, -2).any(dim=0)  # [features]
    rest = _rounded(inputs.masked_fill(outlier, 0))
    return torch.where(outlier, inputs, rest)


def _rounded(inputs: torch.Tensor) -> torch.Tensor:
    scale = absmax.absmax_scale(inputs, bits=BITS, scale_dtype=torch.float32)
    return (absmax.round_to_codes(inputs, scale, bits=BITS) * scale).to(inputs.dtype)


@contextmanager
def activations_rounded(model: nn.Module, rounding: Rounding) -> Iterator[nn.Module]:
    """The model with the input of every projection rounded; the hooks go on leaving, on exception too."""
    hooks = [
        linear.register_forward_pre_hook(lambda _, inputs: (rounding(inputs[0]), *inputs[1:]))
        for linear in projections(model).values()
    ]
    try:
        yield model
    finally:
        for hook in hooks:
            hook.remove()
