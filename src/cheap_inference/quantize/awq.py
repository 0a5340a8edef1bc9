"""AWQ (Lin et al., arXiv:2306.00978): enlarge the weights that meet large activations, then round.

Input dimension j of a matrix is multiplied by s_j = mean|X_j|^alpha before rounding and divided again
after, so its weights fall on a grid that is finer by s_j. alpha is searched on a grid for the smallest
error of the layer's output (equations 4 and 5). The division folds into the layer that makes the input:
a normalisation, or the matrix before, whose rows merely change their scale. Where query heads share
value heads there is nothing to fold into, and `o_proj` is left to plain rounding, as in the paper's code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from .calibration import InputGroup, input_groups, run_body, watched
from .in_place import restored

ALPHAS = tuple(step / 10 for step in range(10))
#: Smallest mean magnitude of an input dimension, so that no factor is zero.
TINY = 1e-4

Rounding = Callable[[torch.Tensor], torch.Tensor]


def scaled_rounding(weight: torch.Tensor, factors: torch.Tensor, rounding: Rounding) -> torch.Tensor:
    """The matrix [rows, columns] rounded on the grid that `factors` [columns] refine."""
    return rounding(weight * factors) / factors


def awq_factors(mean_magnitude: torch.Tensor, *, alpha: float) -> torch.Tensor:
    """s [features], normalised so that the largest and the smallest lie around one."""
    factors = mean_magnitude.clamp(min=TINY) ** alpha
    return factors / (factors.max() * factors.min()).sqrt()


def best_factors(weights: list[torch.Tensor], inputs: torch.Tensor, rounding: Rounding) -> torch.Tensor:
    """The factors [features] whose rounding moves the outputs of `weights` least on inputs [tokens, features]."""
    inputs = inputs.float()
    mean_magnitude = inputs.abs().mean(dim=0)
    squared = inputs.T @ inputs  # ||(W' - W) X||² = sum of (E squared) * E with E = W' - W
    candidates = [awq_factors(mean_magnitude, alpha=alpha) for alpha in ALPHAS]
    return min(candidates, key=lambda factors: _output_error(weights, factors, squared, rounding))


def _output_error(
    weights: list[torch.Tensor], factors: torch.Tensor, squared: torch.Tensor, rounding: Rounding
) -> float:
    errors = [scaled_rounding(weight, factors, rounding) - weight for weight in weights]
    return sum(float(((error @ squared) * error).sum()) for error in errors)


@contextmanager
def awq_quantized(model: nn.Module, calibration_ids: torch.Tensor, rounding: Rounding) -> Iterator[nn.Module]:
    """The model with every projection scaled by AWQ on calibration sequences [B, n], then rounded.

    Layers that read one tensor share their factors. Inputs are those of the unrounded model.
    """
    groups = {group.names[0]: group for group in input_groups(model)}
    with restored(model) as layers:
        rounded: dict[str, torch.Tensor] = {}

        def round_group(first: str, inputs: torch.Tensor) -> None:
            weights = [layers[name].weight.data.float() for name in groups[first].names]
            factors = torch.ones(inputs.shape[-1], device=inputs.device)
            if foldable(groups[first], model.config):
                factors = best_factors(weights, inputs.flatten(0, -2), rounding)
            for name, weight in zip(groups[first].names, weights, strict=True):
                rounded[name] = scaled_rounding(weight, factors, rounding).to(layers[name].weight.dtype)

        with torch.inference_mode(), watched({name: layers[name] for name in groups}, round_group):
            run_body(model, calibration_ids)
        for name, weight in rounded.items():
            layers[name].weight.data = weight
        yield model


def foldable(group: InputGroup, config: object) -> bool:
    """Whether a factor per input dimension can be folded into what makes the input."""
    shared_heads = config.num_key_value_heads != config.num_attention_heads
    reads_attention = not group.norm_fed and "attn" in group.names[0]
    return not (reads_attention and shared_heads)
