"""Time as ratios: interleaved runs on one machine, their spread, and the noise they stand in.

On a shared machine seconds mean nothing from one run to the next, so what is claimed is the ratio of
two functions that ran in turns, beside the ratio of a function with itself.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .quantity import Quantity


def synchronize(device: Any) -> None:
    """Wait until `device` (name or torch.device) has done what it was asked; CUDA only queues it."""
    if str(device).startswith("cuda"):
        import torch  # here, so that a page that only compares recorded ratios need not load torch

        torch.cuda.synchronize(device)


def interleaved(
    functions: Mapping[str, Callable[[], object]],
    *,
    repeats: int,
    device: Any,
    warmup: int = 1,
    before: Callable[[], object] = lambda: None,
) -> dict[str, list[float]]:
    """Seconds of each function, run in turns (A B, B A, A B ...), `repeats` samples each.

    Taking turns lets a disturbance hit all alike; alternating the order spares the first of a round
    from always paying for what the last one left. `before` runs untimed before every call.
    """
    for function in list(functions.values()) * warmup:
        before()
        function()
    samples: dict[str, list[float]] = {name: [] for name in functions}
    with _collector_paused():
        for repeat in range(repeats):
            for name in functions if repeat % 2 == 0 else reversed(functions):
                before()
                samples[name].append(_seconds(functions[name], device))
    return samples


def median_seconds(samples: Sequence[float]) -> Quantity:
    """Median and interquartile range of samples in seconds."""
    return Quantity.of_samples(samples, unit="s")


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Quantity:
    """Median and interquartile range of the ratios of samples taken in the same round."""
    pairs = zip(numerator, denominator, strict=True)
    return Quantity.of_samples([above / below for above, below in pairs], unit="ratio")


def noise_floor(
    function: Callable[[], object],
    *,
    repeats: int,
    device: Any,
    warmup: int = 1,
    before: Callable[[], object] = lambda: None,
) -> Quantity:
    """The ratio of `function` with itself, measured as any other ratio: its spread is the noise."""
    twice = {"first": function, "second": function}
    samples = interleaved(twice, repeats=repeats, device=device, warmup=warmup, before=before)
    return ratio(samples["first"], samples["second"])


def beyond_noise(measured: Quantity, floor: Quantity) -> bool:
    """Whether a ratio's interquartile range lies wholly outside the noise floor's and apart from 1."""
    return measured.low > max(floor.high, 1.0) or measured.high < min(floor.low, 1.0)


def _seconds(function: Callable[[], object], device: Any) -> float:
    synchronize(device)
    start = time.perf_counter()
    function()
    synchronize(device)
    return time.perf_counter() - start


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection inside a sample; what is pending is collected first."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
