"""What the formula is fed with, for the section speculative: its table by arithmetic, its costs by measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .. import timing
from ..kv_cache import crop_to, filled_cache, forward
from ..models.load import LoadedModel
from ..passage import prompt_ids
from ..quantity import Quantity
from .speculative import main_draft

ExpectedTokens = Callable[[float, int], float]
Speedup = Callable[..., float]

ACCEPTANCES = (0.3, 0.5, 0.7, 0.9)
#: Guesses and the cost of one, in steps of the target.
SETTINGS = ((4, 0.05), (4, 0.1), (4, 0.2), (8, 0.1))
#: Positions of a check: none, one, two, four and eight guesses, and the token before them.
CHECKED = {1, 2, 3, 5, 9}
CACHED_TOKENS = 64
REPEATS = 7


@dataclass(frozen=True)
class FormulaRow:
    """One acceptance rate: tokens a round for 4 and 8 guesses, and the speedup of every setting."""

    acceptance: float
    tokens: tuple[float, ...]
    speedups: tuple[float, ...]


@dataclass(frozen=True)
class Formula:
    """The speedup where a check costs one step. `settings`: guesses and draft cost of each column."""

    guesses: tuple[int, ...]
    settings: tuple[tuple[int, float], ...]
    rows: tuple[FormulaRow, ...]


@dataclass(frozen=True)
class Check:
    """Positions of a pass and what it costs, in steps."""

    positions: int
    cost: Quantity


@dataclass(frozen=True)
class Costs:
    """Costs in plain steps of the target: a step of the quantised draft, a look-up, a check."""

    cached_tokens: int
    step: Quantity
    draft_cost: Quantity
    look_up_cost: Quantity
    checks: tuple[Check, ...]


def tabulate(expected_tokens: ExpectedTokens, speedup: Speedup) -> Formula:
    """The chapter's table, by the notebook's own functions."""
    guesses = tuple(sorted({count for count, _ in SETTINGS}))
    rows = [
        FormulaRow(
            acceptance=acceptance,
            tokens=tuple(expected_tokens(acceptance, count) for count in guesses),
            speedups=tuple(speedup(acceptance, count, cost) for count, cost in SETTINGS),
        )
        for acceptance in ACCEPTANCES
    ]
    return Formula(guesses, SETTINGS, tuple(rows))


@torch.inference_mode()
def measure_costs(lm: LoadedModel, look_up: Callable[[list[int], int], list[int]], *, guesses: int) -> Costs:
    """Time a step, a draft's step, a look-up and checks of several lengths, in turns."""
    draft, text = main_draft(lm), prompt_ids(lm, 2 * CACHED_TOKENS)[0].tolist()
    caches = [
        filled_cache(lm.config, tokens=CACHED_TOKENS, dtype=lm.dtype, device=lm.device) for _ in range(2)
    ]

    def rewind() -> None:
        for cache in caches:
            crop_to(cache, CACHED_TOKENS)

    def passing(model: object, cache: object, positions: int) -> Callable[[], torch.Tensor]:
        ids = torch.tensor([text[:positions]], device=lm.device)
        return lambda: forward(model, ids, cache)

    checked = sorted(CHECKED | {guesses + 1})
    jobs = {str(positions): passing(lm.model, caches[0], positions) for positions in checked}
    jobs |= {"draft": passing(draft, caches[1], 1), "look up": lambda: look_up(text, guesses)}
    samples = timing.interleaved(jobs, repeats=REPEATS, warmup=1, device=lm.device, before=rewind)
    ratio = {name: timing.ratio(samples[name], samples["1"]) for name in jobs}
    return Costs(
        cached_tokens=CACHED_TOKENS,
        step=timing.median_seconds(samples["1"]),
        draft_cost=ratio["draft"],
        look_up_cost=ratio["look up"],
        checks=tuple(Check(positions, ratio[str(positions)]) for positions in checked),
    )
