"""Measurements of the section batching: many requests in one step, where it stops paying, what it does to answers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from .. import cost, kv_cache, probes, timing
from ..generation import generate_with_margins
from ..models.load import LoadedModel, load
from ..passage import prompt_ids
from ..quantity import Quantity

DecodeBatch = Callable[[Any, torch.Tensor, Any], torch.Tensor]
GenerateBatch = Callable[[Any, torch.Tensor, int], torch.Tensor]
FindKnee = Callable[[Sequence[int], Sequence[float]], int | None]

REPEATS = 9
RESAMPLES = 2000
SEED = 0
MILLISECONDS = 1000
PROMPTS = 4
ANSWER_BATCHES = (8, 32)
#: A batch must leave this much room: its cache, the copy a step makes of it, and the smaller batches.
CACHES_AT_ONCE = 3


@dataclass(frozen=True)
class SizeRow:
    """One batch size. Quantities are None where the batch does not fit into memory.

    `step` is what every request of the batch waits for its token, in milliseconds; `throughput` tokens a
    second over all of them. The ratios are to a batch of one in the same round, `gain` the throughput over that
    of half the batch. `matrix_share` is products a second over the measured peak, `read_share` weight and
    cache bytes a second over the measured read bandwidth.
    """

    batch_size: int
    cache_bytes: int
    step: Quantity | None = None
    throughput: Quantity | None = None
    throughput_ratio: Quantity | None = None
    wait_ratio: Quantity | None = None
    gain: Quantity | None = None
    matrix_share: Quantity | None = None
    read_share: Quantity | None = None


@dataclass(frozen=True)
class KneeShare:
    """How many of the resampled measurements put the knee at this batch size (None: past the largest)."""

    batch_size: int | None
    share: float


@dataclass(frozen=True)
class Sweep:
    """Decode steps over batch sizes, and where doubling stops paying.

    `knee` None: the last doubling still paid. `faster_and_shorter` lists the sizes that beat a smaller one in
    throughput and in latency, beyond the spread of both. `peak` is in MACs, `bandwidth` in bytes a second.
    """

    cached_tokens: int
    rows: tuple[SizeRow, ...]
    largest: int
    knee: int | None
    knee_shares: tuple[KneeShare, ...]
    faster_and_shorter: tuple[int, ...]
    peak: Quantity
    bandwidth: Quantity
    sixteen_throughput: Quantity | None
    sixteen_wait: Quantity | None
    thirty_two_gain: Quantity | None
    largest_matrix_share: Quantity


@dataclass(frozen=True)
class AnswerRow:
    """A few prompts alone, and again as the rows of a batch.

    `changed` counts the prompts whose tokens differ in any row, `first_difference` the tokens before the
    first that differs (None: all are equal), `margin` how far that prompt's choice alone stood above its
    runner-up there, in logits.
    """

    dtype: str
    batch_size: int
    changed: int
    first_difference: int | None
    margin: float | None


@dataclass(frozen=True)
class Answers:
    """Whether a request's neighbours change its tokens. `same_in_fp32`: no row of any fp32 batch differs."""

    prompts: int
    prompt_tokens: int
    new_tokens: int
    same_in_fp32: bool
    rows: tuple[AnswerRow, ...]


