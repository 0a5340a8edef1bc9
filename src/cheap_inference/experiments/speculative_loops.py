"""Both kinds of decoding as the section speculative times them: from a cache that is filled already."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Cache

from ..kv_cache import crop_to, forward, new_cache
from ..models.load import LoadedModel
from ..timing import synchronize

#: The notebook's functions.
Speculate = Callable[..., tuple[list[int], list[tuple[int, int]]]]
DraftTokens = Callable[..., tuple[list[int], list]]
Judge = Callable[[Sequence[int], Any, torch.Tensor], tuple[int, int]]
LookUp = Callable[[list[int], int], list[int]]


@dataclass(frozen=True)
class Text:
    """A prompt, its cache (all but the last token) and what plain greedy decoding makes of it.

    `logits` [n, V] are those that the tokens were chosen by.
    """

    ids: list[int]
    cache: Cache
    tokens: list[int]
    logits: torch.Tensor


@torch.inference_mode()
def prefilled(model: Any, ids: Sequence[int]) -> Cache:
    """A cache of all of `ids` but the last: where both kinds of decoding start."""
    cache = new_cache(model.config)
    forward(model, torch.tensor([list(ids[:-1])], device=model.device), cache, logits_to_keep=1)
    return cache


@torch.inference_mode()
def decode_plainly(
    model: Any, cache: Cache, ids: Sequence[int], new_tokens: int
) -> tuple[list[int], torch.Tensor]:
    """Greedy tokens, one a step, and their logits [new_tokens, V]; the cache is rewound first."""
    crop_to(cache, len(ids) - 1)
    tokens, rows = [], []
    for _ in range(new_tokens):
        last = torch.tensor([[(tokens or ids)[-1]]], device=model.device)
        rows.append(forward(model, last, cache, logits_to_keep=1)[0, -1])
        tokens.append(int(rows[-1].argmax()))
    return tokens, torch.stack(rows)


def timed(function: Callable[[], Any], device: torch.device) -> tuple[float, Any]:
    """Seconds and result of a call."""
    synchronize(device)
    start = time.perf_counter()
    result = function()
    synchronize(device)
    return time.perf_counter() - start, result


@torch.inference_mode()
def check_noise(lm: LoadedModel, text: Text) -> float:
    """Largest difference of a logit between single steps and one pass over the same tokens: rounding alone."""
    crop_to(text.cache, len(text.ids) - 1)
    fed = torch.tensor([[text.ids[-1], *text.tokens[:-1]]], device=lm.device)
    return float((forward(lm.model, fed, text.cache)[0] - text.logits).abs().max())
