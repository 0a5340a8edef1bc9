"""Measurements of the section paged-cache on the model: engines over blocks, half the memory, a fork."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from .. import timing
from ..engine import Engine, agree, slot_engine
from ..generation import generate_with_cache
from ..models.load import LoadedModel
from ..paged_engine import PagedSequences, paged_engine
from ..paged_kv_cache import BlockTables
from ..paged_scheduling import PagedScheduler, WhenFull
from ..passage import prompt_ids
from ..quantity import Quantity
from ..scheduling import Request, Scheduler, take_turns
from .block_accounting import SLOTS, MakeAllocator, half_of, run_accounts
from .serving import batch_noise, places_needed, workload_prompts, workload_requests

#: The engine serves the workload's first requests; the accounting serves them all.
ENGINE_REQUESTS = 9
GATHER_REPEATS = 9
FORK_PROMPT = 40
FORK_SHARED = 5  # tokens made before the fork
FORK_BRANCH = 12  # tokens made by each branch after it

Store = Literal["contiguous", "paged", "refuse", "preempt"]


@dataclass(frozen=True)
class EngineRow:
    """One run of the engine. `cache_bytes` are those of the tensors that hold keys and values.

    `agreeing` counts requests whose tokens are those of the contiguous run, or first differ at a tie;
    `expected_steps` are the steps of the same schedule without a model.
    """

    store: Store
    blocks: int | None
    cache_bytes: int
    steps: int
    expected_steps: int
    seconds: float
    finished: int
    agreeing: int
    preemptions: int
    recomputed_tokens: int
    blocks_left_over: int


@dataclass(frozen=True)
class EngineRuns:
    """The same requests over a contiguous cache, over blocks, and with half of the blocks.

    `gather` is the time of a step over blocks by that of a step over the contiguous cache, taken in turns.
    """

    requests: int
    block_size: int
    rows: tuple[EngineRow, ...]
    logit_noise: float
    step_seconds: Quantity
    gather: Quantity


@dataclass(frozen=True)
class Fork:
    """A sequence forked in mid-block, both branches beside the same tokens through a contiguous cache."""

    block_size: int
    tokens_at_fork: int
    branch_tokens: int
    blocks_before: int
    blocks_after: int
    blocks_apart: int
    parent_equal: bool
    child_equal: bool


def run_engines(lm: LoadedModel, allocator: MakeAllocator, *, block_size: int) -> EngineRuns:
    """Serve the first requests in turns over every store, and compare their tokens."""
    requests, prompts = workload_requests()[:ENGINE_REQUESTS], workload_prompts(lm)[:ENGINE_REQUESTS]
    contiguous = slot_engine(lm, prompts, slots=SLOTS, capacity=places_needed())
    plain = Scheduler(requests, contiguous, slots=SLOTS, policy="continuous")
    peak = run_accounts(requests, allocator, block_size=block_size).peak_blocks
    half = half_of(peak, requests, block_size=block_size)
    plans: tuple[tuple[Store, int, WhenFull], ...] = (
        ("paged", peak, "preempt"),
        ("refuse", half, "refuse"),
        ("preempt", half, "preempt"),
    )
    paged = {
        store: _paged_scheduler(lm, requests, prompts, allocator(blocks), block_size, when_full)
        for store, blocks, when_full in plans
    }
    take_turns([plain, *paged.values()])
    noise = batch_noise(lm, prompts[:SLOTS])
    rows = [_contiguous_row(plain, requests)]
    for store, blocks, when_full in plans:
        accounts = run_accounts(
            requests, allocator, block_size=block_size, blocks=blocks, when_full=when_full
        )
        rows.append(_paged_row(lm, store, paged[store], contiguous, accounts.schedule.steps, noise))
    return EngineRuns(
        requests=len(requests),
        block_size=block_size,
        rows=tuple(rows),
        logit_noise=noise,
        step_seconds=timing.median_seconds(contiguous.decode_seconds),
        gather=_price_of_gathering(lm, allocator, block_size=block_size),
    )


def _paged_scheduler(
    lm: LoadedModel,
    requests: Sequence[Request],
    prompts: Sequence[list[int]],
    allocator: object,
    block_size: int,
    when_full: WhenFull,
) -> PagedScheduler:
    tables = BlockTables(allocator, block_size=block_size)
    engine = paged_engine(lm, prompts, tables, slots=SLOTS)
    return PagedScheduler(requests, engine, tables, slots=SLOTS, when_full=when_full)


def _finished(requests: Sequence[Request], engine: Engine) -> int:
    return sum(len(engine.tokens[request.index]) == request.output_tokens for request in requests)


def _contiguous_row(scheduler: Scheduler, requests: Sequence[Request]) -> EngineRow:
    engine, schedule = scheduler.executor, scheduler.schedule()
    return EngineRow(
        store="contiguous",
        blocks=None,
        cache_bytes=engine.cache.nbytes,
        steps=schedule.steps,
        expected_steps=schedule.steps,
        seconds=schedule.seconds,
        finished=_finished(requests, engine),
        agreeing=len(requests),
        preemptions=0,
        recomputed_tokens=0,
        blocks_left_over=0,
    )


def _paged_row(
    lm: LoadedModel, store: Store, scheduler: PagedScheduler, contiguous: Engine, expected: int, noise: float
) -> EngineRow:
    engine, run = scheduler.executor, scheduler.paged_run()
    answers = zip(engine.prompts, contiguous.tokens, engine.tokens, strict=True)
    return EngineRow(
        store=store,
        blocks=len(scheduler.tables.allocator.references),
        cache_bytes=engine.cache.nbytes,
        steps=run.schedule.steps,
        expected_steps=expected,
        seconds=run.schedule.seconds,
        finished=_finished([served.request for served in run.schedule.served], engine),
        agreeing=sum(agree(lm, prompt, one, other, noise=noise) for prompt, one, other in answers),
        preemptions=run.preemptions,
        recomputed_tokens=run.recomputed_tokens,
        blocks_left_over=scheduler.tables.blocks_in_use,
    )


def _price_of_gathering(lm: LoadedModel, allocator: MakeAllocator, *, block_size: int) -> Quantity:
    """Both engines in mid-answer, every slot occupied, a step each in turns."""
    prompts = workload_prompts(lm)[:SLOTS]
    tables = BlockTables(allocator(SLOTS * -(-places_needed() // block_size)), block_size=block_size)
    over_blocks = paged_engine(lm, prompts, tables, slots=SLOTS)
    over_slots = slot_engine(lm, prompts, slots=SLOTS, capacity=places_needed())
    for slot, prompt in enumerate(prompts):
        tables.admit(slot, len(prompt))
        for engine in (over_blocks, over_slots):
            engine.prefill(slot, Request(slot, 1))

    def step_over_blocks() -> None:
        for slot in range(SLOTS):
            tables.append(slot)
        over_blocks.decode()

    functions = {"blocks": step_over_blocks, "slots": over_slots.decode}
    samples = timing.interleaved(functions, repeats=GATHER_REPEATS, device=lm.device)
    return timing.ratio(samples["blocks"], samples["slots"])


def fork_in_mid_block(lm: LoadedModel, allocator: MakeAllocator, *, block_size: int) -> Fork:
    """Fork after some tokens, let one branch take the best next token and one the second best."""
    prompt = prompt_ids(lm, FORK_PROMPT)[0].tolist()
    length = FORK_PROMPT + FORK_SHARED
    tables = BlockTables(allocator(4 * -(-(length + FORK_BRANCH + 1) // block_size)), block_size=block_size)
    sequences = PagedSequences(lm, tables)
    first = int(sequences.feed("parent", prompt).argmax())
    shared = [first, *sequences.greedy("parent", first, FORK_SHARED - 1)]
    best, second = sequences.feed("parent", shared[-1:]).topk(2).indices.tolist()
    before = tables.blocks_in_use
    tables.fork("parent", "child")
    branches = {
        "child": (second, sequences.greedy("child", second, FORK_BRANCH)),
        "parent": (best, sequences.greedy("parent", best, FORK_BRANCH)),
    }
    noise = batch_noise(lm, [prompt])
    equal = {
        name: _as_contiguous(lm, [*prompt, *shared, *branch[:1]], branch[1], noise)
        for name, branch in branches.items()
    }
    held = [len(sequence.block_table) for sequence in tables.sequences.values()]
    return Fork(
        block_size=block_size,
        tokens_at_fork=length,
        branch_tokens=FORK_BRANCH,
        blocks_before=before,
        blocks_after=tables.blocks_in_use,
        blocks_apart=sum(held),
        parent_equal=equal["parent"],
        child_equal=equal["child"],
    )


def _as_contiguous(lm: LoadedModel, ids: list[int], tokens: list[int], noise: float) -> bool:
    """Whether the tokens are those that the loop with a contiguous cache gives after `ids`."""
    expected = generate_with_cache(lm.model, torch.tensor([ids], device=lm.device), len(tokens)).tolist()
    return agree(lm, ids, expected, tokens, noise=noise)
