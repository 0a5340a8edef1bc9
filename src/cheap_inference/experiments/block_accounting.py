"""Accounting of the section paged-cache: who holds which memory, counted block by block; no model runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median_low
from typing import TYPE_CHECKING, Literal

from ..cost import Shape, kv_bytes_per_token
from ..paged_kv_cache import Allocator, BlockTables, OutOfBlocks
from ..paged_scheduling import PagedRun, StepMemory, WhenFull, cached_tokens, serve_paged
from ..scheduling import Request
from ..simulation import CostExecutor, Costs
from .serving import places_needed, workload_requests

if TYPE_CHECKING:
    from ..models.load import LoadedModel

MakeAllocator = Callable[[int], Allocator]
Scheme = Literal["contiguous-maximum", "contiguous-exact", "paged"]
Limit = Literal["peak", "refuse", "preempt"]

SLOTS = 8
BLOCK_SIZES = (8, 16, 32, 64, 128)
SHARED_BLOCK_SIZE = 16
SYSTEM_PROMPT = 512
USERS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class SchemeRow:
    """One way to reserve the cache. Tokens of room, averaged over the decode steps of the workload.

    `block_size` is None where there are no blocks. `fitting` counts the workload's first requests that
    fit, each at its full length, into the memory of eight of the longest.
    """

    scheme: Scheme
    block_size: int | None
    reserved: float
    used: float
    wasted: float
    fitting: int


@dataclass(frozen=True)
class Schemes:
    """All schemes on the workload, and whether the books of blocks balance at every single step."""

    bytes_per_token: int
    memory_tokens: int
    longest_tokens: int
    rows: tuple[SchemeRow, ...]
    balanced: bool
    below_a_block: bool


@dataclass(frozen=True)
class SharingRow:
    """Blocks held by `users` who begin with the same prompt: a copy each, or the same blocks."""

    users: int
    blocks_apart: int
    blocks_shared: int


@dataclass(frozen=True)
class Sharing:
    """A system prompt, with `own_tokens` of each user after it; `prompt_blocks` are held by all users."""

    prompt_tokens: int
    own_tokens: int
    block_size: int
    prompt_blocks: int
    bytes_per_block: int
    rows: tuple[SharingRow, ...]


@dataclass(frozen=True)
class LimitRow:
    """The whole workload within a number of blocks; `finished` counts requests with all their tokens."""

    limit: Limit
    blocks: int
    steps: int
    utilisation: float
    preemptions: int
    recomputed_tokens: int
    finished: int


@dataclass(frozen=True)
class Limits:
    """The blocks that the workload holds at its peak, and half of them both ways."""

    block_size: int
    requests: int
    rows: tuple[LimitRow, ...]


@dataclass(frozen=True)
class HolderRow:
    """What one request holds while it lives: places of the cache times decode steps.

    The shares are those of the request in the workload's output tokens and in its paged places.
    """

    output_tokens: int
    steps: int
    paged: int
    contiguous: int
    token_share: float
    memory_share: float


@dataclass(frozen=True)
class Holders:
    """The shortest, the median and the longest request, by memory and time."""

    block_size: int
    bytes_per_token: int
    rows: tuple[HolderRow, ...]


def token_bytes(lm: LoadedModel) -> int:
    """Cache bytes of one token in the model's own dtype."""
    return kv_bytes_per_token(Shape.from_config(lm.config), bytes_per_element=lm.dtype.itemsize)


