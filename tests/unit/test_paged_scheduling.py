"""Continuous batching within a limit of blocks: refusal and preemption, by hand and at random."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cheap_inference.errors import UserError
from cheap_inference.paged_kv_cache import BlockAllocator, BlockTables
from cheap_inference.paged_scheduling import cached_tokens, serve_paged
from cheap_inference.scheduling import Request, serve


class Counting:
    """An executor of no cost that counts the tokens it makes for each request."""

    def __init__(self):
        self.occupied, self.made = {}, Counter()

    def prefill(self, slot, request):
        self.occupied[slot] = request.index
        self.made[request.index] += 1
        return 0.0

    def decode(self):
        self.made.update(self.occupied.values())
        return 1.0

    def release(self, slot):
        del self.occupied[slot]


def run(requests, *, blocks, block_size=1, slots=2, when_full="preempt"):
    executor, tables = Counting(), BlockTables(BlockAllocator(blocks), block_size=block_size)
    result = serve_paged(requests, executor, tables, slots=slots, when_full=when_full)
    assert tables.blocks_in_use == 0
    assert [executor.made[request.index] for request in requests] == [r.output_tokens for r in requests]
    return result


TWO = [Request(0, 4, prompt_tokens=2), Request(1, 4, prompt_tokens=2)]


def test_the_last_token_needs_no_place():
    assert cached_tokens(Request(0, 4, prompt_tokens=2)) == 5
    assert run(TWO[:1], blocks=5).peak_blocks == 5


def test_refusal_promises_the_whole_answer():
    """Five blocks each, nine there: the second waits for the first to end."""
    result = run(TWO, blocks=9, when_full="refuse")
    assert [served.finished for served in result.schedule.served] == [3, 6]
    assert (result.preemptions, result.recomputed_tokens) == (0, 0)


def test_preemption_takes_the_one_admitted_last():
    """Nine blocks: both run two steps and hold four each; the third step's second block is missing.

    The second request leaves with three of its tokens made, and its four places are computed again.
    """
    result = run(TWO, blocks=9)
    assert [served.finished for served in result.schedule.served] == [3, 3]
    assert (result.preemptions, result.recomputed_tokens) == (1, 4)
    assert result.peak_blocks == 8


def test_ample_memory_gives_the_schedule_without_a_limit():
    requests = [Request(i, 1 + 7 * i % 13, prompt_tokens=1 + i % 5) for i in range(20)]
    for when_full in ("refuse", "preempt"):
        result = run(requests, blocks=500, slots=4, when_full=when_full)
        free = serve(requests, Counting(), slots=4, policy="continuous")
        assert (result.schedule.served, result.schedule.steps) == (free.served, free.steps)


@pytest.mark.parametrize("when_full", ["refuse", "preempt"])
@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=15),
    spare=st.integers(0, 6),
    block_size=st.integers(1, 5),
    slots=st.integers(1, 5),
)
def test_every_request_finishes_and_the_books_balance(when_full, sizes, spare, block_size, slots):
    requests = [Request(i, output, prompt_tokens=prompt) for i, (prompt, output) in enumerate(sizes)]
    blocks = max(-(-cached_tokens(request) // block_size) for request in requests) + spare
    result = run(requests, blocks=blocks, block_size=block_size, slots=slots, when_full=when_full)
    assert result.peak_blocks <= blocks
    assert len(result.memory) == result.schedule.steps
    for step in result.memory:
        assert step.reserved_tokens == step.used_tokens + step.wasted_tokens
        assert step.wasted_tokens <= step.requests * (block_size - 1)
        assert step.used_tokens <= step.full_length_tokens


def test_a_request_that_can_never_fit_is_refused_before_anything_runs():
    with pytest.raises(UserError, match="longest request needs 5 blocks"):
        run(TWO, blocks=4)
