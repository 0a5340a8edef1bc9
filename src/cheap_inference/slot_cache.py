"""A key-value cache of slots whose lengths differ, and the masks that such a batch needs.

Each layer keeps keys and values in tensors of shape [slots, kv_heads, capacity, head_dim]. A slot is a
row; how far it is filled is known outside. Layers with a sliding window keep everything too and see the
window through their mask, which is correct and spends more memory than they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import Cache

from .cost import Shape
from .errors import UserError

WITH_MASKS = ("sdpa", "eager")
"""Attention implementations that take a mask of our making."""


class PlacedCache(Cache):
    """A cache that is told, before each pass, where the pass's tokens belong."""

    def __init__(self) -> None:
        super().__init__(layers=[])

    def place(self, rows: Sequence[int], positions: torch.Tensor, *, longest: int) -> None:
        """The next pass feeds slots `rows` (R of them) at `positions` [R, n] and reads `longest` places."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors that keep keys and values."""
        return sum(tensor.nbytes for pair in zip(self.keys, self.values, strict=True) for tensor in pair)


class SlotCache(PlacedCache):
    """Contiguous: `capacity` places for every slot, held whether used or not."""

    def __init__(self, lm: Any, *, slots: int, capacity: int):
        super().__init__()
        shape = Shape.from_config(lm.config)
        size = (shape.layers, slots, shape.kv_heads, capacity, shape.head_dim)
        self.keys = torch.zeros(size, dtype=lm.dtype, device=lm.device).unbind()
        self.values = torch.zeros(size, dtype=lm.dtype, device=lm.device).unbind()

    def place(self, rows: Sequence[int], positions: torch.Tensor, *, longest: int) -> None:
        """As `PlacedCache.place`; `rows` must be neighbours, so that reading them copies nothing."""
        self._rows = slice(rows[0], rows[-1] + 1)
        self._row = torch.arange(len(rows), device=positions.device)[:, None]  # [R, 1]
        self._positions, self._longest = positions, longest

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write keys and values [R, kv_heads, n, d]; return those of the rows, [R, kv_heads, longest, d]."""
        return self._write(self.keys[layer_idx], keys), self._write(self.values[layer_idx], values)

    def _write(self, kept: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        rows = kept[self._rows]  # [R, kv_heads, capacity, d], a view
        rows[self._row, :, self._positions] = new.transpose(1, 2)  # [R, n, kv_heads, d]
        return rows[:, :, : self._longest]


def attention_masks(model: Any, positions: torch.Tensor, *, longest: int, dtype: torch.dtype) -> Any:
    """What a pass at `positions` [R, n] may see of `longest` places: masks [R, 1, n, longest].

    A tensor, or one for each kind of layer where the model has full and sliding attention. True lets
    through (eager attention adds its mask, so there it is 0 and the lowest number).

    Raises:
        UserError: the model has layers, or an attention implementation, that take no such mask.
    """
    config = model.config
    if config._attn_implementation not in WITH_MASKS:
        raise UserError(
            f"Attention {config._attn_implementation!r} takes no mask: load with {WITH_MASKS[0]!r}."
        )
    places = torch.arange(longest, device=positions.device)
    ages = positions[:, None, :, None] - places  # [R, 1, n, longest]; negative: in the future
    full = ages >= 0
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or [])
    if not kinds:
        return _as_needed(full if window is None else full & (ages < window), config, dtype)
    if unknown := kinds - {"full_attention", "sliding_attention"}:
        raise UserError(
            f"The engine has no mask for layers of {min(unknown)!r}: choose a model without them."
        )
    if "sliding_attention" not in kinds:
        return _as_needed(full, config, dtype)
    sliding = _as_needed(full & (ages < window), config, dtype)
    return {"full_attention": _as_needed(full, config, dtype), "sliding_attention": sliding}


def _as_needed(visible: torch.Tensor, config: Any, dtype: torch.dtype) -> torch.Tensor:
    if config._attn_implementation == "sdpa":
        return visible
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(
        ~visible, torch.finfo(dtype).min
    )
