"""What this machine and this library reach: the numbers that say what binds a decode step.

Each probe takes about a second. A disturbance can only slow a probe down, so a rate is quoted at its
best sample; `low` and `high` of these quantities are the slowest and the fastest sample.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers import Cache

from .cost import Shape
from .generation import decode_step
from .kv_cache import crop_to, filled_cache, forward
from .models.load import random_model
from .quantity import Quantity
from .timing import interleaved, median_seconds

_SECONDS = 0.7  # of sampling a probe
_MOST_SAMPLES = 300
_BUFFER_BYTES = 2**28  # read by the bandwidth probe; more where the last-level cache exceeds a quarter
_SQUARE = {"cpu": 512, "cuda": 4096}  # operands that stay in a CPU's cache; enough rows to fill a GPU
_NARROW_CONTEXT = 16  # tokens in the cache of the model without width
_LAST_LEVEL_CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")


def read_bandwidth(device: torch.device) -> Quantity:
    """Bytes a second read by a sum over a buffer far larger than the last-level cache, all threads."""
    buffer = torch.ones(max(_BUFFER_BYTES, 4 * _last_level_cache_bytes()) // 4, device=device)
    return _best_rate(buffer.sum, work=buffer.numel() * 4, unit="bytes/s", device=device)


def matmul_throughput(device: torch.device, *, dtype: torch.dtype) -> Quantity:
    """Multiply-accumulates a second of a square matrix product, n^3 MACs."""
    n = _SQUARE[torch.device(device).type]
    left, right = torch.randn(2, n, n, device=device).to(dtype).unbind()
    return _best_rate(lambda: left @ right, work=n**3, unit="MACs/s", device=device)


@torch.inference_mode()
def matvec_bandwidth(model: Any) -> Quantity:
    """Bytes a second at which the library's matrix-vector product reads this model's own matrices.

    Every linear layer is applied once to one vector, in the model's order and nothing in between: the
    reads of a decode step without the rest of it.
    """
    layers = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    pairs = [(torch.ones(1, layer.in_features).to(layer.weight), layer.weight) for layer in layers]
    work = sum(weight.numel() * weight.element_size() for _, weight in pairs)

    def read_all() -> None:
        for vector, weight in pairs:
            functional.linear(vector, weight)

    return _best_rate(read_all, work=work, unit="bytes/s", device=model.device)


def dispatch_overhead(
    config: Any, *, dtype: torch.dtype, device: torch.device, repeats: int = 20
) -> Quantity:
    """Seconds (median, IQR) of one decode step of a model as deep as `config` and almost without width.

    Its products are next to nothing, so what is left is what launching the operators costs.
    """
    narrow = _narrow(config)
    model = random_model(narrow, dtype=dtype, seed=0).to(device)
    cache = filled_cache(narrow, tokens=_NARROW_CONTEXT, dtype=dtype, device=device)
    token = torch.zeros(1, 1, dtype=torch.long, device=device)
    samples = interleaved(
        {"step": lambda: decode_step(model, token, cache)},
        repeats=repeats,
        device=device,
        before=lambda: crop_to(cache, _NARROW_CONTEXT),
    )
    return median_seconds(samples["step"])


def counted_macs(
    model: Any, ids: torch.Tensor, cache: Cache | None = None, *, logits_to_keep: int = 0
) -> int:
    """MACs of one forward pass as torch's FLOP counter sees them, on the explicit attention path.

    The counter has no formula for the CPU's fused attention (it reads 0 there), hence the switch to
    "eager" for this pass. The outer product that makes the rotary angles is left out: a position's
    angles do not depend on the model's work. `cost.pass_macs` must equal the result exactly.
    """
    chosen = model.config._attn_implementation
    counter = FlopCounterMode(display=False, depth=None)
    model.set_attn_implementation("eager")
    try:
        with torch.inference_mode(), counter:
            forward(model, ids, cache, logits_to_keep=logits_to_keep)
    finally:
        model.set_attn_implementation(chosen)
    modules = counter.get_flop_counts().items()
    rotary = sum(sum(counts.values()) for name, counts in modules if ".rotary_emb" in name)
    return (counter.get_total_flops() - rotary) // 2


def _best_rate(function: Callable[[], object], *, work: int, unit: str, device: torch.device) -> Quantity:
    """`work` a second: a first round says how many calls fit in the time a probe may take."""
    first = interleaved({"probe": function}, repeats=1, device=device)["probe"][0]
    repeats = min(max(3, round(_SECONDS / first)), _MOST_SAMPLES)
    samples = interleaved({"probe": function}, repeats=repeats, device=device)["probe"]
    rates = [work / seconds for seconds in samples]
    return Quantity(max(rates), unit, min(rates), max(rates), len(rates))


def _last_level_cache_bytes() -> int:
    """Size of the last-level cache where the system tells it (Linux: "32768K"), else 0."""
    try:
        return int(_LAST_LEVEL_CACHE.read_text(encoding="utf-8").strip().removesuffix("K")) * 1024
    except (OSError, ValueError):
        return 0


def _narrow(config: Any) -> Any:
    """The same depth, layer kinds and operators; every width as small as the head counts allow."""
    shape = Shape.from_config(config)
    narrow = copy.deepcopy(config)
    groups = shape.heads // shape.kv_heads
    heads = 2 if groups > 1 else 1
    sizes = {"num_attention_heads": heads, "num_key_value_heads": 1, "head_dim": 16}
    sizes |= {"hidden_size": 16 * heads, "intermediate_size": 16, "vocab_size": 16, "pad_token_id": None}
    for name, size in sizes.items():
        setattr(narrow, name, size)
    return narrow
