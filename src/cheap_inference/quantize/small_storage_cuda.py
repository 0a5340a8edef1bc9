"""The small storage of bitsandbytes, for CUDA: INT8 rows (LLM.int8() without outliers) and NF4 blocks of 64."""

from __future__ import annotations

import torch
from torch import nn


def bitsandbytes_linear(linear: nn.Linear, *, bits: int) -> nn.Module:
    """The layer with its weights stored by bitsandbytes.

    Raises:
        ImportError: bitsandbytes is not installed.
    """
    import bitsandbytes

    shape = {"bias": linear.bias is not None, "device": "cpu"}
    device, weight = linear.weight.device, linear.weight.data.cpu()
    if bits == 8:
        small = bitsandbytes.nn.Linear8bitLt(
            linear.in_features, linear.out_features, has_fp16_weights=False, threshold=0.0, **shape
        )
        small.weight = bitsandbytes.nn.Int8Params(weight, requires_grad=False, has_fp16_weights=False)
    else:
        small = bitsandbytes.nn.Linear4bit(
            linear.in_features, linear.out_features, compute_dtype=torch.bfloat16, quant_type="nf4", **shape
        )
        small.weight = bitsandbytes.nn.Params4bit(
            weight, requires_grad=False, quant_type="nf4", compress_statistics=False
        )
    if linear.bias is not None:
        small.bias = nn.Parameter(linear.bias.data, requires_grad=False)
    return small.to(device)  # this is where bitsandbytes quantizes


def side_tensors(module: nn.Module) -> list[torch.Tensor]:
    """The scales that bitsandbytes keeps beside a layer's weights, neither parameters nor buffers."""
    weight = getattr(module, "weight", None)
    holders = (getattr(weight, "quant_state", None), weight, getattr(module, "state", None))
    found = [getattr(holder, name, None) for holder in holders for name in ("absmax", "SCB")]
    return [tensor for tensor in found if isinstance(tensor, torch.Tensor)]
