"""Measurements of the section prefill-decode: the two phases of a request, over lengths of prompt, cache and history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import torch
from torch.nn import functional

from .. import cost, timing
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
        first_token=milliseconds(first),
        decode=milliseconds(rest),
        prompt_token=milliseconds(each_prompt),
        decoded_token=milliseconds(each_step),
        prompt_tokens_per_second=Quantity.of_samples([1 / each for each in each_prompt], unit="tokens/s"),
        tokens_per_second=Quantity.of_samples([1 / each for each in each_step], unit="tokens/s"),
        ratio=timing.ratio(each_step, each_prompt),
        stamps=tuple(MILLISECONDS * median(column) for column in zip(*served, strict=True)),
    )


def time_prefill(lm: LoadedModel) -> tuple[PrefillRow, ...]:
    """Prompts of several lengths, in turns, each into an empty cache."""
    prompts = {tokens: prompt_ids(lm, tokens) for tokens in PROMPTS}
    prefill(lm.model, prompts[PROMPTS[0]], new_cache(lm.config))  # warm; a call at every length is too long
    samples = interleaved(
        {n: lambda ids=ids: prefill(lm.model, ids, new_cache(lm.config)) for n, ids in prompts.items()},
        lm,
        repeats=PROMPT_REPEATS,
        warmup=0,
    )
    return tuple(
        PrefillRow(n, milliseconds(times), milliseconds([time / n for time in times]))
        for n, times in samples.items()
    )


def time_decode(lm: LoadedModel) -> Decode:
    """One token after caches of several lengths, in turns, every cache cut back before every call."""
    shape = cost.Shape.from_config(lm.config)
    caches = {n: filled(lm, n) for n in contexts_of(lm.config)}
    sizes = {n: cache_bytes(cache) for n, cache in caches.items()}
    weights = cost.step_weight_bytes(shape, bytes_per_element=lm.dtype.itemsize)
    steps, appends, attends = _decode_samples(lm, shape, caches)
    rows = tuple(
        DecodeRow(
            context=n,
            step=milliseconds(steps[n]),
            ratio=timing.ratio(steps[n], steps[SHORTEST]),
            predicted=(weights + size) / (weights + sizes[SHORTEST]),
            cache_bytes=size,
            share=size / weights,
            append=milliseconds(appends[n]),
            attend=milliseconds(attends[n]),
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
    samples = interleaved(calls, lm, repeats=STEP_REPEATS, before=cut_back)
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
    samples = interleaved(calls, lm, repeats=TURN_REPEATS, warmup=0, before=cut_back)
    cut_back()
    tokens = {name: int(rows.argmax()) for name, rows in logits.items()}
    return TurnRow(
        history=history,
        recomputed=milliseconds(samples["recomputed"]),
        reused=milliseconds(samples["reused"]),
        ratio=timing.ratio(samples["recomputed"], samples["reused"]),
        cache_bytes=cache_bytes(cache),
        same_token=tokens["recomputed"] == tokens["reused"],
        logit_difference=float((logits["recomputed"] - logits["reused"]).abs().max()),
    )


def filled(lm: LoadedModel, tokens: int) -> object:
    """A cache that holds `tokens` tokens of any content."""
    return filled_cache(lm.config, tokens=tokens, dtype=lm.dtype, device=lm.device)


def interleaved(calls: Mapping, lm: LoadedModel, **options: object) -> dict:
    """`timing.interleaved` on the model's device, in inference mode."""
    with torch.inference_mode():
        return timing.interleaved(calls, device=lm.device, **options)


def milliseconds(seconds: list[float]) -> Quantity:
    """Samples in seconds as median and interquartile range in milliseconds."""
    return Quantity.of_samples([MILLISECONDS * sample for sample in seconds], unit="ms")
