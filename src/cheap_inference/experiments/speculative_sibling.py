"""A smaller model of the same family as draft, for the section speculative: on a GPU that can reach the hub."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from transformers import Cache

from ..drafts import Draw, common_vocabulary, greedy_draw
from ..engine import agree
from ..errors import UserError
from ..kv_cache import crop_to, new_cache
from ..models import resolve
from ..models.load import LoadedModel, load
from ..quantity import Quantity
from ..speculative import Round, acceptance_rate, mean_tokens
from .instruments import CONTINUED_TOKENS, continuation_prompts
from .speculative_loops import (
    DraftTokens,
    Judge,
    Speculate,
    Text,
    check_noise,
    decode_plainly,
    prefilled,
    timed,
)

#: By the page's model, a larger one of its family, for which it drafts.
LARGER = {"qwen2.5-0.5b": "Qwen/Qwen2.5-1.5B-Instruct"}
GUESSES = 4


@dataclass(frozen=True)
class Sibling:
    """The page's model as a draft for a larger one; all but `missing` are None where it was not tried."""

    missing: Literal["", "no-gpu", "no-sibling", "no-hub"]
    target: str | None = None
    draft: str | None = None
    guesses: int | None = None
    identical: bool | None = None
    acceptance: float | None = None
    tokens_per_round: float | None = None
    draft_cost: Quantity | None = None
    speedup: Quantity | None = None


def run_sibling(lm: LoadedModel, speculate: Speculate, draft_tokens: DraftTokens, judge: Judge) -> Sibling:
    """Decode with and without the page's model as draft, on every prompt; or say why it cannot be tried here."""
    if lm.device.type != "cuda":
        return Sibling("no-gpu")
    if lm.spec.name not in LARGER:
        return Sibling("no-sibling")
    try:
        target = load(resolve(LARGER[lm.spec.name], device="cuda"), device="cuda")
    except UserError:
        return Sibling("no-hub")
    return decode_with_sibling(target, lm, speculate, draft_tokens, judge)


def decode_with_sibling(
    target: LoadedModel, small: LoadedModel, speculate: Speculate, draft_tokens: DraftTokens, judge: Judge
) -> Sibling:
    """The measurement itself, for any two models of one vocabulary.

    Raises:
        UserError: their vocabularies differ.
    """
    draw = greedy_draw(common_vocabulary(target, small))
    trials = []
    for ids in continuation_prompts(target).tolist():
        offer = partial(_offer, draft_tokens, small.model, new_cache(small.config), draw)
        offer(ids, 1)  # the prompt, before the clock starts
        trials.append(_trial(target, offer, speculate, judge, ids))
    rounds = [one for trial in trials for one in trial.rounds]
    return Sibling(
        missing="",
        target=target.spec.title,
        draft=small.spec.title,
        guesses=GUESSES,
        identical=all(trial.identical for trial in trials),
        acceptance=acceptance_rate(rounds),
        tokens_per_round=mean_tokens(rounds),
        draft_cost=Quantity.of_samples([trial.draft_cost for trial in trials], unit="ratio"),
        speedup=Quantity.of_samples([trial.speedup for trial in trials], unit="ratio"),
    )


def _offer(
    draft_tokens: DraftTokens, model: Any, cache: Cache, draw: Draw, ids: list[int], guesses: int
) -> tuple[list[int], list]:
    return draft_tokens(model, cache, ids, guesses, draw)


@dataclass(frozen=True)
class _Trial:
    """One prompt: `draft_cost` in steps of the target, `speedup` over plain decoding."""

    rounds: list[Round]
    identical: bool
    draft_cost: float
    speedup: float


def _trial(
    target: LoadedModel, offer: Callable, speculate: Speculate, judge: Judge, ids: list[int]
) -> _Trial:
    cache = prefilled(target.model, ids)
    plain_seconds, (plain, logits) = timed(
        lambda: decode_plainly(target.model, cache, ids, CONTINUED_TOKENS), target.device
    )
    draft_seconds, _ = timed(lambda: offer(ids, CONTINUED_TOKENS), target.device)
    crop_to(cache, len(ids) - 1)
    lengths = {"guesses": GUESSES, "new_tokens": CONTINUED_TOKENS}
    seconds, (made, found) = timed(
        lambda: speculate(target.model, cache, ids, offer, judge, **lengths), target.device
    )
    noise = check_noise(target, Text(ids, cache, plain, logits))
    return _Trial(
        rounds=[Round(*one) for one in found],
        identical=agree(target, ids, plain, made[:CONTINUED_TOKENS], noise=noise),
        draft_cost=draft_seconds / plain_seconds,
        speedup=len(made) / seconds / (CONTINUED_TOKENS / plain_seconds),
    )
