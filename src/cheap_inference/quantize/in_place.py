"""Replace every projection matrix of a model for the length of a `with` block, and put it back exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from ..errors import UserError


def projections(model: nn.Module) -> dict[str, nn.Linear]:
    """Every linear layer by name, the output head (tied to the embedding or not) left out.

    Raises:
        UserError: the model keeps matrices elsewhere (fused experts, Conv1D), which would be skipped in
            silence, or has no linear layer.
    """
    head = model.get_output_embeddings()
    found = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module is not head
    }
    known = {id(module.weight) for module in model.modules() if isinstance(module, (nn.Linear, nn.Embedding))}
    others = [
        name for name, weight in model.named_parameters() if weight.ndim > 1 and id(weight) not in known
    ]
    if others or not found:
        example = f" such as {others[0]}" if others else ""
        raise UserError(
            f"This model keeps matrices outside plain linear layers{example}: choose another model."
        )
    return found


@contextmanager
def restored(model: nn.Module) -> Iterator[dict[str, nn.Linear]]:
    """Hand out the projections; on leaving, by an exception too, their weights are the original tensors.

    Inside, assign `linear.weight.data`; the original storage is only set aside, never written to.
    """
    layers = projections(model)
    originals = {name: linear.weight.data for name, linear in layers.items()}
    try:
        yield layers
    finally:
        for name, linear in layers.items():
            linear.weight.data = originals[name]


@contextmanager
def quantized(model: nn.Module, scheme: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[nn.Module]:
    """The model with `scheme` applied to every projection matrix; the embedding keeps its weights."""
    with restored(model) as layers:
        for linear in layers.values():
            linear.weight.data = scheme(linear.weight.data)
        yield model
