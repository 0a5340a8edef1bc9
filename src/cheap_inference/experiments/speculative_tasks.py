"""Prompt look-up at work, for the section speculative: kinds of text and temperatures."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files

import torch
from transformers import Cache

from .. import speculative as arithmetic
from ..drafts import certain
from ..engine import agree
from ..kv_cache import crop_to
from ..models.load import LoadedModel
from ..quantity import Quantity
from ..speculative import Round
from .speculative_loops import Judge, LookUp, Speculate, Text, check_noise, decode_plainly, prefilled, timed

MakeSampledJudge = Callable[[float, torch.Generator], Judge]

REPEATS = 3


@dataclass(frozen=True)
class Task:
    """What is asked, the text in prompts.toml that goes with it, the tokens made, the temperatures tried."""

    instruction: str
    text: str | None
    new_tokens: int
    temperatures: tuple[float, ...]


TASKS = {
    "summary": Task("Summarise this text:", "prose", 24, (0.0, 0.7, 1.0)),
    "rewrite": Task("Write this code again with a comment on every line:", "code", 24, (0.0, 1.0)),
    "story": Task("Write a story about a lighthouse.", None, 12, (0.0,)),
    "function": Task("Write a Python function that sorts a list of words by length.", None, 12, (0.0,)),
}
#: In the turns after the first, where its tokens are known, plain decoding makes so many: enough for the clock.
PLAIN_TOKENS = 8
#: The task whose speedup the claims speak of.
CLAIMED = "summary"


@dataclass(frozen=True)
class TaskRow:
    """Prompt look-up on one task at one temperature.

    `found`: share of rounds in which the look-up had anything to offer; the others are plain steps.
    `acceptance`: of the guesses judged. `speedup`: tokens a second over plain decoding's, in pairs; `formula`
    with a check that costs one step, `corrected` with its measured cost.
    """

    task: str
    temperature: float
    found: float
    acceptance: float
    tokens_per_round: Quantity
    speedup: Quantity
    formula: float
    corrected: float


@dataclass(frozen=True)
class Tasks:
    """All tasks. `identical`: at temperature 0 the tokens are plain decoding's, or first differ at a tie.

    `agreement`: the claimed task's measured speedup over the corrected formula's.
    """

    guesses: int
    identical: bool
    rows: tuple[TaskRow, ...]
    claimed: Quantity
    agreement: Quantity


def task_prompt(lm: LoadedModel, instruction: str, text_ids: Sequence[int] = ()) -> list[int]:
    """Token ids of a request, in the model's chat form where it has one; the text's own ids stand in it whole."""
    mark = "<text>"
    content = f"{instruction}\n\n{mark}" if text_ids else instruction
    shown = content + "\n\n"
    if getattr(lm.tokenizer, "chat_template", None):
        messages = [{"role": "user", "content": content}]
        shown = lm.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    before, _, after = shown.partition(mark)
    ids = [lm.tokenizer(part)["input_ids"] if part else [] for part in (before, after)]
    return [*ids[0], *text_ids, *ids[1]]


def _text_ids(lm: LoadedModel, kind: str | None) -> list[int]:
    if kind is None:
        return []
    texts = files("cheap_inference").joinpath("data", "prompts.toml").read_text(encoding="utf-8")
    return lm.tokenizer(tomllib.loads(texts)["outliers"][kind].strip())["input_ids"]


def run_tasks(
    lm: LoadedModel,
    speculate: Speculate,
    look_up: LookUp,
    judge_greedily: Judge,
    judge_sampled: MakeSampledJudge,
    *,
    guesses: int,
    look_up_cost: float,
    check_cost: float,
) -> Tasks:
    """Every task with and without look-up, in turns; the costs, in steps, are the measured ones."""
    bench = _Bench(lm, speculate, look_up, judge_greedily, judge_sampled, guesses)
    rows, identical = [], True
    for name, task in TASKS.items():
        ids = task_prompt(lm, task.instruction, _text_ids(lm, task.text))
        cache = prefilled(lm.model, ids)
        turns = [bench.turn(cache, ids, task, seed=seed) for seed in range(REPEATS)]
        identical &= bench.is_plain(cache, ids, turns[0])
        for temperature in task.temperatures:
            speedups = [turn.speedup(temperature) for turn in turns]
            rounds = [turn.drafted[temperature].rounds for turn in turns]
            costs = {"look_up_cost": look_up_cost, "check_cost": check_cost}
            rows.append(_task_row(name, temperature, speedups, rounds, guesses, **costs))
    claimed = next(row for row in rows if row.task == CLAIMED and not row.temperature)
    return Tasks(
        guesses=guesses,
        identical=identical,
        rows=tuple(rows),
        claimed=claimed.speedup,
        agreement=_over(claimed.speedup, claimed.corrected),
    )


@dataclass(frozen=True)
class _Drafted:
    seconds: float
    tokens: list[int]
    rounds: list[Round]


@dataclass(frozen=True)
class _Turn:
    """Plain decoding once, with its logits [n, V], and speculative decoding at every temperature."""

    plain_seconds: float
    plain: list[int]
    logits: torch.Tensor
    drafted: dict[float, _Drafted]

    def speedup(self, temperature: float) -> float:
        one = self.drafted[temperature]
        return len(one.tokens) / one.seconds / (len(self.plain) / self.plain_seconds)


@dataclass(frozen=True)
class _Bench:
    """The notebook's functions, joined to the model."""

    lm: LoadedModel
    speculate: Speculate
    look_up: LookUp
    judge_greedily: Judge
    judge_sampled: MakeSampledJudge
    guesses: int

    def offer(self, ids: list[int], guesses: int) -> tuple[list[int], list[torch.Tensor]]:
        guess = self.look_up(ids, guesses)
        return guess, [certain(token, self.lm.config.vocab_size) for token in guess]

    def turn(self, cache: Cache, ids: list[int], task: Task, *, seed: int) -> _Turn:
        """The order of the temperatures alternates with the seed."""
        tokens = PLAIN_TOKENS if seed else task.new_tokens
        seconds, (plain, logits) = timed(
            lambda: decode_plainly(self.lm.model, cache, ids, tokens), self.lm.device
        )
        order = task.temperatures if seed % 2 else reversed(task.temperatures)
        drafted = {one: self.drafted(cache, ids, task.new_tokens, one, seed) for one in order}
        return _Turn(seconds, plain, logits, drafted)

    def drafted(
        self, cache: Cache, ids: list[int], new_tokens: int, temperature: float, seed: int
    ) -> _Drafted:
        generator = torch.Generator().manual_seed(seed)
        judge = self.judge_sampled(temperature, generator) if temperature else self.judge_greedily
        crop_to(cache, len(ids) - 1)
        lengths = {"guesses": self.guesses, "new_tokens": new_tokens}
        seconds, (made, found) = timed(
            lambda: self.speculate(self.lm.model, cache, ids, self.offer, judge, **lengths), self.lm.device
        )
        return _Drafted(seconds, made, [Round(*one) for one in found])

    def is_plain(self, cache: Cache, ids: list[int], turn: _Turn) -> bool:
        """Whether the tokens at temperature 0 are plain decoding's, or first differ at a tie."""
        noise = check_noise(self.lm, Text(ids, cache, turn.plain, turn.logits))
        return agree(self.lm, ids, turn.plain, turn.drafted[0.0].tokens[: len(turn.plain)], noise=noise)


def _over(quantity: Quantity, divisor: float) -> Quantity:
    return Quantity(
        quantity.value / divisor, "ratio", quantity.low / divisor, quantity.high / divisor, quantity.n
    )


def _task_row(
    task: str,
    temperature: float,
    speedups: list[float],
    by_turn: list[list[Round]],
    guesses: int,
    *,
    look_up_cost: float,
    check_cost: float,
) -> TaskRow:
    rounds = [one for turn in by_turn for one in turn]
    found = sum(one.guessed > 0 for one in rounds) / len(rounds)
    acceptance = arithmetic.acceptance_rate(rounds)
    tokens = found * arithmetic.expected_tokens(acceptance, guesses) + (1 - found)
    cost = found * guesses * look_up_cost + (1 - found)  # a round without a guess is a plain step
    return TaskRow(
        task=task,
        temperature=temperature,
        found=found,
        acceptance=acceptance,
        tokens_per_round=Quantity.of_samples(list(map(arithmetic.mean_tokens, by_turn)), unit="tokens"),
        speedup=Quantity.of_samples(speedups, unit="ratio"),
        formula=tokens / (cost + found),
        corrected=tokens / (cost + found * check_cost),
    )
