"""What the layers see on calibration text: shared inputs and their statistics, gathered by hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from ..errors import UserError
from .in_place import projections


@dataclass(frozen=True)
class InputGroup:
    """Projections that read one and the same tensor.

    `norm_fed`: the tensor comes straight from a normalisation layer, so that a factor per dimension can
    be folded into that layer's weights at no cost at run time.
    """

    names: tuple[str, ...]
    norm_fed: bool


@torch.inference_mode()
def input_groups(model: nn.Module) -> list[InputGroup]:
    """Projections grouped by the tensor they read, found by watching a pass over two tokens."""
    layers = projections(model)
    seen: list[tuple[torch.Tensor, list[str]]] = []
    normalised: list[torch.Tensor] = []

    def note(name: str, tensor: torch.Tensor) -> None:
        for known, names in seen:
            if known is tensor:
                return names.append(name)
        return seen.append((tensor, [name]))

    with ExitStack() as hooks:
        for module in model.modules():
            if type(module).__name__.endswith("Norm"):
                handle = module.register_forward_hook(lambda _, __, output: normalised.append(output))
                hooks.callback(handle.remove)
        with watched(layers, note):
            model(torch.zeros(1, 2, dtype=torch.long, device=model.device), use_cache=False)
    missed = set(layers) - {name for _, names in seen for name in names}
    if missed:
        raise UserError(f"The layer {sorted(missed)[0]} takes no part in a plain pass: choose another model.")
    return [
        InputGroup(tuple(names), any(tensor is output for output in normalised)) for tensor, names in seen
    ]


@contextmanager
def watched(layers: dict[str, nn.Linear], note: Callable[[str, torch.Tensor], None]) -> Iterator[None]:
    """Call `note(name, input)` whenever a layer runs; the hooks go on leaving."""
    with ExitStack() as hooks:
        for name, linear in layers.items():
            handle = linear.register_forward_pre_hook(lambda _, inputs, name=name: note(name, inputs[0]))
            hooks.callback(handle.remove)
        yield


@torch.inference_mode()
def input_statistic(
    model: nn.Module,
    ids: torch.Tensor,
    groups: list[InputGroup],
    statistic: Callable[[torch.Tensor], torch.Tensor],
) -> list[torch.Tensor]:
    """`statistic` of the input [tokens, features] of every group, on calibration sequences [B, n]."""
    layers = projections(model)
    first = {group.names[0]: layers[group.names[0]] for group in groups}
    found: dict[str, torch.Tensor] = {}
    with watched(first, lambda name, inputs: found.update({name: statistic(inputs.flatten(0, -2))})):
        run_body(model, ids)
    return [found[group.names[0]] for group in groups]


def run_body(model: nn.Module, ids: torch.Tensor) -> None:
    """Run all layers on `ids` [B, n] without the output head."""
    model.get_decoder()(input_ids=ids, use_cache=False)
