"""Measurements of the section cache-size: the formula, the real tensors and the allocator, side by side."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Cache, Qwen2Config, Qwen3Config

from .. import fits, memory
from ..cost import Shape
from ..generation import decode_step, prefill
from ..kv_cache import cache_bytes, cache_bytes_formula, cache_tensors, new_cache
from ..models.load import LoadedModel, chapter_config, random_model

BytesPerToken = Callable[[Any, int], int]

#: Its profiler reports what a tensor asked for; CUDA's allocator rounds every block up.
CPU = torch.device("cpu")
HALF = torch.float16
CHAPTER_TOKENS = 295
#: The cache depends on neither, so the random models have little of both.
SMALL = {"intermediate_size": 16, "vocab_size": 64, "pad_token_id": None}
#: Four times the head dimension that hidden / heads would give.
OWN_HEAD_DIM = {"num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2} | {
    "hidden_size": 256,
    "head_dim": 128,
}
WINDOW = 128
#: Users and the tokens each of them keeps; the middle three hold as many tokens in all.
CROWDS = ((1, 2_048), (8, 2_048), (32, 2_048), (64, 1_024), (128, 512), (128, 2_048), (256, 4_096))
RESIDENT_TOKENS = 65_536
CURVE_TOKENS = tuple(2**power for power in range(6, 19))
CACHE_BITS = WEIGHT_BITS = 16


@dataclass(frozen=True)
class ShapeRow:
    """One shape, `tokens` cached: bytes by the formula, in the real tensors, and seen by the allocator.

    `divided_dim` is hidden size / heads, which `head_dim` need not be.
    """

    name: str
    layers: int
    kv_heads: int
    head_dim: int
    divided_dim: int
    element_bytes: int
    tokens: int
    per_token: int
    formula: int
    tensors: int
    allocator: int
    agree: bool


@dataclass(frozen=True)
class Sliding:
    """A model with one full and one sliding layer after `tokens` tokens: positions kept, and bytes."""

    window: int
    tokens: int
    kept_full: int
    kept_sliding: int
    formula: int
    tensors: int


@dataclass(frozen=True)
class Formula:
    """The three counts for five shapes, and what a sliding-window layer keeps."""

    rows: tuple[ShapeRow, ...]
    own_agrees: bool
    chapter_agrees: bool
    others_agree: bool
    sliding: Sliding


@dataclass(frozen=True)
class Chapter:
    """The chapter's shape in fp16: one token's bytes, and a real cache of `tokens` tokens."""

    per_token: int
    tokens: int
    bytes: int
    tensor_shape: tuple[int, ...]
    tensors: int


@dataclass(frozen=True)
class UserRow:
    """`users` users with `tokens` tokens each: bytes of the chapter's shape and of this model's, fp16."""

    users: int
    tokens: int
    resident: int
    chapter_bytes: int
    own_bytes: int


@dataclass(frozen=True)
class Users:
    """Caches of many users. `same_total_bytes` is what all rows with `RESIDENT_TOKENS` tokens take."""

    rows: tuple[UserRow, ...]
    resident_tokens: int
    same_total_bytes: int


@dataclass(frozen=True)
class Line:
    """One model in fp16: cache bytes at each of the curve's tokens, and where they pass the weights.

    `crossing` is the first number of tokens whose cache outweighs the weights, None where there is none.
    """

    name: str
    title: str
    per_token: int
    weight_bytes: int
    crossing: int | None
    cache: tuple[int, ...]


@dataclass(frozen=True)
class Curves:
    """Cache bytes of several models against the tokens that are kept."""

    tokens: tuple[int, ...]
    lines: tuple[Line, ...]


def count_three_ways(lm: LoadedModel, bytes_per_token: BytesPerToken, *, tokens: int) -> Formula:
    """Fill real caches of five shapes, random weights, and count each of them in three ways."""
    own = lm.config
    configs = {
        "own": (own, lm.dtype),
        "chapter": (chapter_config(), HALF),
        "multi-head": (_changed(own, num_key_value_heads=own.num_attention_heads), lm.dtype),
        "one-kv-head": (_changed(own, num_key_value_heads=1), lm.dtype),
        "own-head-dim": (Qwen3Config(**OWN_HEAD_DIM), HALF),
    }
    rows = tuple(
        shape_row(name, config, bytes_per_token, tokens=tokens, dtype=dtype)
        for name, (config, dtype) in configs.items()
    )
    agree = {row.name: row.agree for row in rows}
    return Formula(
        rows=rows,
        own_agrees=agree.pop("own"),
        chapter_agrees=agree.pop("chapter"),
        others_agree=all(agree.values()),
        sliding=count_sliding(),
    )


def shape_row(
    name: str, config: Any, bytes_per_token: BytesPerToken, *, tokens: int, dtype: torch.dtype
) -> ShapeRow:
    """One shape counted three ways; `tokens` are cut to what a sliding layer keeps whole."""
    shape = Shape.from_config(config)
    tokens = min(tokens, (shape.window or tokens + 1) - 1)
    per_token = bytes_per_token(config, dtype.itemsize)
    cache, allocated = fill(config, tokens=tokens, dtype=dtype)
    counts = (tokens * per_token, cache_bytes(cache), allocated)
    return ShapeRow(
        name,
        shape.layers,
        shape.kv_heads,
        shape.head_dim,
        shape.hidden // shape.heads,
        dtype.itemsize,
        tokens,
        per_token,
        *counts,
        agree=len(set(counts)) == 1,
    )


def fill(config: Any, *, tokens: int, dtype: torch.dtype) -> tuple[Cache, int]:
    """A cache that a prefill of a random model filled, and the bytes the allocator had given out for good."""
    model = random_model(_changed(config, **SMALL), dtype=dtype, seed=0)
    ids = torch.zeros(1, tokens, dtype=torch.long)
    prefill(model, ids[:, :1], new_cache(model.config))  # whatever a first pass sets up for good
    cache = new_cache(model.config)

    def run() -> None:
        prefill(model, ids, cache)

    return cache, memory.growth(run, device=CPU)


def count_sliding() -> Sliding:
    """Run one full and one sliding layer past the window and see what each has kept after the next step."""
    config = Qwen2Config(
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=64,
        use_sliding_window=True,
        sliding_window=WINDOW,
        layer_types=["full_attention", "sliding_attention"],
        **SMALL,
    )
    model = random_model(config, dtype=HALF, seed=0)
    cache = new_cache(config)
    prefill(model, torch.zeros(1, CHAPTER_TOKENS - 1, dtype=torch.long), cache)
    decode_step(model, torch.zeros(1, 1, dtype=torch.long), cache)
    full, sliding = (keys.shape[-2] for keys, _ in cache_tensors(cache))
    formula = cache_bytes_formula(config, CHAPTER_TOKENS, bytes_per_element=HALF.itemsize)
    return Sliding(WINDOW, CHAPTER_TOKENS, full, sliding, formula, cache_bytes(cache))


def count_chapter(bytes_per_token: BytesPerToken) -> Chapter:
    """One token of the chapter's shape by the formula, and a real cache with the shape of its tensors."""
    cache, _ = fill(chapter_config(), tokens=CHAPTER_TOKENS, dtype=HALF)
    tensors = [tensor for pair in cache_tensors(cache) for tensor in pair]
    (shape,) = {tuple(tensor.shape) for tensor in tensors}  # all of them alike, or the count is wrong
    per_token = bytes_per_token(chapter_config(), HALF.itemsize)
    return Chapter(per_token, CHAPTER_TOKENS, cache_bytes(cache), shape, len(tensors))


