"""A model that keeps its cache in blocks and reads it through block tables.

Attention here wants contiguous keys and values, so every layer's read gathers a sequence's blocks into
a temporary copy, freed after the layer. A production kernel reads the blocks where they lie; what is
saved here is the memory that stays, not the traffic.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch

from .cost import Shape
from .engine import Engine
from .errors import UserError
from .paged_kv_cache import BlockTables, Place
from .scheduling import Request
from .slot_cache import PlacedCache


class PagedCache(PlacedCache):
    """Keys and values of all sequences: for each layer [blocks, block_size, kv_heads, head_dim]."""

    def __init__(self, lm: Any, tables: BlockTables):
        super().__init__()
        shape = Shape.from_config(lm.config)
        blocks = len(tables.allocator.references)
        size = (shape.layers, blocks, tables.block_size, shape.kv_heads, shape.head_dim)
        self.keys = torch.zeros(size, dtype=lm.dtype, device=lm.device).unbind()
        self.values = torch.zeros(size, dtype=lm.dtype, device=lm.device).unbind()
        self.tables = tables
        self.names: Sequence[Hashable] = ()

    @torch.inference_mode()
    def copy_block(self, place: Place) -> None:
        """Carry out a copy on write: the block's content, in every layer."""
        for kept in (*self.keys, *self.values):
            kept[place.block] = kept[place.copied_from]

    def place(self, rows: Sequence[int], positions: torch.Tensor, *, longest: int) -> None:
        """As `PlacedCache.place`; row r is the sequence `names[r]`, whose table has the places already."""
        size, device = self.tables.block_size, positions.device
        held = [self.tables.sequences[name].block_table for name in self.names]
        width = self.tables.blocks_for(longest)
        # A shorter table is filled up with block 0, which the mask hides.
        padded = [(table + [0] * width)[:width] for table in held]
        self._gather = torch.tensor(padded, device=device)  # [R, width]
        self._block = self._gather.gather(1, positions // size)  # [R, n]
        self._offset, self._longest = positions % size, longest

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write keys and values [R, kv_heads, n, d]; return those of the rows, [R, kv_heads, longest, d]."""
        return self._write(self.keys[layer_idx], keys), self._write(self.values[layer_idx], values)

    def _write(self, kept: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        kept[self._block, self._offset] = new.transpose(1, 2)  # [R, n, kv_heads, d]
        gathered = kept[self._gather].flatten(1, 2)  # [R, width * block_size, kv_heads, d], a copy
        return gathered[:, : self._longest].transpose(1, 2)


class PagedEngine(Engine):
    """The engine over a paged cache. Only occupied slots are computed: an empty one has no blocks.

    The scheduler that drives it must use the same block tables, under the requests' indices.
    """

    cache: PagedCache

    def prefill(self, slot: int, request: Request) -> float:
        self.cache.names = [request.index]
        return super().prefill(slot, request)

    def rows(self) -> list[int]:
        occupied = [slot for slot, index in enumerate(self.occupants) if index is not None]
        self.cache.names = [self.occupants[slot] for slot in occupied]
        return occupied


def paged_engine(
    lm: Any, prompts: Sequence[Sequence[int]], tables: BlockTables, *, slots: int
) -> PagedEngine:
    """An engine with a cache of as many blocks as the tables' allocator has."""
    return PagedEngine(lm, prompts, slots=slots, cache=PagedCache(lm, tables))


class PagedSequences:
    """Sequences decoded one at a time through one paged cache: what forks and shared prefixes need."""

    def __init__(self, lm: Any, tables: BlockTables):
        self.tables = tables
        self.cache = PagedCache(lm, tables)
        self._engine = PagedEngine(lm, [], slots=1, cache=self.cache)

    def feed(self, name: Hashable, ids: Sequence[int]) -> torch.Tensor:
        """Feed tokens to a sequence, begun where it is new; logits [V] after the last.

        Raises:
            UserError: there is nothing to feed.
            OutOfBlocks: the cache is full.
        """
        if not ids:
            raise UserError("A sequence needs at least one token to be fed.")
        begun = self.tables.sequences.get(name)
        self._engine.lengths[0] = begun.length if begun else 0
        places = [self.tables.append(name) for _ in ids] if begun else self.tables.admit(name, len(ids))
        for place in places:
            if place.copied_from is not None:
                self.cache.copy_block(place)
        self.cache.names = [name]
        return self._engine.extend(0, ids)

    def greedy(self, name: Hashable, token: int, new_tokens: int) -> list[int]:
        """Feed `token`, then the best choice again and again; the tokens chosen."""
        chosen: list[int] = []
        while len(chosen) < new_tokens:
            token = int(self.feed(name, [token]).argmax())
            chosen.append(token)
        return chosen
