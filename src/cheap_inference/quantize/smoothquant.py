"""SmoothQuant (Xiao et al., arXiv:2211.10438): move the outliers from the activations into the weights.

Each input dimension j is divided by s_j = max|X_j|^alpha / max|W_j|^(1 - alpha) (equation 4) and the
weights that read it are multiplied by s_j, which changes nothing in floating point. After a
normalisation the division is folded into that layer's weights for free; elsewhere the layer before must
absorb it, which the paper leaves out. Here one hook divides in both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from .activation_rounding import Rounding
from .calibration import InputGroup, input_groups, input_statistic
from .in_place import restored

#: Smallest maximum that takes part: a dimension that never fires keeps the factor 1.
TINY = 1e-5


def smoothing_factors(inputs_max: torch.Tensor, weights_max: torch.Tensor, *, alpha: float) -> torch.Tensor:
    """s [features] from the largest input and the largest weight of each dimension, both [features]."""
    factors = inputs_max.clamp(min=TINY) ** alpha / weights_max.clamp(min=TINY) ** (1 - alpha)
    return torch.where(inputs_max > TINY, factors, 1)


@contextmanager
def smoothed(
    model: nn.Module,
    calibration_ids: torch.Tensor,
    *,
    alpha: float,
    everywhere: bool,
    weights: Callable[[torch.Tensor], torch.Tensor],
    activations: Rounding,
) -> Iterator[nn.Module]:
    """The model with smoothed, then rounded weights and activations.

    `everywhere` smooths every input; False only the ones a normalisation feeds, as published. Every
    projection is rounded either way. Layers that read one tensor share its factors.
    """
    groups = input_groups(model)
    maxima = input_statistic(model, calibration_ids, groups, _largest)
    hooks = []
    with restored(model) as layers:
        try:
            for group, inputs_max in zip(groups, maxima, strict=True):
                linears = [layers[name] for name in group.names]
                factors = _factors(group, linears, inputs_max, alpha=alpha, everywhere=everywhere)
                for linear in linears:
                    weight = linear.weight.data
                    linear.weight.data = weights(weight.float() * factors).to(weight.dtype)
                    hooks.append(linear.register_forward_pre_hook(_divide_and_round(factors, activations)))
            yield model
        finally:
            for hook in hooks:
                hook.remove()


def _largest(inputs: torch.Tensor) -> torch.Tensor:
    return inputs.abs().amax(dim=0).float()


def _factors(
    group: InputGroup, linears: list[nn.Linear], inputs_max: torch.Tensor, *, alpha: float, everywhere: bool
) -> torch.Tensor:
    if not (everywhere or group.norm_fed):
        return torch.ones_like(inputs_max)
    weights_max = torch.stack([linear.weight.abs().amax(dim=0) for linear in linears]).amax(dim=0).float()
    return smoothing_factors(inputs_max, weights_max, alpha=alpha)


def _divide_and_round(factors: torch.Tensor, activations: Rounding) -> Callable:
    def hook(_: nn.Module, inputs: tuple) -> tuple:
        divided = (inputs[0].float() / factors).to(inputs[0].dtype)
        return (activations(divided), *inputs[1:])

    return hook
