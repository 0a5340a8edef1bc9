"""Does sampling keep the target's distribution? Enumerated exactly, tested on the model, and a sibling as draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..acceptance_rule import (
    ChiSquare,
    Keep,
    Prefix,
    Redraw,
    chi_square,
    enumerate_outputs,
    largest_difference,
    plain_outputs,
)
from ..kv_cache import forward
from ..models.load import LoadedModel
from .instruments import continuation_prompts
from .speculative import MAIN, main_draft

#: From a keep, a redraw, a temperature and a generator to a judge of guesses.
MakeJudge = Callable[[Keep, Redraw, float, torch.Generator], Any]

VOCABULARY = 4
GUESSES = 2
LENGTH = 3
CASES = 5
#: Differences below this are rounding of fp64 sums.
MACHINE_PRECISION = 1e-12
DRAWS = 600
LEVEL = 0.001
SEED = 1


@dataclass(frozen=True)
class Enumeration:
    """Rules on a small vocabulary: largest difference of any text's probability to the target's own.

    `cases`: pairs of random target and draft; each conditions on the whole text before.
    """

    vocabulary: int
    guesses: int
    length: int
    cases: int
    right: float
    wrong: float
    exact: bool


@dataclass(frozen=True)
class ModelTest:
    """One token after a prompt, drawn again and again through a draft, against the target's distribution."""

    draft: str
    draws: int
    level: float
    acceptance: float
    expected_acceptance: float
    right: ChiSquare
    wrong: ChiSquare
    passed: bool


def enumerate_rules(keep: Keep, redraw: Redraw, wrong_redraw: Redraw) -> Enumeration:
    """The right and the wrong rule over every outcome of the rounds, for a few random pairs of models."""
    right, wrong = [], []
    for case in range(CASES):
        target, draft = _random_model(2 * case), _random_model(2 * case + 1)
        plain = plain_outputs(target, length=LENGTH)
        for found, rule in ((right, redraw), (wrong, wrong_redraw)):
            outputs = enumerate_outputs(target, draft, keep, rule, guesses=GUESSES, length=LENGTH)
            found.append(largest_difference(plain, outputs))
    exact = max(right) < MACHINE_PRECISION < min(wrong)
    return Enumeration(VOCABULARY, GUESSES, LENGTH, CASES, max(right), min(wrong), exact)


def _random_model(seed: int) -> Callable[[Prefix], torch.Tensor]:
    """A distribution [VOCABULARY] for every prefix, the same for the same seed."""
    known: dict[Prefix, torch.Tensor] = {}

    def next_token(prefix: Prefix) -> torch.Tensor:
        if prefix not in known:
            place = sum((token + 1) * (VOCABULARY + 1) ** i for i, token in enumerate(prefix))
            generator = torch.Generator().manual_seed(seed * (VOCABULARY + 1) ** (LENGTH + GUESSES) + place)
            known[prefix] = torch.randn(VOCABULARY, generator=generator, dtype=torch.float64).softmax(dim=-1)
        return known[prefix]

    return next_token


@torch.inference_mode()
def check_on_model(
    lm: LoadedModel, make_judge: MakeJudge, keep: Keep, redraw: Redraw, wrong_redraw: Redraw
) -> ModelTest:
    """Draw one token through the main draft, by both rules, at temperature 1.

    The prompt is the one after which target and draft overlap least, so that refusals are frequent.
    """
    prompts = continuation_prompts(lm)
    logits, drafts = (
        forward(model, prompts, logits_to_keep=1)[:, -1] for model in (lm.model, main_draft(lm))
    )
    p, q = (rows.double().softmax(dim=-1).cpu() for rows in (logits, drafts))  # [prompts, V]
    overlaps = torch.minimum(p, q).sum(dim=-1)
    place = int(overlaps.argmin())
    tests, kept = {}, 0
    for name, rule in (("right", redraw), ("wrong", wrong_redraw)):
        generator = torch.Generator().manual_seed(SEED)
        judge = make_judge(keep, rule, 1.0, generator)
        drawn = []
        for guess in torch.multinomial(q[place], DRAWS, replacement=True, generator=generator).tolist():
            accepted, own = judge([guess], [q[place]], logits[place].expand(2, -1))
            drawn.append(guess if accepted else own)
            kept += accepted
        tests[name] = chi_square(drawn, p[place])
    return ModelTest(
        draft=MAIN.name,
        draws=DRAWS,
        level=LEVEL,
        acceptance=kept / (2 * DRAWS),
        expected_acceptance=float(overlaps[place]),
        passed=tests["wrong"].p_value < LEVEL <= tests["right"].p_value,
        **tests,
    )
