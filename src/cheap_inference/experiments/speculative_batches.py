"""Prompt look-up for several requests in one pass, for the section speculative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import speculative as arithmetic
from ..engine import agree
from ..models.load import LoadedModel
from ..passage import PASSAGE
from ..quantity import Quantity
from ..speculative import Round
from ..speculative_batch import SpeculativeBatch
from .speculative_loops import Judge, LookUp, Text, check_noise, decode_plainly, prefilled
from .speculative_tasks import task_prompt

BATCH_SIZES = (1, 2, 4, 8)
BATCH_TASK = "Repeat this text word for word:"
WINDOW = 40  # tokens of the passage that each request of a batch brings
BEGUN = 8  # tokens of it that the answer has repeated already
ROUNDS = 3
BATCH_REPEATS = 3


@dataclass(frozen=True)
class BatchRow:
    """A round of so many requests beside a plain step of as many. `speedup`: tokens a round over that cost."""

    batch_size: int
    round_cost: Quantity
    speedup: Quantity


@dataclass(frozen=True)
class Batches:
    """Look-up in batches. `tokens_per_round`: mean of all requests, which do not depend on their neighbours."""

    guesses: int
    prompt_tokens: int
    rounds: int
    tokens_per_round: float
    identical: bool
    rows: tuple[BatchRow, ...]


def run_batches(lm: LoadedModel, look_up: LookUp, judge: Judge, *, guesses: int) -> Batches:
    """Rounds of look-up and plain steps at every batch size, in turns, each from the same prompts."""
    passage = lm.tokenizer(PASSAGE)["input_ids"]
    windows = [(passage * 2)[i * WINDOW % len(passage) :][:WINDOW] for i in range(BATCH_SIZES[-1])]
    prompts = [task_prompt(lm, BATCH_TASK, window) + window[:BEGUN] for window in windows]
    capacity = len(prompts[0]) + ROUNDS * (guesses + 1) + guesses
    costs: dict[int, list[float]] = {}
    for size in BATCH_SIZES:
        batch = SpeculativeBatch(lm, prompts[:size], capacity=capacity)
        batch.run(look_up, judge, guesses=guesses, rounds=1)  # the first pass of a shape is slow
        samples = [
            _batch_pair(batch, look_up, judge, guesses, flipped=bool(i % 2)) for i in range(BATCH_REPEATS)
        ]
        costs[size] = [round_seconds / step_seconds for round_seconds, step_seconds, *_ in samples]
        _, _, rounds, answers = samples[0]
    tokens = arithmetic.mean_tokens([one for found in rounds for one in found])
    return Batches(
        guesses=guesses,
        prompt_tokens=len(prompts[0]),
        rounds=ROUNDS,
        tokens_per_round=tokens,
        identical=_same_answers(lm, prompts, answers),
        rows=tuple(_batch_row(size, found, tokens) for size, found in costs.items()),
    )


def _batch_row(size: int, costs: list[float], tokens: float) -> BatchRow:
    speedups = [tokens / cost for cost in costs]
    return BatchRow(
        size, Quantity.of_samples(costs, unit="ratio"), Quantity.of_samples(speedups, unit="ratio")
    )


def _batch_pair(
    batch: SpeculativeBatch, look_up: LookUp, judge: Judge, guesses: int, *, flipped: bool
) -> tuple[float, float, list[list[Round]], tuple[list, list]]:
    """Seconds of the rounds and of as many plain steps, the rounds by row, and both answers by row."""
    jobs: dict[str, tuple[LookUp, int]] = {"plain": (lambda *_: [], 0), "look up": (look_up, guesses)}
    done: dict[str, tuple[Any, list]] = {}
    for name in reversed(jobs) if flipped else jobs:
        batch.rewind()
        run = batch.run(jobs[name][0], judge, guesses=jobs[name][1], rounds=ROUNDS)
        done[name] = (
            run,
            [text[len(prompt) :] for text, prompt in zip(batch.texts, batch.prompts, strict=True)],
        )
    (plain_seconds, _), plain = done["plain"]
    (seconds, rounds), made = done["look up"]
    return seconds, plain_seconds, rounds, (plain, made)


def _same_answers(lm: LoadedModel, prompts: list[list[int]], answers: tuple[list, list]) -> bool:
    """Whether every row's first tokens are plain decoding's, or first differ at a tie of that row alone."""
    plain, made = answers
    same = True
    for ids, one, other in zip(prompts, plain, made, strict=True):
        if one != other[: len(one)]:
            cache = prefilled(lm.model, ids)
            noise = check_noise(lm, Text(ids, cache, *decode_plainly(lm.model, cache, ids, len(one))))
            same &= agree(lm, ids, one, other[: len(one)], noise=noise)
    return same