def count_users(lm: LoadedModel) -> Users:
    """Caches of many users, counted from tensors that have a shape and a type but no memory."""
    rows = tuple(
        UserRow(
            users,
            tokens,
            users * tokens,
            *(_bytes_of_crowd(config, users, tokens) for config in (chapter_config(), lm.config)),
        )
        for users, tokens in CROWDS
    )
    (same,) = {row.chapter_bytes for row in rows if row.resident == RESIDENT_TOKENS}
    return Users(rows, RESIDENT_TOKENS, same)


def _bytes_of_crowd(config: Any, users: int, tokens: int) -> int:
    shape = Shape.from_config(config)
    cache = new_cache(config)
    one = torch.empty(users, shape.kv_heads, tokens, shape.head_dim, dtype=HALF, device="meta")
    for layer in range(shape.layers):
        cache.update(one, one, layer)
    return cache_bytes(cache)


def draw_curves(lm: LoadedModel) -> Curves:
    """Cache against weights for this model, the chapter's (once, where they are one) and a 7B class."""
    own, chapter = (Shape.from_config(config) for config in (lm.config, chapter_config()))
    models = [("chapter", fits.Model.of_shape("Qwen2.5-0.5B", chapter)), ("7b", fits.MODEL_7B)]
    if own != chapter:
        models.insert(0, ("own", fits.Model.of_shape(lm.spec.title, own)))
    return Curves(CURVE_TOKENS, tuple(_line(name, model) for name, model in models))


def _line(name: str, model: fits.Model) -> Line:
    weights = fits.weight_bytes(model, bits_per_weight=WEIGHT_BITS)
    longest = fits.longest_conversation(model, room_bytes=weights, cache_bits=CACHE_BITS)
    return Line(
        name=name,
        title=model.name,
        per_token=fits.cache_bytes(model, tokens=1),
        weight_bytes=weights,
        crossing=None if longest == fits.MOST_TOKENS else longest + 1,
        cache=tuple(fits.cache_bytes(model, tokens=tokens) for tokens in CURVE_TOKENS),
    )


def _changed(config: Any, **changes: Any) -> Any:
    changed = copy.deepcopy(config)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed
