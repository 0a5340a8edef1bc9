"""The key-value cache: the only module that knows the cache interface of transformers.

That interface moves: `past_key_values` is becoming `cache`, and `crop` takes the number of tokens to
remove, negated, where it once took the length to keep. What is used here works from 4.57 on, found by
looking at the model's signature and never at a version number.
"""

from __future__ import annotations

import copy
import inspect
from functools import cache as memoize
from typing import Any

import torch
from transformers import Cache, DynamicCache

from . import cost
from .cost import Shape
from .errors import UserError


def new_cache(config: Any) -> Cache:
    """Empty cache for a model of this config; it grows in place when a model is given it."""
    return DynamicCache(config=config)


def filled_cache(
    config: Any, *, tokens: int, batch_size: int = 1, dtype: torch.dtype, device: torch.device
) -> Cache:
    """Cache of exactly `tokens` random positions, for timing a step without paying the prefill."""
    shape = Shape.from_config(config)
    size = (2, batch_size, shape.kv_heads, tokens, shape.head_dim)  # keys, values
    generator = torch.Generator(device).manual_seed(0)
    cache = new_cache(config)
    for layer in range(shape.layers):
        keys, values = torch.randn(size, generator=generator, dtype=dtype, device=device).unbind()
        cache.update(keys, values, layer)
    return cache


def copy_cache(cache: Cache) -> Cache:
    """Independent copy, so that a step can be repeated or rolled back to the same start."""
    return copy.deepcopy(cache)


def forward(
    model: Any, ids: torch.Tensor, cache: Cache | None = None, *, logits_to_keep: int = 0, **inputs: Any
) -> torch.Tensor:
    """Logits of the last `logits_to_keep` positions (0: all) of `ids`.

    `ids` is [B, n]; the result [B, logits_to_keep or n, V]. A cache supplies the earlier positions and
    grows by n; without one nothing is kept. `inputs` go to the model as they are (position_ids,
    attention_mask).
    """
    if cache is None:
        inputs["use_cache"] = False
    else:
        inputs |= {"use_cache": True, _cache_argument(type(model)): cache}
    return model(ids, logits_to_keep=logits_to_keep, **inputs).logits


def cache_length(cache: Cache) -> int:
    """Positions the cache stands for, also where sliding layers hold fewer."""
    return int(cache.get_seq_length())


def cache_tensors(cache: Cache) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values of each layer, both [B, kv_heads, tokens, head_dim]; no layers while empty."""
    return [(layer.keys, layer.values) for layer in cache.layers if layer.keys is not None]


def cache_bytes(cache: Cache) -> int:
    """Bytes of the cached tensors, counted from the tensors themselves.

    The allocator may hold a little more: a cropped or sliding layer is a view, and the tokens cut
    from it are freed when the next step builds a new tensor.
    """
    return sum(tensor.numel() * tensor.element_size() for pair in cache_tensors(cache) for tensor in pair)


def crop_to(cache: Cache, length: int) -> None:
    """Leave exactly the first `length` positions (0 to all of them).

    Raises UserError for a length the cache does not have, or where a sliding-window layer has already
    dropped positions that the shorter cache would need.
    """
    current = cache_length(cache)
    if not 0 <= length <= current:
        raise UserError(f"A cache of {current} tokens cannot be cropped to {length}: give 0 to {current}.")
    if length == current:
        return
    if any(keys.shape[-2] < current for keys, _ in cache_tensors(cache)):
        raise UserError(
            f"A sliding-window layer has dropped early tokens, so {current} cannot become {length}: "
            "keep the context shorter than the model's window, or choose a model without one."
        )
    cache.crop(length - current)


def bytes_per_token(config: Any, *, bytes_per_element: float) -> int:
    """`cost.kv_bytes_per_token` of a transformers config."""
    return cost.kv_bytes_per_token(Shape.from_config(config), bytes_per_element=bytes_per_element)


def cache_bytes_formula(config: Any, tokens: int, *, bytes_per_element: float, batch_size: int = 1) -> int:
    """`cost.kv_bytes` of a transformers config: what `cache_bytes` must find in the tensors."""
    return cost.kv_bytes(
        Shape.from_config(config), tokens=tokens, bytes_per_element=bytes_per_element, batch_size=batch_size
    )


@memoize
def _cache_argument(model_class: type) -> str:
    """The name under which this model's forward takes a cache."""
    parameters = inspect.signature(model_class.forward).parameters
    return "cache" if "cache" in parameters else "past_key_values"
