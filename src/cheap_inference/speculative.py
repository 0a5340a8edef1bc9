"""Speculative decoding by arithmetic: what rounds of guessing and checking give and what they should cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import bootstrap
from .bootstrap import Interval


@dataclass(frozen=True)
class Round:
    """One draft and its check: `accepted` of `guessed` tokens were kept; one token of the target's own follows."""

    guessed: int
    accepted: int

    @property
    def judged(self) -> int:
        """Guesses that were looked at: up to the first refusal, and that one."""
        return self.accepted + (self.accepted < self.guessed)

    @property
    def tokens(self) -> int:
        """Tokens that the round gave."""
        return self.accepted + 1


def expected_tokens(acceptance: float, guesses: int) -> float:
    """Tokens that a round gives on average, (1 - α^(γ+1)) / (1 - α), its own token counted.

    Every guess is accepted with the same chance, whatever came before (Leviathan et al., 2022, equation 1).
    """
    return float(sum(acceptance**power for power in range(guesses + 1)))


def expected_speedup(acceptance: float, guesses: int, *, draft_cost: float, check_cost: float = 1.0) -> float:
    """Tokens a round over its cost in plain steps: guesses at `draft_cost` each and one check.

    With a check as cheap as a step this is Leviathan et al.'s theorem 3.8.
    """
    return expected_tokens(acceptance, guesses) / (guesses * draft_cost + check_cost)


def break_even(guesses: int, *, draft_cost: float, check_cost: float = 1.0) -> float | None:
    """The acceptance rate at which the expected speedup is 1; None where no rate is enough."""
    low, high = 0.0, 1.0
    if expected_speedup(high, guesses, draft_cost=draft_cost, check_cost=check_cost) < 1:
        return None
    for _ in range(60):  # bisection: the expected speedup rises with the acceptance rate
        middle = (low + high) / 2
        pays = expected_speedup(middle, guesses, draft_cost=draft_cost, check_cost=check_cost) >= 1
        low, high = (low, middle) if pays else (middle, high)
    return high


def walk(hits: Sequence[bool], guesses: int) -> list[Round]:
    """The rounds of greedy speculative decoding, from a column that says where the draft is right.

    `hits[i]`: given the target's own text up to token i, the draft would choose token i as well. The loop
    guesses on nothing but that text until its first refusal, so the column settles every round.
    """
    rounds, place = [], 0
    while place < len(hits):
        offered = hits[place : place + guesses]
        accepted = next((i for i, hit in enumerate(offered) if not hit), len(offered))
        rounds.append(Round(len(offered), accepted))
        place += accepted + 1
    return rounds


def within(rounds: Sequence[Round], tokens: int) -> list[Round]:
    """The rounds as far as they speak of the first `tokens` tokens: the last one may be cut."""
    kept, place = [], 0
    for one in rounds:
        if place >= tokens:
            break
        guessed = min(one.guessed, tokens - place)
        kept.append(Round(guessed, min(one.accepted, guessed)))
        place += one.tokens
    return kept


def acceptance_rate(rounds: Sequence[Round]) -> float:
    """Accepted guesses over judged ones; what stood behind a refusal was never judged."""
    return sum(one.accepted for one in rounds) / max(1, sum(one.judged for one in rounds))


def acceptance_interval(by_text: Sequence[Sequence[Round]]) -> Interval:
    """Interval of the acceptance rate, whole texts resampled: guesses in one text depend on each other."""
    accepted = np.array([sum(one.accepted for one in rounds) for rounds in by_text])
    judged = np.array([sum(one.judged for one in rounds) for rounds in by_text])
    picks = np.random.default_rng(bootstrap.SEED).integers(
        len(judged), size=(bootstrap.RESAMPLES, len(judged))
    )
    return bootstrap.interval(accepted[picks].sum(axis=1) / np.maximum(1, judged[picks].sum(axis=1)))


def mean_tokens(rounds: Sequence[Round]) -> float:
    """Tokens a round gave."""
    return sum(one.tokens for one in rounds) / len(rounds)
