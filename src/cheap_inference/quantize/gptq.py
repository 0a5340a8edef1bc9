"""GPTQ (Frantar et al., arXiv:2210.17323): round a column, let the columns still free make up for it.

For one layer with inputs X the error ||(W - W')X||² has the same Hessian H = 2 X Xᵀ for every row. When
column j is rounded by an error e, the remaining columns move by -e · U[j, j+1:] / U[j, j], where U is
the upper Cholesky factor of H⁻¹ (algorithm 1 of the paper), which is the best compensation there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from . import absmax
from .calibration import run_body, watched
from .in_place import restored

#: Share of the mean diagonal added to the Hessian, as in the paper's code.
DAMPING = 0.01


def hessian(inputs: torch.Tensor) -> torch.Tensor:
    """X Xᵀ [features, features] of inputs [tokens, features], damped; a dead dimension gets a 1.

    The factor 2 and the number of tokens cancel in everything that uses it.
    """
    inputs = inputs.float()
    squared = inputs.T @ inputs
    diagonal = squared.diagonal()
    diagonal += DAMPING * diagonal.mean()
    diagonal[diagonal == 0] = 1
    return squared


def gptq(weight: torch.Tensor, inputs: torch.Tensor, *, bits: int, group_size: int) -> torch.Tensor:
    """The matrix [rows, columns] rounded with compensation for inputs [tokens, columns].

    A group's scale is taken when its first column is reached, from the weights as they are then; groups
    and scales are those of `absmax`: fp16, a short tail group. Returned in the dtype of `weight`.
    """
    factor = inverse_factor(hessian(inputs))  # U [columns, columns]
    free = weight.float().T.contiguous()  # [columns, rows]: a column of the matrix is contiguous
    rounded = torch.empty_like(free)
    for start in range(0, free.shape[0], group_size):
        group = slice(start, start + group_size)
        rounded[group], errors = _round_group(free[group], factor[group, group], bits=bits)
        free[start + group_size :] -= factor[group, start + group_size :].T @ errors
    return rounded.T.to(weight.dtype).contiguous()


def inverse_factor(squared: torch.Tensor) -> torch.Tensor:
    """Upper triangular U with Uᵀ U = H⁻¹."""
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(squared))
    return torch.linalg.cholesky(inverse, upper=True)


def _round_group(free: torch.Tensor, factor: torch.Tensor, *, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Round the columns of one group, [size, rows], in turn; the rounded group and the scaled errors."""
    scale = absmax.absmax_scale(free.T, bits=bits, scale_dtype=torch.float16).float()[:, 0]  # [rows]
    divisor = torch.where(scale > 0, scale, 1)  # a group of zeros stays one
    qmax, diagonal = absmax.largest_code(bits), factor.diagonal().tolist()
    rounded, errors = torch.empty_like(free), torch.empty_like(free)
    for j, column in enumerate(free):
        rounded[j] = column.div(divisor).round_().clamp_(-qmax, qmax).mul_(scale)
        errors[j] = (column - rounded[j]).div_(diagonal[j])
        free[j + 1 :].addr_(factor[j, j + 1 :], errors[j], alpha=-1)  # minus the outer product
    return rounded, errors


@contextmanager
def gptq_quantized(
    model: nn.Module, calibration_ids: torch.Tensor, *, bits: int, group_size: int, sequential: bool
) -> Iterator[nn.Module]:
    """The model with every projection rounded by GPTQ on calibration sequences [B, n].

    One pass does it: a hook rounds a layer just before the layer runs, on the very input it is about to
    read. Sequential: the layer then runs rounded, so that later layers see and correct the errors of
    earlier ones. One-shot: it runs in floating point and all layers are exchanged at the end.
    """
    with restored(model) as layers:
        waiting: dict[str, torch.Tensor] = {}

        def round_now(name: str, inputs: torch.Tensor) -> None:
            weight = layers[name].weight
            result = gptq(weight.data, inputs.flatten(0, -2), bits=bits, group_size=group_size)
            if sequential:
                weight.data = result
            else:
                waiting[name] = result

        with torch.inference_mode(), watched(layers, round_now):
            run_body(model, calibration_ids)
        for name, result in waiting.items():
            layers[name].weight.data = result
        yield model
