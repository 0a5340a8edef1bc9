"""Measurements of the section shared-heads: real caches at several head counts, decode time, products counted."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .. import cost, fits, kv_cache, timing
from ..generation import decode_step
from ..models.load import LoadedModel, chapter_config, random_model
from ..quantity import Quantity

Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

REPEATS = 9
AGAIN = "again"
MILLISECONDS = 1000
#: Enough to tell bytes from tensors; the caches that are timed are as long as the reader asks.
COUNTED_TOKENS = 256
MOST_HEAD_COUNTS = 4
SEVEN_BILLION_HEADS = (32, 8, 1)
SEVEN_BILLION_CONTEXTS = (2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 128_000)


@dataclass(frozen=True)
class CacheRow:
    """One number of key-value heads of a shape: the cache counted from real tensors.

    `fold` says how many times less than the multi-head cache it holds.
    """

    kv_heads: int
    bytes_per_token: int
    bytes_by_formula: int
    fold: float


@dataclass(frozen=True)
class Caches:
    """Real fp16 caches of the chapter's shape and of this model's, at several head counts."""

    chapter: tuple[CacheRow, ...]
    own: tuple[CacheRow, ...]
    chapter_heads: int
    own_heads: int
    chapter_kv_heads: int
    own_kv_heads: int
    multi_head_bytes: int
    chapter_fold: float
    as_predicted: bool


@dataclass(frozen=True)
class TimeRow:
    """Time at one head count, in milliseconds, and as a ratio to multi-head in the same round.

    `attention` is the attention of all layers alone, over the cache; `step` a whole decode step.
    """

    kv_heads: int
    cache_bytes: int
    attention: Quantity
    attention_ratio: Quantity
    step: Quantity
    step_ratio: Quantity
    floor_ratio: float


@dataclass(frozen=True)
class Times:
    """Decode time at each head count. `noise` is multi-head attention against itself."""

    context: int
    heads: int
    kv_heads: int
    weight_bytes: int
    rows: tuple[TimeRow, ...]
    noise: Quantity


@dataclass(frozen=True)
class ProductRow:
    """MACs that one token costs at one head count, in the chapter's shape."""

    kv_heads: int
    score_macs: int
    projection_macs: int
    saved_macs: int
    saved_share: float


@dataclass(frozen=True)
class Products:
    """What sharing does to the arithmetic: nothing to the scores, a little to the projections."""

    context: int
    rows: tuple[ProductRow, ...]
    scores_equal: bool
    saved_macs: int
    saved_share: float


@dataclass(frozen=True)
class ContextRow:
    """One user's cache of a 7B-class model in fp16, in bytes, with 32, 8 and 1 key-value heads."""

    context: int
    multi_head: int
    grouped: int
    multi_query: int
    grouped_share: float


@dataclass(frozen=True)
class SevenBillion:
    """The 7B class over contexts. `crossing` is the first context whose grouped cache outweighs the weights."""

    bytes_per_token: int
    weight_bytes: int
    longest_cache_bytes: int
    longest_share: float
    crossing: int
    rows: tuple[ContextRow, ...]


def count_caches(lm: LoadedModel) -> Caches:
    """Build a cache of each head count for both shapes and count the bytes of its tensors."""
    chapter, own = chapter_config(), lm.config
    shapes = [cost.Shape.from_config(config) for config in (chapter, own)]
    rows = [tuple(_cache_row(config, n) for n in head_counts(config)) for config in (chapter, own)]
    heads = [shape.heads for shape in shapes]
    exact = (row.bytes_per_token == row.bytes_by_formula for found in rows for row in found)
    folds = (row.fold * row.kv_heads == n for found, n in zip(rows, heads, strict=True) for row in found)
    used = next(row for row in rows[0] if row.kv_heads == shapes[0].kv_heads)
    return Caches(
        chapter=rows[0],
        own=rows[1],
        chapter_heads=heads[0],
        own_heads=heads[1],
        chapter_kv_heads=shapes[0].kv_heads,
        own_kv_heads=shapes[1].kv_heads,
        multi_head_bytes=rows[0][0].bytes_per_token,
        chapter_fold=rows[0][0].bytes_per_token / used.bytes_per_token,
        as_predicted=all(exact) and all(folds),
    )


def head_counts(config: Any) -> tuple[int, ...]:
    """Numbers of key-value heads to try: divisors of the query heads, multi-head first, the model's own kept."""
    shape = cost.Shape.from_config(config)
    divisors = [n for n in range(shape.heads, 0, -1) if shape.heads % n == 0]
    if len(divisors) > MOST_HEAD_COUNTS:
        divisors = sorted({shape.heads, shape.heads // 2, shape.kv_heads, 1}, reverse=True)
    return tuple(divisors)


def with_kv_heads(config: Any, kv_heads: int) -> Any:
    """The same configuration with another number of key-value heads."""
    changed = copy.deepcopy(config)
    changed.num_key_value_heads = kv_heads
    return changed


def _cache_row(config: Any, kv_heads: int) -> CacheRow:
    changed = with_kv_heads(config, kv_heads)
    found, multi_head = (
        _bytes_per_token(c) for c in (changed, with_kv_heads(config, config.num_attention_heads))
    )
    formula = kv_cache.bytes_per_token(changed, bytes_per_element=2)
    return CacheRow(kv_heads, found, formula, multi_head / found)


def _bytes_per_token(config: Any) -> int:
    """Counted from the tensors of a real cache in fp16."""
    cache = kv_cache.filled_cache(
        config, tokens=COUNTED_TOKENS, dtype=torch.float16, device=torch.device("cpu")
    )
    return kv_cache.cache_bytes(cache) // COUNTED_TOKENS


@torch.inference_mode()
def time_head_counts(lm: LoadedModel, attend: Attention, *, context: int) -> Times:
    """Attention alone and a whole decode step of this model's shape, random weights, at each head count."""
    shape = cost.Shape.from_config(lm.config)
    counts = head_counts(lm.config)
    caches = {n: _filled(lm, n, context) for n in counts}
    sizes = {n: kv_cache.cache_bytes(cache) for n, cache in caches.items()}
    weights = cost.weight_bytes(shape, bytes_per_element=lm.dtype.itemsize)
    attention = _attention_samples(lm, attend, caches)
    steps = _step_samples(lm, caches, context)
    first = counts[0]
    rows = tuple(
        TimeRow(
            kv_heads=n,
            cache_bytes=sizes[n],
            attention=_milliseconds(attention[n]),
            attention_ratio=_ratio(attention[n], attention[first]),
            step=_milliseconds(steps[n]),
            step_ratio=_ratio(steps[n], steps[first]),
            floor_ratio=(weights + sizes[n]) / (weights + sizes[first]),
        )
        for n in counts
    )
    noise = _ratio(attention[AGAIN], attention[first])
    return Times(context, first, shape.kv_heads, weights, rows, noise)


def _attention_samples(lm: LoadedModel, attend: Attention, caches: dict[int, Any]) -> dict:
    calls: dict = {n: _attention_of_all_layers(lm, attend, cache) for n, cache in caches.items()}
    calls[AGAIN] = next(iter(calls.values()))
    return timing.interleaved(calls, repeats=REPEATS, device=lm.device)


def _step_samples(lm: LoadedModel, caches: dict[int, Any], context: int) -> dict:
    token = torch.zeros(1, 1, dtype=torch.long, device=lm.device)
    models = _random_models(lm, tuple(caches))
    return timing.interleaved(
        {n: lambda n=n: decode_step(models[n], token, caches[n]) for n in caches},
        repeats=REPEATS,
        device=lm.device,
        before=lambda: [kv_cache.crop_to(cache, context) for cache in caches.values()],
    )


def _random_models(lm: LoadedModel, counts: tuple[int, ...]) -> dict[int, Any]:
    """A model for each head count. All but the key and value projections are the first one's tensors."""
    models: dict[int, Any] = {}
    for n in counts:
        models[n] = random_model(with_kv_heads(lm.config, n), dtype=lm.dtype, seed=0).to(lm.device)
        first = dict(models[counts[0]].named_parameters())
        for name, weight in models[n].named_parameters():
            if weight.shape == first[name].shape:
                weight.data = first[name].data
    return models


def _filled(lm: LoadedModel, kv_heads: int, context: int) -> Any:
    config = with_kv_heads(lm.config, kv_heads)
    return kv_cache.filled_cache(config, tokens=context, dtype=lm.dtype, device=lm.device)


def _attention_of_all_layers(lm: LoadedModel, attend: Attention, cache: Any) -> Callable[[], None]:
    """A call that runs the section's own attention for one new token over every layer of `cache`."""
    shape = cost.Shape.from_config(lm.config)
    query = torch.randn(shape.heads, shape.head_dim, generator=torch.Generator().manual_seed(0))
    query = query.to(lm.device, lm.dtype)
    layers = [(keys[0], values[0]) for keys, values in kv_cache.cache_tensors(cache)]

    def run() -> None:
        for keys, values in layers:
            attend(query, keys, values)

    return run


def _milliseconds(samples: list[float]) -> Quantity:
    return Quantity.of_samples([MILLISECONDS * sample for sample in samples], unit="ms")


def _ratio(above: list[float], below: list[float]) -> Quantity:
    found = timing.ratio(above, below)
    return Quantity(found.value, "ratio", found.low, found.high, found.n)


def count_products(*, context: int) -> Products:
    """MACs of one token in the chapter's shape at each head count, by the formulas that a counter checks."""
    config = chapter_config()
    shapes = [cost.Shape.from_config(with_kv_heads(config, n)) for n in head_counts(config)]
    full = shapes[0].projection_weights
    rows = tuple(
        ProductRow(
            kv_heads=shape.kv_heads,
            score_macs=cost.attention_macs(shape, queries=1, keys=context),
            projection_macs=shape.projection_weights,
            saved_macs=full - shape.projection_weights,
            saved_share=(full - shape.projection_weights) / full,
        )
        for shape in shapes
    )
    used = next(row for row in rows if row.kv_heads == config.num_key_value_heads)
    same = len({row.score_macs for row in rows}) == 1
    return Products(context, rows, same, used.saved_macs, used.saved_share)


def seven_billion() -> SevenBillion:
    """One user's cache in a 7B-class model over contexts, beside the weights, both in fp16."""
    model = fits.MODEL_7B
    layers, head_dim = model.cache_layers[0].layers, model.cache_layers[0].head_dim
    shared = [
        fits.Model(model.name, model.parameters, (fits.CacheLayers(layers, heads, head_dim),))
        for heads in SEVEN_BILLION_HEADS
    ]
    weights = fits.weight_bytes(model, bits_per_weight=16)
    rows = []
    for context in SEVEN_BILLION_CONTEXTS:
        multi_head, grouped, multi_query = (fits.cache_bytes(kind, tokens=context) for kind in shared)
        rows.append(ContextRow(context, multi_head, grouped, multi_query, grouped / weights))
    per_token = fits.cache_bytes(model, tokens=1)
    return SevenBillion(
        bytes_per_token=per_token,
        weight_bytes=weights,
        longest_cache_bytes=rows[-1].grouped,
        longest_share=rows[-1].grouped_share,
        crossing=weights // per_token + 1,
        rows=tuple(rows),
    )
