"""The KV cache in few bits: keys and values rounded as they enter it, per token or per channel.

Per token: one scale for the vector of one head at one position. Per channel (for the keys: Liu et al.,
KIVI, arXiv:2402.02750): one scale for one dimension of one head over a group of consecutive positions;
positions that do not fill a group yet stay in floating point. Symmetric codes, fp16 scales.
"""

from __future__ import annotations

from typing import Literal

import torch
from transformers import Cache, DynamicCache

from . import absmax
from .granularity import SCALE_BITS

Axis = Literal["token", "channel"]

#: Positions that share the scale of a channel, as in KIVI's experiments.
CHANNEL_GROUP = 32


def round_vectors(states: torch.Tensor, *, bits: int) -> torch.Tensor:
    """States [..., d] after rounding with one scale for each vector along the last axis."""
    scale = absmax.absmax_scale(states, bits=bits, scale_dtype=torch.float16).float()
    return (absmax.round_to_codes(states, scale, bits=bits) * scale).to(states.dtype)


def round_channels(states: torch.Tensor, *, bits: int, group: int = CHANNEL_GROUP) -> torch.Tensor:
    """States [B, heads, n, d] after rounding each dimension over full groups of positions."""
    full = states.shape[-2] - states.shape[-2] % group
    blocks = (
        states[..., :full, :].unflatten(-2, (-1, group)).transpose(-1, -2)
    )  # [B, heads, groups, d, group]
    rounded = round_vectors(blocks, bits=bits).transpose(-1, -2).flatten(-3, -2)
    return torch.cat([rounded, states[..., full:, :]], dim=-2)


class RoundedCache(DynamicCache):
    """A cache that rounds what it is given: keys along `keys`, values per token.

    For one pass over a whole text. Attention in that pass reads the rounded keys and values, those of
    the newest positions included, which is a little harsher than a cache that keeps these exact.
    """

    def __init__(self, config: object, *, bits: int, keys: Axis):
        super().__init__(config=config)
        self._bits, self._keys = bits, keys

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args, **kwargs
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Round, store, and return all keys and values so far, [B, heads, n, d] each."""
        along = round_vectors if self._keys == "token" else round_channels
        keys = along(key_states, bits=self._bits)
        values = round_vectors(value_states, bits=self._bits)
        return super().update(keys, values, layer_idx, *args, **kwargs)


def rounded_cache(config: object, *, bits: int, keys: Axis) -> Cache:
    """An empty cache in `bits` bits."""
    return RoundedCache(config, bits=bits, keys=keys)


def bits_per_element(*, bits: int, head_dim: int, keys: Axis) -> float:
    """Stored bits of a cached number, keys and values together, scales counted."""
    key_scale = SCALE_BITS / (head_dim if keys == "token" else CHANNEL_GROUP)
    return bits + (key_scale + SCALE_BITS / head_dim) / 2
