"""Measurement of the section continuous-batching: a long prompt among requests that are being answered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import median

from .. import timing
from ..engine import slot_engine
from ..models.load import LoadedModel
from ..passage import prompt_ids
from ..quantity import Quantity
from ..scheduling import Request
from .serving import workload_prompts

LONG_PROMPT = 2_000
SLOTS = 4
CHUNKS = (LONG_PROMPT, 128)
STEPS_BEFORE = 5  # of the others, before the long prompt comes


@dataclass(frozen=True)
class ChunkRow:
    """A long prompt prefilled `chunk` tokens at a time while others decode. Seconds."""

    chunk: int
    passes: int
    longest_gap: float
    median_gap: float
    time_to_first_token: float


@dataclass(frozen=True)
class LongPrompt:
    """What a long prompt does to requests that are being answered."""

    prompt_tokens: int
    others: int
    step_alone: Quantity
    rows: tuple[ChunkRow, ...]
    shortening: float


def interrupt_with_long_prompt(lm: LoadedModel) -> LongPrompt:
    """Three requests are being answered when a prompt of 2,000 tokens comes: gaps between their tokens."""
    alone: list[float] = []
    rows = [_chunk_row(lm, chunk, alone) for chunk in CHUNKS]
    return LongPrompt(
        prompt_tokens=LONG_PROMPT,
        others=SLOTS - 1,
        step_alone=timing.median_seconds(alone),
        rows=tuple(rows),
        shortening=rows[0].longest_gap / rows[-1].longest_gap,
    )


def _chunk_row(lm: LoadedModel, chunk: int, alone: list[float]) -> ChunkRow:
    """Prefill in chunks with one decode step of the others after each; steps before go to `alone`."""
    engine = slot_engine(lm, workload_prompts(lm)[: SLOTS - 1], slots=SLOTS, capacity=LONG_PROMPT + 1)
    for slot in range(SLOTS - 1):
        engine.prefill(slot, Request(slot, 1))
    alone += [engine.decode() for _ in range(STEPS_BEFORE)]
    ids = prompt_ids(lm, LONG_PROMPT)[0].tolist()
    gaps = []
    for first in range(0, LONG_PROMPT, chunk):
        seconds, _ = engine.timed(partial(engine.extend, SLOTS - 1, ids[first : first + chunk]))
        gaps.append(seconds + engine.decode())
    # The prompt's own first token is there after its last chunk, before the step that follows it.
    first_token = sum(gaps) - engine.decode_seconds[-1]
    return ChunkRow(chunk, len(gaps), max(gaps), median(gaps), first_token)
