"""Models whose projections are stored small while they run, so that "fewer bytes, faster steps" can be timed.

On a CPU two private operators of torch multiply bf16 activations by INT8 rows or INT4 groups. Private
operators come and go: `supported` tries them instead of trusting a version. On CUDA bitsandbytes does
the same work.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from ..errors import UserError
from . import absmax
from .in_place import projections
from .small_storage_cuda import bitsandbytes_linear, side_tensors

#: Group sizes that the INT4 kernel takes, the coarsest first.
INT4_GROUP_SIZES = (128, 64, 32)
#: The INT4 kernel stores codes 0 ... 15 and subtracts this.
INT4_ZERO = 8
_TILES = 2  # the CPU packing ignores it, but its signature asks for it


class Int8Linear(nn.Module):
    """Linear layer on an int8 matrix [out, in] with one bf16 scale a row."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        codes, scale = absmax.encode(
            linear.weight.float(), bits=8, granularity="row", scale_dtype=torch.bfloat16
        )
        self.register_buffer("codes", codes)
        self.register_buffer("scale", scale[:, 0].contiguous())
        self.bias = linear.bias

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[..., in] bf16 -> [..., out] bf16."""
        rows = inputs.reshape(-1, inputs.shape[-1])
        out = torch._weight_int8pack_mm(rows, self.codes, self.scale)
        return _shaped(out, inputs, self.bias)


class Int4Linear(nn.Module):
    """Linear layer on packed 4-bit codes, a bf16 scale (and a zero that stays 0) a group."""

    def __init__(self, linear: nn.Linear, *, group_size: int):
        super().__init__()
        codes, scale = absmax.encode(
            linear.weight.float(), bits=4, granularity=group_size, scale_dtype=torch.bfloat16
        )
        packed = torch._convert_weight_to_int4pack_for_cpu((codes + INT4_ZERO).int(), _TILES)
        self.group_size = group_size
        self.register_buffer("codes", packed)  # uint8 [out, in / 2]
        self.register_buffer(
            "scale_and_zero", torch.stack([scale.T, torch.zeros_like(scale.T)], -1).contiguous()
        )
        self.bias = linear.bias

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[..., in] bf16 -> [..., out] bf16."""
        rows = inputs.reshape(-1, inputs.shape[-1])
        out = torch._weight_int4pack_mm_for_cpu(rows, self.codes, self.group_size, self.scale_and_zero)
        return _shaped(out, inputs, self.bias)


def stored_small(model: nn.Module, *, bits: int) -> nn.Module:
    """A bf16 copy of the model whose projections are stored in 8 or 4 bits; the embedding stays bf16.

    Raises:
        UserError: this torch has no such kernel, or no group size of the kernel divides every row.
    """
    if not supported(model, bits=bits):
        raise UserError(
            f"This installation has no kernel for weights stored in {bits} bits: leave that row out."
        )
    small = copy.deepcopy(model).to(torch.bfloat16)
    layers = projections(small)
    replace = _replacement(layers, bits=bits, device=next(model.parameters()).device)
    for name, linear in layers.items():
        parent, _, child = name.rpartition(".")
        setattr(small.get_submodule(parent), child, replace(linear))
    return small


def supported(model: nn.Module, *, bits: int) -> bool:
    """Whether one projection of this model can be stored in `bits` bits and multiplied here."""
    layers = projections(model)
    first = copy.deepcopy(next(iter(layers.values()))).to(torch.bfloat16)
    try:
        replacement = _replacement(layers, bits=bits, device=first.weight.device)(first)
        replacement(torch.ones(1, first.in_features, dtype=torch.bfloat16, device=first.weight.device))
    except (AttributeError, ImportError, NotImplementedError, RuntimeError, UserError):
        return False
    return True


def storage_bytes(model: nn.Module) -> int:
    """Bytes of the model's parameters, buffers and scales, a shared tensor counted once."""
    scales = [tensor for module in model.modules() for tensor in side_tensors(module)]
    tensors = {tensor.data_ptr(): tensor for tensor in (*model.parameters(), *model.buffers(), *scales)}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def kernel_group_size(layers: dict[str, nn.Linear]) -> int:
    """The coarsest group size of the INT4 kernel that divides every row.

    Raises:
        UserError: there is none.
    """
    for size in INT4_GROUP_SIZES:
        if all(linear.in_features % size == 0 for linear in layers.values()):
            return size
    raise UserError("No group size of the INT4 kernel divides every row of this model.")


def _replacement(
    layers: dict[str, nn.Linear], *, bits: int, device: torch.device
) -> Callable[[nn.Linear], nn.Module]:
    if device.type == "cuda":
        return lambda linear: bitsandbytes_linear(linear, bits=bits)
    if bits == 8:
        return Int8Linear
    group_size = kernel_group_size(layers)
    return lambda linear: Int4Linear(linear, group_size=group_size)


def _shaped(out: torch.Tensor, inputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    out = out.reshape(*inputs.shape[:-1], out.shape[-1])
    return out if bias is None else out + bias
