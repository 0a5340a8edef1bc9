"""Greedy generation with and without a cache, one sequence, end-of-text ignored.

A batch of one needs no padding, and a fixed number of new tokens (at least one) makes the two loops
comparable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import Cache

from .kv_cache import forward, new_cache


@torch.inference_mode()
def generate_without_cache(
    model: Any, prompt_ids: torch.Tensor, new_tokens: int, *, logits_to_keep: int = 0
) -> torch.Tensor:
    """Greedy tokens [new_tokens] after `prompt_ids` [1, P]: every token re-runs the whole sequence.

    The plain loop computes the logits of every position (0); `logits_to_keep=1` spares all but the last.
    """
    ids = prompt_ids  # [1, P]
    for _ in range(new_tokens):
        # In one expression: the logits [1, n, V] are let go before the next pass makes its own.
        next_id = forward(model, ids, logits_to_keep=logits_to_keep)[:, -1].argmax(dim=-1, keepdim=True)
        ids = torch.cat([ids, next_id], dim=1)  # [1, n + 1]
    return ids[0, prompt_ids.shape[1] :]  # [new_tokens]


@torch.inference_mode()
def prefill(model: Any, prompt_ids: torch.Tensor, cache: Cache) -> torch.Tensor:
    """Put all of `prompt_ids` [1, P] into the cache in one pass; logits of the last position, [1, V]."""
    return forward(model, prompt_ids, cache, logits_to_keep=1)[:, -1]


@torch.inference_mode()
def decode_step(model: Any, token_id: torch.Tensor, cache: Cache) -> torch.Tensor:
    """Feed one token [1, 1]; logits of the next, [1, V]. The cache grows by one position."""
    return forward(model, token_id, cache, logits_to_keep=1)[:, -1]


@torch.inference_mode()
def generate_with_cache(model: Any, prompt_ids: torch.Tensor, new_tokens: int) -> torch.Tensor:
    """Greedy tokens [new_tokens] after `prompt_ids` [1, P]: prefill once, then one token a step."""
    cache = new_cache(model.config)
    next_id = prefill(model, prompt_ids, cache).argmax(dim=-1, keepdim=True)  # [1, 1], one pass over P
    tokens = [next_id]
    while len(tokens) < new_tokens:
        next_id = decode_step(model, next_id, cache).argmax(dim=-1, keepdim=True)  # [1, 1], one position
        tokens.append(next_id)
    return torch.cat(tokens, dim=1)[0]  # [new_tokens]


@dataclass(frozen=True)
class Generation:
    """Greedy tokens and, for each, how far its logit stood above the runner-up's."""

    tokens: list[int]
    margins: list[float]


@torch.inference_mode()
def generate_with_margins(model: Any, prompt_ids: torch.Tensor, new_tokens: int) -> Generation:
    """`generate_with_cache`, with the top-2 margin of each step: a small one can flip by rounding."""
    cache = new_cache(model.config)
    logits = prefill(model, prompt_ids, cache)
    tokens, margins = [], []
    while True:
        (best, second), (token, _) = (top[0].tolist() for top in logits.topk(2, dim=-1))
        tokens.append(token)
        margins.append(best - second)
        if len(tokens) == new_tokens:
            return Generation(tokens, margins)
        logits = decode_step(model, torch.tensor([[token]], device=prompt_ids.device), cache)
