"""Continuous batching with a memory limit: admission asks for blocks, and decoding may run out of them.

Two ways to live with it. Refuse: a request is admitted only when the blocks of its whole answer can be
promised to it, and waits otherwise. Preempt: it is admitted when its prompt fits; when a step finds no
free block, the request admitted last gives its blocks back, returns to the head of the queue, and its
cache is computed again later. Kwon et al., arXiv:2309.06180, section 4.5. No torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .errors import UserError
from .paged_kv_cache import BlockTables, OutOfBlocks
from .scheduling import Executor, Request, Schedule, Scheduler

WhenFull = Literal["refuse", "preempt"]


@dataclass(frozen=True)
class StepMemory:
    """Tokens of memory during one decode step, over all running requests.

    `used_tokens` counts the requests' tokens, `wasted_tokens` the empty places of their last blocks,
    `reserved_tokens` the room of all blocks held; each is counted on its own. `full_length_tokens` is
    what the same requests hold when each owns room for its whole length from the start.
    """

    requests: int
    reserved_tokens: int
    used_tokens: int
    wasted_tokens: int
    full_length_tokens: int


@dataclass(frozen=True)
class PagedRun:
    """A schedule under a memory limit, and what the limit cost.

    Attributes:
        peak_blocks: most blocks held during a step.
        preemptions: times that a request lost its slot.
        recomputed_tokens: places of the cache that were computed a second time.
        memory: one entry a decode step.
        block_steps: for each request by index, the blocks that it held, summed over decode steps.
    """

    schedule: Schedule
    peak_blocks: int
    preemptions: int
    recomputed_tokens: int
    memory: tuple[StepMemory, ...]
    block_steps: tuple[int, ...]


def cached_tokens(request: Request) -> int:
    """Places that a request fills in the end: the token made last is never fed, so it has none."""
    return request.prompt_tokens + request.output_tokens - 1


class PagedScheduler(Scheduler):
    """Continuous batching over block tables."""

    def __init__(
        self,
        requests: Sequence[Request],
        executor: Executor,
        tables: BlockTables,
        *,
        slots: int,
        when_full: WhenFull,
    ):
        """Raises UserError where one request alone needs more blocks than there are."""
        super().__init__(requests, executor, slots=slots, policy="continuous")
        self.tables, self.when_full = tables, when_full
        largest = max(tables.blocks_for(cached_tokens(request)) for request in requests)
        if largest > len(tables.allocator.free):
            raise UserError(f"The longest request needs {largest} blocks: give the cache at least as many.")
        self._made: dict[int, int] = {}  # index -> tokens made before its present stay
        self._order: list[int] = []  # occupied slots, the one admitted last at the end
        self.peak_blocks = self.preemptions = self.recomputed_tokens = 0
        self.memory: list[StepMemory] = []
        self.block_steps: Counter[int] = Counter()

    def fill_slots(self) -> None:
        """Admit from the head of the queue while a slot and the blocks for it are there."""
        while self.waiting and None in self.slots and self._fits(self.waiting[0]):
            request, slot = self.waiting.popleft(), self.slots.index(None)
            made = self._made.get(request.index, 0)
            self.tables.admit(request.index, request.prompt_tokens + made)
            # The token made last was never fed, so its place is new.
            self.recomputed_tokens += request.prompt_tokens + made - 1 if made else 0
            self._order.append(slot)
            self.place(slot, request, still_to_make=request.output_tokens - made)

    def step(self) -> None:
        """Find a place for one more token of every request, preempting where none is left; then decode."""
        for slot in list(self._order):
            while slot in self._order and not self._grow(slot):
                self._preempt(self._order[-1])
        self._note_memory()
        super().step()

    def vacate(self, slot: int) -> Request:
        """As in the base class; the blocks become free."""
        request = super().vacate(slot)
        self._order.remove(slot)
        self.tables.free(request.index)
        return request

    def paged_run(self) -> PagedRun:
        """What has been done, once all is."""
        schedule = self.schedule()
        return PagedRun(
            schedule,
            self.peak_blocks,
            self.preemptions,
            self.recomputed_tokens,
            tuple(self.memory),
            tuple(self.block_steps[served.request.index] for served in schedule.served),
        )

    def _fits(self, request: Request) -> bool:
        if self.when_full == "preempt":
            tokens = request.prompt_tokens + self._made.get(request.index, 0)
            return self.tables.blocks_for(tokens) <= len(self.tables.allocator.free)
        residents = [self.slots[slot] for slot in self._order]
        promised = sum(self.tables.blocks_for(cached_tokens(resident)) for resident in [*residents, request])
        return promised <= len(self.tables.allocator.references)

    def _grow(self, slot: int) -> bool:
        try:
            self.tables.append(self.slots[slot].index)
        except OutOfBlocks:
            return False
        return True

    def _preempt(self, slot: int) -> None:
        stay_began = self._since[slot]
        request = self.vacate(slot)
        # Its prefill made one token and every step of its stay another.
        self._made[request.index] = self._made.get(request.index, 0) + 1 + self.steps - stay_began
        self.waiting.appendleft(request)
        self.preemptions += 1

    def _note_memory(self) -> None:
        size, sequences = self.tables.block_size, self.tables.sequences.values()
        self.block_steps.update({name: len(s.block_table) for name, s in self.tables.sequences.items()})
        self.peak_blocks = max(self.peak_blocks, self.tables.blocks_in_use)
        self.memory.append(
            StepMemory(
                requests=len(self._order),
                reserved_tokens=self.tables.blocks_in_use * size,
                used_tokens=sum(sequence.length for sequence in sequences),
                wasted_tokens=sum(-sequence.length % size for sequence in sequences),
                full_length_tokens=sum(cached_tokens(self.slots[slot]) for slot in self._order),
            )
        )


def serve_paged(
    requests: Sequence[Request],
    executor: Executor,
    tables: BlockTables,
    *,
    slots: int,
    when_full: WhenFull,
) -> PagedRun:
    """Run the requests through the slots within the blocks of `tables`."""
    scheduler = PagedScheduler(requests, executor, tables, slots=slots, when_full=when_full)
    scheduler.run()
    return scheduler.paged_run()
