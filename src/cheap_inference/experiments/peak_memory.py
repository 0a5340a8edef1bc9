"""Measurements of the section peak-memory: what the allocator holds at the worst moment of both loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch.profiler import record_function

from .. import memory
from ..generation import decode_step, generate_with_margins, prefill
from ..kv_cache import copy_cache, filled_cache, forward, new_cache
from ..models.load import LoadedModel, chapter_config, zero_model
from ..passage import prompt_ids

LENGTHS = (32, 64, 128, 256, 512)
HEADLINE = 256
#: Tokens that both loops write to be compared: the cached one makes a whole pass for each.
COMPARED_TOKENS = 64
CACHE = "cache"
ATTENTION = "aten::scaled_dot_product_attention"


@dataclass(frozen=True)
class Split:
    """One loop's peak above the resident weights, in bytes, and what it consists of.

    `reserved_bytes` is what CUDA's caching allocator took from the device (None on a CPU).
    """

    peak_bytes: int
    logits_bytes: int
    attention_bytes: int
    cache_bytes: int
    rest_bytes: int
    reserved_bytes: int | None


@dataclass(frozen=True)
class Row:
    """Peaks of the last step of a loop that has written `new_tokens` tokens.

    `all_logits` and `last_logits` are the loop without the cache, computing the logits of every position
    or of the last one only; `with_cache` is the other loop. `prefill_all_logits` is the cached loop's
    first pass where it computes the logits of the whole prompt, as a plain call of the model does.
    """

    new_tokens: int
    all_logits: Split
    last_logits: Split
    with_cache: Split
    prefill_all_logits: Split
    ratio_all: float
    ratio_last: float
    ratio_plain: float


@dataclass(frozen=True)
class Peaks:
    """Peaks over several lengths. `identical`: both loops write the same first `compared_tokens` tokens."""

    prompt_tokens: int
    headline: int
    weight_bytes: int
    compared_tokens: int
    identical: bool
    rows: tuple[Row, ...]


def measure_peaks(lm: LoadedModel, *, prompt_tokens: int) -> Peaks:
    """The last step of every loop at every length, and a check that the loops agree."""
    prompt = prompt_ids(lm, prompt_tokens)
    weights = sum(parameter.nbytes for parameter in lm.model.parameters())
    rows = tuple(peak_row(lm.model, prompt_ids(lm, prompt_tokens + new), new) for new in LENGTHS)
    same = loops_agree(lm.model, prompt, COMPARED_TOKENS)
    return Peaks(prompt_tokens, HEADLINE, weights, COMPARED_TOKENS, same, rows)


def chapter_peaks(*, prompt_tokens: int) -> Row:
    """The headline row on the chapter's shape, zero weights in 16 bits: bytes do not depend on values."""
    model = zero_model(chapter_config(), dtype=torch.float16)
    ids = torch.arange(prompt_tokens + HEADLINE)[None]
    return peak_row(model, ids, HEADLINE)


def peak_row(model: torch.nn.Module, ids: torch.Tensor, new_tokens: int) -> Row:
    """Peaks of the last step. `ids` is [1, P + N], the text at the end of the loop; the last token is not fed."""
    text, prompt = ids[:, :-1], ids[:, :-new_tokens]
    every, last = (
        split_peak(partial(forward, model, text, logits_to_keep=keep), model, logit_rows=rows)
        for keep, rows in ((0, text.shape[1]), (1, 1))
    )
    cached = split_peak(cached_last_step(model, text), model, logit_rows=1)
    first = split_peak(
        lambda: forward(model, prompt, new_cache(model.config)), model, logit_rows=prompt.shape[1]
    )
    return Row(
        new_tokens=new_tokens,
        all_logits=every,
        last_logits=last,
        with_cache=cached,
        prefill_all_logits=first,
        ratio_all=every.peak_bytes / cached.peak_bytes,
        ratio_last=last.peak_bytes / cached.peak_bytes,
        ratio_plain=every.peak_bytes / max(cached.peak_bytes, first.peak_bytes),
    )


def cached_last_step(model: torch.nn.Module, text: torch.Tensor) -> Callable[[], object]:
    """The decode step that ends at `text` [1, n]; its cache is copied inside, so that it is counted."""
    with torch.inference_mode():
        cache = filled_cache(model.config, tokens=text.shape[1] - 1, dtype=model.dtype, device=model.device)

    def step() -> torch.Tensor:
        with record_function(CACHE):
            own = copy_cache(cache)
        return decode_step(model, text[:, -1:], own)

    return step


@torch.inference_mode()
def split_peak(step: Callable[[], object], model: torch.nn.Module, *, logit_rows: int) -> Split:
    """The peak of one step, sorted by what the blocks that are live at that moment hold."""
    reserved = (
        memory.peak_allocation(step, device=model.device).reserved_bytes
        if model.device.type == "cuda"
        else None
    )
    blocks = [block for block in memory.allocations(step, device=model.device) if block.live_at_peak]
    logits = logit_rows * model.config.vocab_size * model.dtype.itemsize
    kinds = {"logits": 0, "attention": 0, "cache": 0, "rest": 0}
    for block in blocks:
        kinds[kind_of(block, logits)] += block.bytes
    return Split(sum(kinds.values()), *kinds.values(), reserved)


def kind_of(block: memory.Allocation, logits_bytes: int) -> str:
    """What a block holds: told by its size (logits) or by the operator that asked for it."""
    if block.bytes == logits_bytes:
        return "logits"
    if block.operator.startswith(ATTENTION):
        return "attention"
    return "cache" if block.operator in (CACHE, "aten::cat") else "rest"


@torch.inference_mode()
def loops_agree(model: torch.nn.Module, prompt: torch.Tensor, new_tokens: int) -> bool:
    """Whether the loop without the cache picks the tokens that the cached one does.

    The causal mask makes every row of one pass over the finished text equal to the last row of the pass
    that the uncached loop would have made there, so one pass checks all its steps. A choice that two
    logits contest more closely than the measured rounding noise may go either way.
    """
    written = generate_with_margins(model, prompt, new_tokens)
    text = torch.cat([prompt, torch.tensor([written.tokens], device=prompt.device)], dim=1)[:, :-1]
    rows = forward(model, text)[0, prompt.shape[1] - 1 :]  # [N, V]
    chosen = rows.argmax(dim=-1).tolist()
    if chosen == written.tokens:
        return True
    noise = float((rows[-1] - cached_logits(model, text)).abs().max())
    return all(
        same_choice(*pair, noise) for pair in zip(chosen, written.tokens, written.margins, strict=True)
    )


def cached_logits(model: torch.nn.Module, text: torch.Tensor) -> torch.Tensor:
    """Logits [V] of the last position of `text` [1, n], its token fed alone after a prefill of the others."""
    cache = new_cache(model.config)
    prefill(model, text[:, :-1], cache)
    return decode_step(model, text[:, -1:], cache)[0]


def same_choice(one: int, other: int, margin: float, noise: float) -> bool:
    """Whether two choices are one, or were contested more closely than rounding decides."""
    return one == other or margin < 2 * noise
