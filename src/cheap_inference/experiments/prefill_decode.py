"""Measurements of the section prefill-decode: the two phases of a request, and what binds each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import torch
from torch.nn import functional

from .. import cost, probes, timing
from ..generation import decode_step, prefill
from ..kv_cache import cache_bytes, cache_length, cache_tensors, crop_to, filled_cache, new_cache
from ..models.load import LoadedModel, chapter_config
from ..passage import prompt_ids
from ..quantity import Quantity

Clock = Callable[[], float]
Serve = Callable[[torch.nn.Module, torch.Tensor, int, Clock], list[float]]

REQUESTS = 3
PROMPTS = (16, 64, 256, 1024)
PROMPT_REPEATS = 3
#: Caches that every model is given, and the longer ones that some are made for.
CONTEXTS = (16, 64, 256, 1024, 2048)
LONG_CONTEXTS = (4096, 8192)
SHORTEST, CLAIMED_CONTEXT = 16, 1024
STEP_REPEATS = 9
HISTORIES = (256, 512, 2048)
MESSAGE_TOKENS = 32
TURN_REPEATS = 2  # the ratio is in the tens, and recomputing is slow
MILLISECONDS = 1000


@dataclass(frozen=True)
class Phases:
    """One request, split. Times in milliseconds, medians with their interquartile range.

    `stamps` says when each new token was there, in milliseconds from the start, median of all requests.
    """

    prompt_tokens: int
    steps: int
    first_token: Quantity
    decode: Quantity
    prompt_token: Quantity
    decoded_token: Quantity
    prompt_tokens_per_second: Quantity
    tokens_per_second: Quantity
    ratio: Quantity
    stamps: tuple[float, ...]


@dataclass(frozen=True)
class PrefillRow:
    """A prompt of `tokens` tokens in one pass: milliseconds for all, and for each."""

    tokens: int
    whole: Quantity
    per_token: Quantity


@dataclass(frozen=True)
class DecodeRow:
    """One decode step over `context` cached tokens, in milliseconds and against the shortest cache.

    `predicted` is that ratio if a step cost what it reads. `append` is storing the new token alone,
    `attend` the attention of all layers alone, both in milliseconds.
    """

    context: int
    step: Quantity
    ratio: Quantity
    predicted: float
    cache_bytes: int
    share: float
    append: Quantity
    attend: Quantity


@dataclass(frozen=True)
class Decode:
    """Decode steps over caches of several lengths. The shares are cache bytes over weight bytes."""

    weight_bytes: int
    rows: tuple[DecodeRow, ...]
    claimed_ratio: Quantity
    claimed_context: int
    share: float
    share_chapter: float


@dataclass(frozen=True)
class TurnRow:
    """Time to the first token of a second turn, in milliseconds, the history recomputed or reused."""

    history: int
    recomputed: Quantity
    reused: Quantity
    ratio: Quantity
    cache_bytes: int
    same_token: bool
    logit_difference: float


@dataclass(frozen=True)
class Turn:
    """A message of `message_tokens` after histories of several lengths, shortest first."""

    message_tokens: int
    rows: tuple[TurnRow, ...]


@dataclass(frozen=True)
class Budget:
    """Where one pass's milliseconds went.

    `floor` reads the weights once at the measured bandwidth while `compute` does the products at the
    measured throughput; `kernel` is what the library's products took beyond the longer of the two,
    `overhead` what dispatch took, `rest` what is left (negative where the parts overlap).
    `bound` names the largest share, or two that the pass's own spread cannot tell apart.
    """

    positions: int
    measured: Quantity
    floor: float
    compute: float
    kernel: float
    overhead: float
    rest: float
    macs_per_byte: float
    bound: tuple[str, ...]


@dataclass(frozen=True)
class Bounds:
    """What this machine reaches, and what binds the two phases on it. A product is [positions, rows] x
    [rows, columns]."""

    read_bandwidth: Quantity
    matvec_bandwidth: Quantity
    throughput: Quantity
    product_rows: int
    product_columns: int
    prefill: Budget
    decode: Budget
    above_floor: Quantity


def time_request(lm: LoadedModel, serve: Serve, *, prompt_tokens: int, new_tokens: int) -> Phases:
    """Serve the same request several times, the phases alternating, and split its clock."""
    prompt = prompt_ids(lm, prompt_tokens)
    served: list[list[float]] = []

    def clock() -> float:
        timing.synchronize(lm.device)
        return perf_counter()

    def request() -> None:
        served.append(serve(lm.model, prompt, new_tokens, clock))

    serve(lm.model, prompt, 2, clock)  # warm: one prefill, one step
    timing.interleaved({"request": request}, repeats=REQUESTS, warmup=0, device=lm.device)
    return split_clock(served, prompt_tokens=prompt_tokens)


def split_clock(served: list[list[float]], *, prompt_tokens: int) -> Phases:
    """Phases of requests given as seconds from the start to each new token, the first by prefill."""
    steps = len(served[0]) - 1
    first = [stamps[0] for stamps in served]
    rest = [stamps[-1] - stamps[0] for stamps in served]
    each_prompt = [seconds / prompt_tokens for seconds in first]
    each_step = [seconds / steps for seconds in rest]
    return Phases(
        prompt_tokens=prompt_tokens,
        steps=steps,
        first_token=_milliseconds(first),
        decode=_milliseconds(rest),
        prompt_token=_milliseconds(each_prompt),
        decoded_token=_milliseconds(each_step),
        prompt_tokens_per_second=Quantity.of_samples([1 / each for each in each_prompt], unit="tokens/s"),
        tokens_per_second=Quantity.of_samples([1 / each for each in each_step], unit="tokens/s"),
        ratio=timing.ratio(each_step, each_prompt),
        stamps=tuple(MILLISECONDS * median(column) for column in zip(*served, strict=True)),
    )


def time_prefill(lm: LoadedModel) -> tuple[PrefillRow, ...]:
    """Prompts of several lengths, in turns, each into an empty cache."""
    prompts = {tokens: prompt_ids(lm, tokens) for tokens in PROMPTS}
    prefill(lm.model, prompts[PROMPTS[0]], new_cache(lm.config))  # warm; a call at every length is too long
    samples = _interleaved(
        {n: lambda ids=ids: prefill(lm.model, ids, new_cache(lm.config)) for n, ids in prompts.items()},
        lm,
        repeats=PROMPT_REPEATS,
        warmup=0,
    )
    return tuple(
        PrefillRow(n, _milliseconds(times), _milliseconds([time / n for time in times]))
        for n, times in samples.items()
    )


def time_decode(lm: LoadedModel) -> Decode:
    """One token after caches of several lengths, in turns, every cache cut back before every call."""
    shape = cost.Shape.from_config(lm.config)
    caches = {n: _filled(lm, n) for n in contexts_of(lm.config)}
    sizes = {n: cache_bytes(cache) for n, cache in caches.items()}
    weights = cost.step_weight_bytes(shape, bytes_per_element=lm.dtype.itemsize)
    steps, appends, attends = _decode_samples(lm, shape, caches)
    rows = tuple(
        DecodeRow(
            context=n,
            step=_milliseconds(steps[n]),
            ratio=timing.ratio(steps[n], steps[SHORTEST]),
            predicted=(weights + size) / (weights + sizes[SHORTEST]),
            cache_bytes=size,
            share=size / weights,
            append=_milliseconds(appends[n]),
            attend=_milliseconds(attends[n]),
        )
        for n, size in sizes.items()
    )
    claimed = next(row for row in rows if row.context == CLAIMED_CONTEXT)
    return Decode(weights, rows, claimed.ratio, CLAIMED_CONTEXT, claimed.share, chapter_share())


def contexts_of(config: object) -> tuple[int, ...]:
    """Lengths of cache to try: the longer ones only where the model is made for as many positions."""
    longest = getattr(config, "max_position_embeddings", None) or 0
    return CONTEXTS + tuple(n for n in LONG_CONTEXTS if n <= longest)


def chapter_share() -> float:
    """Cache bytes over weight bytes that a step of the chapter's model reads at the claim's context."""
    shape = cost.Shape.from_config(chapter_config())
    cached = cost.kv_bytes(shape, tokens=CLAIMED_CONTEXT, bytes_per_element=2)
    return cached / cost.step_weight_bytes(shape, bytes_per_element=2)


def _decode_samples(lm: LoadedModel, shape: cost.Shape, caches: dict) -> tuple[dict, dict, dict]:
    """Seconds of whole steps, of appending one token, and of attention, over each of the caches."""
    token = torch.zeros(1, 1, dtype=torch.long, device=lm.device)
    query = torch.ones(1, shape.heads, 1, shape.head_dim, dtype=lm.dtype, device=lm.device)

    def cut_back() -> None:
        for context, cache in caches.items():
            crop_to(cache, context)

    def append(cache: object) -> None:
        for pair in cache_tensors(cache):
            for tensor in pair:  # as the library's cache does it: a new tensor, one position longer
                torch.cat([tensor, tensor[..., :1, :]], dim=-2)

    def attend(cache: object) -> None:
        for keys, values in cache_tensors(cache):
            functional.scaled_dot_product_attention(query, keys, values, enable_gqa=True)

    def step(cache: object) -> None:
        decode_step(lm.model, token, cache)

    parts = (step, append, attend)
    calls = {(part, n): lambda part=part, c=c: part(c) for part in parts for n, c in caches.items()}
    samples = _interleaved(calls, lm, repeats=STEP_REPEATS, before=cut_back)
    return tuple({n: samples[part, n] for n in caches} for part in parts)


def time_second_turn(lm: LoadedModel) -> Turn:
    """The first token after a new message: all of the conversation in one pass, or the message alone."""
    prefill(lm.model, prompt_ids(lm, MESSAGE_TOKENS), new_cache(lm.config))  # warm; a recomputed turn is long
    return Turn(MESSAGE_TOKENS, tuple(_turn_row(lm, history) for history in HISTORIES))


def _turn_row(lm: LoadedModel, history: int) -> TurnRow:
    """A recomputed turn leaves the cache that the reused one starts from, cut back to the history."""
    conversation = prompt_ids(lm, history + MESSAGE_TOKENS)
    message = conversation[:, history:]
    logits: dict[str, torch.Tensor] = {}
    cache = new_cache(lm.config)

    def recompute() -> None:
        nonlocal cache
        cache = new_cache(lm.config)
        logits["recomputed"] = prefill(lm.model, conversation, cache)

    def reuse() -> None:
        logits["reused"] = prefill(lm.model, message, cache)

    def cut_back() -> None:
        crop_to(cache, min(history, cache_length(cache)))

    calls = {"recomputed": recompute, "reused": reuse}
    samples = _interleaved(calls, lm, repeats=TURN_REPEATS, warmup=0, before=cut_back)
    cut_back()
    tokens = {name: int(rows.argmax()) for name, rows in logits.items()}
    return TurnRow(
        history=history,
        recomputed=_milliseconds(samples["recomputed"]),
        reused=_milliseconds(samples["reused"]),
        ratio=timing.ratio(samples["recomputed"], samples["reused"]),
        cache_bytes=cache_bytes(cache),
        same_token=tokens["recomputed"] == tokens["reused"],
        logit_difference=float((logits["recomputed"] - logits["reused"]).abs().max()),
    )


def find_bounds(lm: LoadedModel, *, prompt_tokens: int) -> Bounds:
    """Measure the machine, then say of both phases which share of the time is the largest."""
    shape = cost.Shape.from_config(lm.config)
    passes = _both_phases(lm, prompt_tokens)
    bandwidth = probes.read_bandwidth(lm.device)
    matvec = probes.matvec_bandwidth(lm.model)
    throughput = probes.matmul_throughput(lm.device, dtype=lm.dtype)
    dispatch = probes.dispatch_overhead(lm.config, dtype=lm.dtype, device=lm.device)
    weights = cost.step_weight_bytes(shape, bytes_per_element=lm.dtype.itemsize)
    products = {1: weights / matvec.value, prompt_tokens: prompt_products_seconds(lm, prompt_tokens)}
    budgets = {
        phase: budget(
            samples,
            positions=positions,
            weight_bytes=weights,
            macs=cost.pass_macs(shape, queries=positions, keys=keys, head="last"),
            bandwidth=bandwidth.value,
            throughput=throughput.value,
            products=products[positions],
            dispatch=dispatch.value,
        )
        for phase, positions, keys, samples in (
            ("prefill", prompt_tokens, prompt_tokens, passes["prefill"]),
            ("decode", 1, prompt_tokens + 1, passes["decode"]),
        )
    }
    step, floor = budgets["decode"].measured, budgets["decode"].floor
    above = Quantity(step.value / floor, "ratio", step.low / floor, step.high / floor, step.n)
    return Bounds(
        bandwidth, matvec, throughput, shape.hidden, shape.intermediate, above_floor=above, **budgets
    )


def budget(
    samples: list[float],
    *,
    positions: int,
    weight_bytes: int,
    macs: int,
    bandwidth: float,
    throughput: float,
    products: float,
    dispatch: float,
) -> Budget:
    """Divide the median of `samples` (seconds, like `products` and `dispatch`) into its causes."""
    measured = _milliseconds(samples)
    floor, compute = weight_bytes / bandwidth, macs / throughput
    kernel = products - max(floor, compute)
    shares = {"memory": floor, "compute": compute, "kernel": kernel, "overhead": dispatch}
    shares = {name: MILLISECONDS * seconds for name, seconds in shares.items()}
    return Budget(
        positions=positions,
        measured=measured,
        floor=shares["memory"],
        compute=shares["compute"],
        kernel=shares["kernel"],
        overhead=shares["overhead"],
        rest=measured.value - MILLISECONDS * (max(floor, compute) + kernel + dispatch),
        macs_per_byte=macs / weight_bytes,
        bound=largest_shares(shares, spread=measured.high - measured.low),
    )


def largest_shares(shares: Mapping[str, float], *, spread: float) -> tuple[str, ...]:
    """Name of the largest share, and of the second where `spread` is more than what lies between them."""
    first, second = sorted(shares, key=shares.get, reverse=True)[:2]
    return (first, second) if shares[first] - shares[second] < spread else (first,)


@torch.inference_mode()
def prompt_products_seconds(lm: LoadedModel, positions: int) -> float:
    """Fastest time of this model's own matrix products over `positions` rows, nothing in between.

    The output head is applied to one row, as a prefill needs it. The counterpart for a prompt of
    `probes.matvec_bandwidth`, quoted at its best sample for the same reason.
    """
    head = lm.model.get_output_embeddings()
    layers = [module for module in lm.model.modules() if isinstance(module, torch.nn.Linear)]
    pairs = [
        (torch.ones(1 if layer is head else positions, layer.in_features).to(layer.weight), layer.weight)
        for layer in layers
    ]

    def multiply_all() -> None:
        for rows, weight in pairs:
            functional.linear(rows, weight)

    return min(_interleaved({"products": multiply_all}, lm, repeats=STEP_REPEATS)["products"])


def _both_phases(lm: LoadedModel, prompt_tokens: int) -> dict[str, list[float]]:
    prompt, cache = prompt_ids(lm, prompt_tokens), _filled(lm, prompt_tokens)
    calls = {
        "prefill": lambda: prefill(lm.model, prompt, new_cache(lm.config)),
        "decode": lambda: decode_step(lm.model, prompt[:, :1], cache),
    }
    return _interleaved(calls, lm, repeats=STEP_REPEATS, before=lambda: crop_to(cache, prompt_tokens))


def _filled(lm: LoadedModel, tokens: int) -> object:
    return filled_cache(lm.config, tokens=tokens, dtype=lm.dtype, device=lm.device)


def _interleaved(calls: Mapping, lm: LoadedModel, **options: object) -> dict:
    with torch.inference_mode():
        return timing.interleaved(calls, device=lm.device, **options)


def _milliseconds(seconds: list[float]) -> Quantity:
    return Quantity.of_samples([MILLISECONDS * sample for sample in seconds], unit="ms")
