"""Peak memory of one call, from the allocator's own account.

On CUDA the allocator keeps the peak. On CPU torch's profiler reports every allocation and release, and
the peak is the highest running sum. Profiling costs some 23 MB of events a decode step, so callers
profile the last step of a loop, which needs the most, and not the whole loop.

A block that existed before the call belongs to the baseline, and its release inside the call is not
credited. A step that replaces a cache should therefore make its copy of the cache inside the call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

# Read when the profiler starts: without it `USDT:` lines with times go to stderr, into notebooks too.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import torch
from torch.profiler import ProfilerActivity, profile


@dataclass(frozen=True)
class Peak:
    """Highest memory above the resident baseline, in bytes.

    `allocated_bytes` is what tensors asked for, `reserved_bytes` what CUDA's caching allocator took
    from the device for them (None on CPU, which has no such pool).
    """

    allocated_bytes: int
    reserved_bytes: int | None


@dataclass(frozen=True)
class Allocation:
    """One block: its bytes, the outermost operator that asked for it ("" where there is none, or the
    label of an enclosing `torch.profiler.record_function`), and whether it was live at the peak."""

    bytes: int
    operator: str
    live_at_peak: bool


def peak_allocation(function: Callable[[], object], *, device: torch.device) -> Peak:
    """Peak memory of `function()` above what was allocated before."""
    if torch.device(device).type == "cuda":
        return _cuda_peak(function, device)
    live = (block.bytes for block in allocations(function, device=device) if block.live_at_peak)
    return Peak(sum(live), None)


def allocations(
    function: Callable[[], object], *, device: torch.device, at_least: int = 0
) -> list[Allocation]:
    """Blocks of `at_least` bytes that `function()` allocated, in order of time.

    The blocks live at the peak add up to it, so a caller can split the peak by operator and size.
    """
    blocks: list[tuple[int, str]] = []
    live: dict[int, int] = {}  # address -> index of the block that holds it now
    current = peak = 0
    live_at_peak: set[int] = set()
    for address, size, operator in _memory_events(function, torch.device(device).type):
        if size > 0:
            live[address] = len(blocks)
            blocks.append((size, operator))
            current += size
        elif address in live:
            current -= blocks[live.pop(address)][0]
        if current > peak:
            peak, live_at_peak = current, set(live.values())
    return [
        Allocation(size, operator, index in live_at_peak)
        for index, (size, operator) in enumerate(blocks)
        if size >= at_least
    ]


def growth(function: Callable[[], object], *, device: torch.device) -> int:
    """Bytes more than before once `function()` has returned, while its result is still held."""
    if torch.device(device).type == "cuda":
        before = torch.cuda.memory_allocated(device)
        result = function()  # held, so that it counts
        after = torch.cuda.memory_allocated(device)
        del result
        return after - before
    live: dict[int, int] = {}
    for address, size, _ in _memory_events(function, "cpu"):
        if size > 0:
            live[address] = size
        else:
            live.pop(address, None)
    return sum(live.values())


def _cuda_peak(function: Callable[[], object], device: torch.device) -> Peak:
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()  # else memory reserved for earlier work would hide what this call needs
    allocated, reserved = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
    torch.cuda.reset_peak_memory_stats(device)
    function()
    torch.cuda.synchronize(device)
    return Peak(
        torch.cuda.max_memory_allocated(device) - allocated, torch.cuda.max_memory_reserved(device) - reserved
    )


def _memory_events(function: Callable[[], object], device_type: str) -> list[tuple[int, int, str]]:
    """(address, bytes, operator) of every allocation (+) and release (-), in order of time."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = function()
    del result  # only now, so that its release is no event
    tree = profiler.profiler.kineto_results.experimental_event_tree()
    events = [event for root in tree for event in _walk(root, "")]
    events.sort(key=lambda event: event[0].start_time_ns)
    fields = ((event.extra_fields, operator) for event, operator in events)
    return [(f.ptr, f.alloc_size, operator) for f, operator in fields if f.device.type == device_type]


def _walk(event: Any, operator: str) -> Iterator[tuple[Any, str]]:
    """Memory events below `event`, each with the name of the outermost operator around it."""
    if event.name == "[memory]":
        yield event, operator
    for child in event.children:
        yield from _walk(child, operator or event.name)
