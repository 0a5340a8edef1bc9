"""Blocks: hand-worked cases, and thousands of random steps in which none is leaked or held twice."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from cheap_inference.errors import UserError
from cheap_inference.paged_kv_cache import BlockAllocator, BlockTables, OutOfBlocks, Place


def tables(blocks=8, block_size=4):
    return BlockTables(BlockAllocator(blocks), block_size=block_size)


def test_tokens_fill_blocks_one_after_another():
    memory = tables()
    places = memory.admit("a", 5)
    assert [(place.block, place.offset) for place in places] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    assert memory.append("a") == Place(1, 1)
    assert memory.blocks_in_use == 2


def test_freed_blocks_are_taken_again():
    memory = tables(blocks=2)
    memory.admit("a", 8)
    with pytest.raises(OutOfBlocks):
        memory.admit("b", 1)
    memory.free("a")
    memory.admit("b", 8)
    assert memory.blocks_in_use == 2


def test_a_refused_admission_leaves_nothing_behind():
    memory = tables(blocks=2)
    with pytest.raises(OutOfBlocks):
        memory.admit("a", 9)
    assert memory.sequences == {}
    assert memory.blocks_in_use == 0


def test_a_fork_holds_no_block_of_its_own_until_it_writes():
    memory = tables()
    memory.admit("parent", 6)
    memory.fork("parent", "child")
    assert memory.blocks_in_use == 2
    assert memory.allocator.references[:2] == [2, 2]
    assert memory.append("child") == Place(2, 2, copied_from=1)
    assert memory.append("parent") == Place(1, 2), "the last holder writes in place"
    assert memory.sequences["parent"].block_table == [0, 1]
    assert memory.sequences["child"].block_table == [0, 2]


def test_a_fork_at_a_block_border_copies_nothing():
    memory = tables()
    memory.admit("parent", 4)
    memory.fork("parent", "child")
    assert memory.append("child") == Place(1, 0)
    assert memory.blocks_in_use == 2


def test_the_parent_may_go_first():
    memory = tables()
    memory.admit("parent", 6)
    memory.fork("parent", "child")
    memory.free("parent")
    assert memory.append("child") == Place(1, 2)


def test_a_copy_on_write_without_a_free_block_changes_nothing():
    memory = tables(blocks=2)
    memory.admit("parent", 6)
    memory.fork("parent", "child")
    with pytest.raises(OutOfBlocks):
        memory.append("child")
    assert memory.sequences["child"].length == 6
    assert memory.allocator.references == [2, 2]


def test_a_shared_prompt_is_held_once_however_many_share_it():
    memory = tables(blocks=200, block_size=16)
    memory.admit("system", 512)
    assert memory.blocks_in_use == 32
    for user in range(50):
        memory.fork("system", user)
    assert memory.blocks_in_use == 32
    for user in range(50):
        memory.append(user)
    assert memory.blocks_in_use == 32 + 50


def test_names_and_sizes_are_checked():
    memory = tables()
    memory.admit("a", 1)
    for begin in (lambda: memory.admit("a", 1), lambda: memory.fork("a", "a")):
        with pytest.raises(UserError, match="already here"):
            begin()
    with pytest.raises(UserError, match="at least 1 token"):
        tables(block_size=0)


class Blocks(RuleBasedStateMachine):
    """Random admissions, appends, forks and ends, beside a model that keeps the tokens themselves.

    The model writes every token to a place of a simulated store, so a block held twice by mistake shows
    as a token that another sequence has overwritten.
    """

    sequences = Bundle("sequences")

    def __init__(self):
        super().__init__()
        self.memory = tables(blocks=12, block_size=3)
        self.store = {}
        self.wanted = {}
        self.next_name = self.next_token = 0

    def _write(self, name, place):
        if place.copied_from is not None:
            for offset in range(place.offset):
                self.store[place.block, offset] = self.store[place.copied_from, offset]
        self.next_token += 1
        self.store[place.block, place.offset] = self.next_token
        self.wanted[name].append(self.next_token)

    @rule(target=sequences, tokens=st.integers(1, 10))
    def admit(self, tokens):
        self.next_name += 1
        name = self.next_name
        free = len(self.memory.allocator.free)
        try:
            places = self.memory.admit(name, tokens)
        except OutOfBlocks:
            assert -(-tokens // 3) > free
            return self._nobody()
        self.wanted[name] = []
        for place in places:
            self._write(name, place)
        return name

    @staticmethod
    def _nobody():
        return None

    @rule(name=sequences, times=st.integers(1, 4))
    def append(self, name, times):
        for _ in range(times if name in self.wanted else 0):
            free = len(self.memory.allocator.free)
            try:
                self._write(name, self.memory.append(name))
            except OutOfBlocks:
                assert free == 0

    @rule(target=sequences, parent=sequences)
    def fork(self, parent):
        if parent not in self.wanted:
            return self._nobody()
        self.next_name += 1
        self.memory.fork(parent, self.next_name)
        self.wanted[self.next_name] = list(self.wanted[parent])
        return self.next_name

    @rule(name=consumes(sequences))
    def free(self, name):
        if self.wanted.pop(name, None) is not None:
            self.memory.free(name)

    @precondition(lambda self: not self.wanted)
    @invariant()
    def everything_is_free_when_nobody_is_left(self):
        assert self.memory.blocks_in_use == 0
        assert sorted(self.memory.allocator.free) == list(range(12))

    @invariant()
    def references_count_the_holders(self):
        held = [block for s in self.memory.sequences.values() for block in s.block_table]
        assert [held.count(block) for block in range(12)] == self.memory.allocator.references

    @invariant()
    def a_block_is_free_or_held_and_free_once(self):
        free = self.memory.allocator.free
        assert len(set(free)) == len(free)
        assert {block for block in range(12) if self.memory.allocator.references[block] == 0} == set(free)

    @invariant()
    def every_sequence_reads_back_its_own_tokens(self):
        for name, tokens in self.wanted.items():
            sequence = self.memory.sequences[name]
            read = [self.store[sequence.block_table[i // 3], i % 3] for i in range(sequence.length)]
            assert read == tokens

    def teardown(self):
        for name in list(self.wanted):
            self.free(name)
        assert self.memory.blocks_in_use == 0


TestBlocks = Blocks.TestCase
TestBlocks.settings = settings(max_examples=100, stateful_step_count=50, deadline=None, derandomize=True)
