"""The residual stream and its outliers: largest magnitudes by layer, dimension and position.

"After layer l" counts layers from 1; 0 is the embedding. The states are those between the layers, before
any normalisation (Sun et al., Massive Activations, arXiv:2402.17762).
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import nn

from .quantize.absmax import absmax_scale, round_to_codes

INT8 = 8


@torch.inference_mode()
def residual_stream(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """The stream [layers + 1, n, hidden] for one sequence [1, n], in fp32: the embedding, then each layer's."""
    decoder = model.get_decoder()
    found: list[torch.Tensor] = []

    def keep(_: nn.Module, inputs: tuple, output: torch.Tensor | tuple) -> None:
        if not found:
            found.append(inputs[0])
        found.append(output[0] if isinstance(output, tuple) else output)

    with ExitStack() as hooks:
        for layer in decoder.layers:
            hooks.callback(layer.register_forward_hook(keep).remove)
        decoder(input_ids=ids, use_cache=False)
    return torch.cat(found).float()


@dataclass(frozen=True)
class Outlier:
    """The largest magnitude in one state [n, hidden], and what it stands beside.

    `median_dimension`: median over dimensions of their largest magnitude. `elsewhere`: the largest
    magnitude at any other position.
    """

    magnitude: float
    dimension: int
    position: int
    median_dimension: float
    elsewhere: float


def outlier(state: torch.Tensor) -> Outlier:
    """Describe a state [n, hidden], n of two or more."""
    magnitudes = state.abs()
    position, dimension = divmod(int(magnitudes.argmax()), state.shape[1])
    others = torch.cat([magnitudes[:position], magnitudes[position + 1 :]])
    return Outlier(
        magnitude=float(magnitudes.max()),
        dimension=dimension,
        position=position,
        median_dimension=float(magnitudes.amax(dim=0).median()),
        elsewhere=float(others.max()),
    )


def octaves(maxima: torch.Tensor) -> list[tuple[float, int]]:
    """Lower edges 0, 1, 2, 4 ... and the number of values [n] from each edge to the next.

    The first bin holds all below 1 and is no octave; the last ends above the largest value.
    """
    top = max(1.0, float(maxima.max()))
    edges = [0.0, 1.0]
    while edges[-1] * 2 <= top:
        edges.append(edges[-1] * 2)
    bins = torch.bucketize(maxima, torch.tensor(edges[1:], device=maxima.device), right=True)
    return list(zip(edges, torch.bincount(bins, minlength=len(edges)).tolist(), strict=True))


@dataclass(frozen=True)
class Int8Levels:
    """A tensor rounded to INT8 with one scale: how many of the 256 levels it really uses.

    `ordinary`: levels used in the dimensions whose largest magnitude is at the quartiles.
    """

    scale: float
    levels: int
    ordinary: tuple[int, ...]


def int8_levels(values: torch.Tensor) -> Int8Levels:
    """Round a state [n, hidden] with one scale and count the levels in use."""
    scale = absmax_scale(values.flatten(), bits=INT8, scale_dtype=torch.float32)
    codes = round_to_codes(values, scale, bits=INT8)
    order = values.abs().amax(dim=0).argsort()
    quartiles = [order[len(order) * quarter // 4] for quarter in (1, 2, 3)]
    return Int8Levels(
        scale=float(scale),
        levels=int(codes.unique().numel()),
        ordinary=tuple(int(codes[:, dimension].unique().numel()) for dimension in quartiles),
    )


def without_largest_dimensions(state: torch.Tensor, count: int) -> torch.Tensor:
    """The state [n, hidden] without the `count` dimensions of largest magnitude."""
    order = state.abs().amax(dim=0).argsort(descending=True)
    return state[:, order[count:].sort().values]