@torch.inference_mode()
def sweep(
    lm: LoadedModel, decode_batch: DecodeBatch, find_knee: FindKnee, *, cached_tokens: int, largest_batch: int
) -> Sweep:
    """Time one decode step at every power of two up to `largest_batch`, in turns, each from a full-length cache."""
    wanted = [2**power for power in range(largest_batch.bit_length())]
    sizes = [size for size in wanted if fits_in_memory(lm, size, cached_tokens)]
    samples = _step_samples(lm, decode_batch, sizes, cached_tokens)
    sizes = list(samples)
    peak = probes.matmul_throughput(lm.device, dtype=lm.dtype)
    bandwidth = probes.read_bandwidth(lm.device)
    rows = [_row(lm, size, samples, cached_tokens, peak, bandwidth) for size in sizes]
    missing = [SizeRow(size, _cache_bytes(lm, size, cached_tokens)) for size in wanted if size not in samples]
    of = {row.batch_size: row for row in rows}
    return Sweep(
        cached_tokens=cached_tokens,
        rows=(*rows, *missing),
        largest=sizes[-1],
        knee=find_knee(sizes, _throughputs(samples, range(REPEATS))),
        knee_shares=knee_shares(samples, find_knee),
        faster_and_shorter=faster_and_shorter(samples),
        peak=peak,
        bandwidth=bandwidth,
        sixteen_throughput=of[16].throughput_ratio if 16 in of else None,
        sixteen_wait=of[16].wait_ratio if 16 in of else None,
        thirty_two_gain=of[32].gain if 32 in of else None,
        largest_matrix_share=rows[-1].matrix_share,
    )


def fits_in_memory(lm: LoadedModel, batch_size: int, tokens: int) -> bool:
    """Whether a batch's cache, the copy a step makes of it and the smaller batches find room, logits included."""
    logits = 4 * batch_size * lm.config.vocab_size
    needed = CACHES_AT_ONCE * _cache_bytes(lm, batch_size, tokens + 1) + 2 * logits
    return needed < free_bytes(lm.device)


