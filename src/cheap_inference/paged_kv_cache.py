"""Memory of a paged cache: blocks, who holds them, and a table of blocks for each sequence. No torch.

A block has room for `block_size` tokens. A sequence holds a list of blocks, its block table; token i
lives in block `table[i // block_size]` at offset `i % block_size`. Sequences that share a prefix hold
the same blocks, counted by references, and the first to write into a shared block gets its own copy.
Kwon et al., arXiv:2309.06180.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Protocol

from .errors import UserError


class OutOfBlocks(Exception):
    """No block is free."""


class BlockAllocator:
    """A fixed number of blocks, each free or held by one or more references."""

    def __init__(self, blocks):
        self.references = [0] * blocks
        self.free = list(reversed(range(blocks)))  # a stack: the block given back last is taken first

    def take(self):
        """A free block, now held once. Raises OutOfBlocks."""
        if not self.free:
            raise OutOfBlocks
        block = self.free.pop()
        self.references[block] = 1
        return block

    def share(self, block):
        """Hold a block once more."""
        self.references[block] += 1

    def release(self, block):
        """Hold a block once less; the last holder's release makes it free."""
        self.references[block] -= 1
        if self.references[block] == 0:
            self.free.append(block)


class Allocator(Protocol):
    """What `BlockTables` needs; see `BlockAllocator`."""

    references: list[int]
    free: list[int]

    def take(self) -> int: ...
    def share(self, block: int) -> None: ...
    def release(self, block: int) -> None: ...


@dataclass
class Sequence:
    """A sequence's block table and its length in tokens."""

    block_table: list[int] = field(default_factory=list)
    length: int = 0


@dataclass(frozen=True)
class Place:
    """Where a new token goes; `copied_from` is the block whose content must be copied there first."""

    block: int
    offset: int
    copied_from: int | None = None


class BlockTables:
    """The block tables of all sequences, over one allocator."""

    def __init__(self, allocator: Allocator, *, block_size: int):
        """Raises UserError for a block without room."""
        if block_size < 1:
            raise UserError(f"A block needs room for at least 1 token, not {block_size}.")
        self.allocator, self.block_size = allocator, block_size
        self.sequences: dict[Hashable, Sequence] = {}

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold this many tokens."""
        return -(-tokens // self.block_size)

    def admit(self, name: Hashable, tokens: int) -> list[Place]:
        """Begin a sequence with the places of its first tokens; all or nothing.

        Raises OutOfBlocks, and UserError where the name is taken.
        """
        if name in self.sequences:
            raise UserError(f"Sequence {name!r} is already here.")
        if self.blocks_for(tokens) > len(self.allocator.free):
            raise OutOfBlocks
        self.sequences[name] = Sequence()
        return [self.append(name) for _ in range(tokens)]

    def append(self, name: Hashable) -> Place:
        """The place of one more token. Raises OutOfBlocks, and then nothing has changed."""
        sequence = self.sequences[name]
        offset = sequence.length % self.block_size
        copied_from = None
        if offset == 0:
            sequence.block_table.append(self.allocator.take())
        elif self.allocator.references[sequence.block_table[-1]] > 1:
            copied_from = self._own_last_block(sequence)
        sequence.length += 1
        return Place(sequence.block_table[-1], offset, copied_from)

    def _own_last_block(self, sequence: Sequence) -> int:
        """Copy on write: swap a shared block for a fresh one; returns the block to copy from."""
        shared = sequence.block_table[-1]
        sequence.block_table[-1] = self.allocator.take()
        self.allocator.release(shared)
        return shared

    def fork(self, parent: Hashable, child: Hashable) -> None:
        """Begin a sequence that shares all of the parent's blocks. Raises UserError where the name is taken."""
        if child in self.sequences:
            raise UserError(f"Sequence {child!r} is already here.")
        source = self.sequences[parent]
        for block in source.block_table:
            self.allocator.share(block)
        self.sequences[child] = Sequence(list(source.block_table), source.length)

    def free(self, name: Hashable) -> None:
        """End a sequence and let go of its blocks."""
        for block in self.sequences.pop(name).block_table:
            self.allocator.release(block)

    @property
    def blocks_in_use(self) -> int:
        """Blocks that somebody holds."""
        return len(self.allocator.references) - len(self.allocator.free)
