"""Decode time with weights stored in few bits, for the section weight-quantization."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from transformers import Cache

from .. import timing
from ..generation import decode_step
from ..kv_cache import crop_to, filled_cache
from ..models.load import LoadedModel
from ..quantity import Quantity
from ..quantize.small_storage import storage_bytes, stored_small, supported

BATCH_SIZES = (1, 8)
CACHED_TOKENS = 64
REPEATS = 21
MILLISECONDS = 1000


@dataclass(frozen=True)
class StepRow:
    """A decode step with the projections stored one way.

    `weight_bytes` counts the tensors held. `speedups`: the bf16 step's time over this one's, by batch size.
    """

    storage: str
    weight_bytes: int
    steps: tuple[Quantity, ...]
    speedups: tuple[Quantity, ...]


@dataclass(frozen=True)
class Speed:
    """Steps of all storages; `noise` is bf16 against itself, by batch size. `missing`: kernels not here.

    `int8_speedup`: of the INT8 step for one request over the bf16 one, None without that kernel.
    """

    cached_tokens: int
    batch_sizes: tuple[int, ...]
    rows: tuple[StepRow, ...]
    noise: tuple[Quantity, ...]
    missing: tuple[str, ...]
    int8_speedup: Quantity | None


def time_storages(lm: LoadedModel) -> Speed:
    """Decode steps with weights in fp32, bf16 and, where a kernel exists, 8 and 4 bits, in turns."""
    models: dict[str, nn.Module] = {"fp32": lm.model} if lm.dtype == torch.float32 else {}
    models["bf16"] = copy.deepcopy(lm.model).to(torch.bfloat16)
    missing = []
    for bits in (8, 4):
        if supported(lm.model, bits=bits):
            models[f"int{bits}"] = stored_small(lm.model, bits=bits)
        else:
            missing.append(f"int{bits}")
    samples = {batch_size: _samples(models, lm.device, batch_size) for batch_size in BATCH_SIZES}
    rows = tuple(_row(name, model, samples) for name, model in models.items())
    noise = tuple(timing.ratio(found["bf16 again"], found["bf16"]) for found in samples.values())
    int8_speedup = next((row.speedups[0] for row in rows if row.storage == "int8"), None)
    return Speed(CACHED_TOKENS, BATCH_SIZES, rows, noise, tuple(missing), int8_speedup)


def _row(name: str, model: nn.Module, samples: dict[int, dict[str, list[float]]]) -> StepRow:
    steps = [
        Quantity.of_samples([MILLISECONDS * sample for sample in found[name]], unit="ms")
        for found in samples.values()
    ]
    speedups = [timing.ratio(found["bf16"], found[name]) for found in samples.values()]
    return StepRow(name, storage_bytes(model), tuple(steps), tuple(speedups))


def _samples(models: dict[str, nn.Module], device: torch.device, batch_size: int) -> dict[str, list[float]]:
    token = torch.ones(batch_size, 1, dtype=torch.long, device=device)
    caches = {
        name: filled_cache(
            model.config,
            tokens=CACHED_TOKENS,
            batch_size=batch_size,
            dtype=next(model.parameters()).dtype,
            device=device,
        )
        for name, model in models.items()
    }

    def rewind() -> None:
        for cache in caches.values():
            crop_to(cache, CACHED_TOKENS)

    steps = {name: _step(model, token, caches[name]) for name, model in models.items()}
    steps["bf16 again"] = steps["bf16"]
    return timing.interleaved(steps, repeats=REPEATS, warmup=3, device=device, before=rewind)


def _step(model: nn.Module, token: torch.Tensor, cache: Cache) -> Callable[[], torch.Tensor]:
    return lambda: decode_step(model, token, cache)