def run_accounts(
    requests: Sequence[Request],
    allocator: MakeAllocator,
    *,
    block_size: int,
    blocks: int | None = None,
    when_full: WhenFull = "refuse",
) -> PagedRun:
    """The schedule with its block tables; with `blocks` None there are enough for everybody at once."""
    enough = sum(-(-cached_tokens(request) // block_size) for request in requests)
    tables = BlockTables(allocator(blocks or enough), block_size=block_size)
    costs = Costs.fixed(prefill=1.0, decode=1.0, slots=SLOTS)
    return serve_paged(requests, CostExecutor(costs), tables, slots=SLOTS, when_full=when_full)


def half_of(blocks: int, requests: Sequence[Request], *, block_size: int) -> int:
    """Half the blocks, rounded up, but never fewer than the longest request needs."""
    return max(-(-blocks // 2), max(-(-cached_tokens(request) // block_size) for request in requests))


def compare_schemes(lm: LoadedModel, allocator: MakeAllocator) -> Schemes:
    """Reserve the workload's cache in every scheme; count room, tokens and empty places at each step.

    One block as large as the longest request is the contiguous cache of maximum size.
    """
    requests, longest = workload_requests(), places_needed()
    memory = SLOTS * longest
    runs = {size: run_accounts(requests, allocator, block_size=size) for size in (longest, *BLOCK_SIZES)}
    fitting = {size: _fitting(requests, allocator, memory, size) for size in (1, *runs)}
    rows = [_scheme_row("paged", size, runs[size].memory, fitting[size]) for size in BLOCK_SIZES]
    steps = [(size, step) for size, run in runs.items() for step in run.memory]
    return Schemes(
        bytes_per_token=token_bytes(lm),
        memory_tokens=memory,
        longest_tokens=longest,
        rows=(
            _scheme_row("contiguous-maximum", None, runs[longest].memory, fitting[longest]),
            _exact_row(runs[longest].memory, fitting[1]),
            *rows,
        ),
        balanced=all(step.reserved_tokens == step.used_tokens + step.wasted_tokens for _, step in steps),
        below_a_block=all(step.wasted_tokens < step.requests * size for size, step in steps),
    )


def _scheme_row(
    scheme: Scheme, block_size: int | None, memory: Sequence[StepMemory], fitting: int
) -> SchemeRow:
    reserved, used, wasted = (
        fmean(getattr(step, name) for step in memory)
        for name in ("reserved_tokens", "used_tokens", "wasted_tokens")
    )
    return SchemeRow(scheme, block_size, reserved, used, wasted, fitting)


def _exact_row(memory: Sequence[StepMemory], fitting: int) -> SchemeRow:
    """Room for the whole answer from the start, as if its length were known."""
    reserved = fmean(step.full_length_tokens for step in memory)
    used = fmean(step.used_tokens for step in memory)
    wasted = fmean(step.full_length_tokens - step.used_tokens for step in memory)
    return SchemeRow("contiguous-exact", None, reserved, used, wasted, fitting)


def _fitting(requests: Sequence[Request], allocator: MakeAllocator, memory: int, block_size: int) -> int:
    """Requests, from the first on, whose full lengths fit together into `memory` tokens of blocks."""
    tables = BlockTables(allocator(memory // block_size), block_size=block_size)
    for count, request in enumerate(requests):
        try:
            tables.admit(request.index, cached_tokens(request))
        except OutOfBlocks:
            return count
    return len(requests)


def share_system_prompt(lm: LoadedModel, allocator: MakeAllocator) -> Sharing:
    """Users with one system prompt and a median request after it: every one with a copy, and shared."""
    own = median_low(cached_tokens(request) for request in workload_requests())
    shared = {users: _shared(allocator, users, own) for users in USERS}
    return Sharing(
        prompt_tokens=SYSTEM_PROMPT,
        own_tokens=own,
        block_size=SHARED_BLOCK_SIZE,
        prompt_blocks=shared[USERS[-1]].allocator.references.count(USERS[-1]),
        bytes_per_block=SHARED_BLOCK_SIZE * token_bytes(lm),
        rows=tuple(
            SharingRow(users, _apart(allocator, users, own).blocks_in_use, tables.blocks_in_use)
            for users, tables in shared.items()
        ),
    )


def _tables_for(allocator: MakeAllocator, users: int, own: int) -> BlockTables:
    each = -(-(SYSTEM_PROMPT + own) // SHARED_BLOCK_SIZE) + 1
    return BlockTables(allocator((users + 1) * each), block_size=SHARED_BLOCK_SIZE)


def _apart(allocator: MakeAllocator, users: int, own: int) -> BlockTables:
    tables = _tables_for(allocator, users, own)
    for user in range(users):
        tables.admit(user, SYSTEM_PROMPT + own)
    return tables


def _shared(allocator: MakeAllocator, users: int, own: int) -> BlockTables:
    tables = _tables_for(allocator, users, own)
    tables.admit("system", SYSTEM_PROMPT)
    for user in range(users):
        tables.fork("system", user)
        for _ in range(own):
            tables.append(user)
    tables.free("system")
    return tables


def limit_memory(allocator: MakeAllocator, *, block_size: int) -> Limits:
    """The whole workload with the blocks of its peak, and with half of them."""
    requests = workload_requests()
    peak = run_accounts(requests, allocator, block_size=block_size).peak_blocks
    half = half_of(peak, requests, block_size=block_size)
    plans: tuple[tuple[Limit, int, WhenFull], ...] = (
        ("peak", peak, "preempt"),
        ("refuse", half, "refuse"),
        ("preempt", half, "preempt"),
    )
    rows = [
        _limit_row(
            limit,
            blocks,
            run_accounts(requests, allocator, block_size=block_size, blocks=blocks, when_full=when),
        )
        for limit, blocks, when in plans
    ]
    return Limits(block_size, len(requests), tuple(rows))


def _limit_row(limit: Limit, blocks: int, run: PagedRun) -> LimitRow:
    schedule = run.schedule
    made = [0] * len(schedule.served)
    for stay in schedule.stays:  # its prefill makes a token, and every step another
        made[stay.index] += 1 + stay.last_step - stay.first_step
    return LimitRow(
        limit=limit,
        blocks=blocks,
        steps=schedule.steps,
        utilisation=schedule.utilisation,
        preemptions=run.preemptions,
        recomputed_tokens=run.recomputed_tokens,
        finished=sum(made[s.request.index] == s.request.output_tokens for s in schedule.served),
    )


def memory_over_time(lm: LoadedModel, allocator: MakeAllocator, *, block_size: int) -> Holders:
    """What the shortest, the median and the longest request hold, summed over their decode steps."""
    requests = workload_requests()
    run = run_accounts(requests, allocator, block_size=block_size)
    by_length = sorted(run.schedule.served, key=lambda served: served.request.output_tokens)
    steps = {stay.index: stay.last_step - stay.first_step for stay in run.schedule.stays}
    rows = []
    for served in (by_length[0], by_length[len(by_length) // 2], by_length[-1]):
        index, output = served.request.index, served.request.output_tokens
        rows.append(
            HolderRow(
                output_tokens=output,
                steps=steps[index],
                paged=run.block_steps[index] * block_size,
                contiguous=steps[index] * places_needed(),
                token_share=output / run.schedule.tokens,
                memory_share=run.block_steps[index] / sum(run.block_steps),
            )
        )
    return Holders(block_size, token_bytes(lm), tuple(rows))