def free_bytes(device: torch.device) -> int:
    """Memory that can still be had: the card's, or the system's within the limit of its control group."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", _text("/proc/meminfo"), re.MULTILINE)
    free = 1024 * int(found.group(1)) if found else 2**33
    limit, used = (_text(f"/sys/fs/cgroup/memory.{name}").strip() for name in ("max", "current"))
    return min(free, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else free


def _text(path: str) -> str:
    return Path(path).read_text(encoding="ascii") if Path(path).exists() else ""


def _cache_bytes(lm: LoadedModel, batch_size: int, tokens: int) -> int:
    size = lm.dtype.itemsize
    return kv_cache.cache_bytes_formula(lm.config, tokens, bytes_per_element=size, batch_size=batch_size)


def _step_samples(
    lm: LoadedModel, decode_batch: DecodeBatch, sizes: list[int], tokens: int
) -> dict[int, list[float]]:
    """Seconds of a step by batch size; a size that runs out of memory all the same ends the list."""
    caches, steps = {}, {}
    for size in sizes:
        try:
            caches[size] = kv_cache.filled_cache(
                lm.config, tokens=tokens, batch_size=size, dtype=lm.dtype, device=lm.device
            )
            last = torch.zeros(size, 1, dtype=torch.long, device=lm.device)
            decode_batch(lm.model, last, caches[size])
        except torch.cuda.OutOfMemoryError:
            caches.pop(size, None)
            break
        steps[size] = lambda size=size, last=last: decode_batch(lm.model, last, caches[size])
    return timing.interleaved(
        steps,
        repeats=REPEATS,
        device=lm.device,
        warmup=0,
        before=lambda: [kv_cache.crop_to(cache, tokens) for cache in caches.values()],
    )


def _row(
    lm: LoadedModel, size: int, samples: dict, tokens: int, peak: Quantity, bandwidth: Quantity
) -> SizeRow:
    shape = cost.Shape.from_config(lm.config)
    seconds = samples[size]
    macs = size * cost.pass_macs(shape, queries=1, keys=tokens + 1, head="last")
    read = cost.step_weight_bytes(shape, bytes_per_element=lm.dtype.itemsize)
    read += _cache_bytes(lm, size, tokens)
    rounds = range(REPEATS)
    return SizeRow(
        batch_size=size,
        cache_bytes=_cache_bytes(lm, size, tokens),
        step=Quantity.of_samples([MILLISECONDS * s for s in seconds], unit="ms"),
        throughput=Quantity.of_samples([size / s for s in seconds], unit="tokens/s"),
        throughput_ratio=_ratio([size * samples[1][i] / seconds[i] for i in rounds]),
        wait_ratio=_ratio([seconds[i] / samples[1][i] for i in rounds]),
        gain=_ratio([2 * samples[size // 2][i] / seconds[i] for i in rounds]) if size > 1 else None,
        matrix_share=Quantity.of_samples([macs / s / peak.value for s in seconds], unit=""),
        read_share=Quantity.of_samples([read / s / bandwidth.value for s in seconds], unit=""),
    )


def _ratio(ratios: list[float]) -> Quantity:
    return Quantity.of_samples(ratios, unit="ratio")


def _throughputs(samples: dict[int, list[float]], rounds: Sequence[int]) -> list[float]:
    return [size / median(seconds[i] for i in rounds) for size, seconds in samples.items()]


def knee_shares(samples: dict[int, list[float]], find_knee: FindKnee) -> tuple[KneeShare, ...]:
    """Where the knee lies when the rounds of the measurement are drawn again with replacement.

    A round holds one sample of every size, taken one after the other, so whole rounds are drawn.
    """
    draw = random.Random(SEED)
    sizes, rounds = list(samples), range(len(next(iter(samples.values()))))
    drawn = (draw.choices(rounds, k=len(rounds)) for _ in range(RESAMPLES))
    knees = [find_knee(sizes, _throughputs(samples, again)) for again in drawn]
    found = sorted(set(knees), key=lambda knee: knee or float("inf"))
    return tuple(KneeShare(knee, knees.count(knee) / RESAMPLES) for knee in found)


def faster_and_shorter(samples: dict[int, list[float]]) -> tuple[int, ...]:
    """Sizes whose step is shorter than that of a smaller one: the whole middle half of the paired ratios below 1."""
    sizes = list(samples)
    beats = [
        larger
        for i, larger in enumerate(sizes)
        if any(timing.ratio(samples[larger], samples[smaller]).high < 1 for smaller in sizes[:i])
    ]
    return tuple(beats)


@torch.inference_mode()
def compare_answers(
    lm: LoadedModel, generate_batch: GenerateBatch, *, prompt_tokens: int, new_tokens: int
) -> Answers:
    """The same prompts alone and in batches, in fp32 and in 16 bits: where their tokens part."""
    half = torch.bfloat16 if lm.device.type == "cpu" else lm.dtype
    rows: list[AnswerRow] = []
    for dtype in dict.fromkeys((torch.float32, half)):
        model = lm if dtype == lm.dtype else load(lm.spec, device=lm.device, dtype=dtype)
        prompts = prompt_ids(model, PROMPTS * prompt_tokens).view(PROMPTS, prompt_tokens)
        alone = torch.cat([generate_batch(model.model, prompt[None], new_tokens) for prompt in prompts])
        for size in ANSWER_BATCHES:
            batch = generate_batch(model.model, prompts.repeat(size // PROMPTS, 1), new_tokens)
            rows.append(_answer_row(model, prompts, alone, batch))
    same = all(row.changed == 0 for row in rows if row.dtype == "float32")
    return Answers(PROMPTS, prompt_tokens, new_tokens, same, tuple(rows))


def _answer_row(
    lm: LoadedModel, prompts: torch.Tensor, alone: torch.Tensor, batch: torch.Tensor
) -> AnswerRow:
    """`alone` [PROMPTS, n] against `batch` [B, n], whose row i holds prompt i modulo PROMPTS."""
    differs = (batch.view(-1, *alone.shape) != alone).any(dim=0)  # [PROMPTS, n]
    steps = differs.any(dim=0).nonzero()  # [k, 1]
    first = int(steps[0]) if len(steps) else None
    margin = None
    if first is not None:
        prompt = prompts[int(differs[:, first].nonzero()[0])]
        margin = generate_with_margins(lm.model, prompt[None], first + 1).margins[first]
    return AnswerRow(
        dtype=str(lm.dtype).removeprefix("torch."),
        batch_size=len(batch),
        changed=int(differs.any(dim=1).sum()),
        first_difference=first,
        margin=margin,
    )
