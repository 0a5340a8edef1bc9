"""What sections judge a changed model with: perplexity, and agreement with the unchanged one's own text."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import torch
from transformers import Cache

from .. import bootstrap, corpus, quality
from ..bootstrap import Interval
from ..models.load import LoadedModel
from ..quantity import Quantity

#: Tokens of the evaluation range that perplexity is computed on, in one window.
EVALUATION_TOKENS = 2048
#: Agreement: every prompt is cut to so many tokens and continued by so many.
PROMPT_TOKENS = 24
CONTINUED_TOKENS = 24
#: Calibration: sequences and tokens in each.
CALIBRATION_SHAPE = (6, 512)


@dataclass(frozen=True)
class Instruments:
    """Texts, and what the unchanged model made of them.

    `ids` [1, n]; `states` [n - 1, hidden] and `losses` [n - 1] of the unchanged model; `prompts` and
    `continuations` [prompts, tokens].
    """

    ids: torch.Tensor
    states: torch.Tensor
    losses: torch.Tensor
    prompts: torch.Tensor
    continuations: torch.Tensor


@dataclass(frozen=True)
class Score:
    """A changed model. Spreads are 95 percent intervals.

    `ratio`: its perplexity over the unchanged one's, blocks of tokens resampled in pairs. `agreed`: choices,
    of `positions`, that are the unchanged model's; whole prompts resampled.
    """

    perplexity: float
    ratio: Quantity
    agreed: Quantity
    positions: int


@lru_cache(maxsize=1)
def instruments(lm: LoadedModel) -> Instruments:
    """The instruments, made once for a model in its unchanged state."""
    ids = corpus.token_ids(lm.tokenizer, "evaluation", count=EVALUATION_TOKENS).to(lm.device)
    states = quality.predicting_states(lm.model, ids)
    prompts = continuation_prompts(lm)
    return Instruments(
        ids=ids,
        states=states,
        losses=quality.losses_of(lm.model, states, ids),
        prompts=prompts,
        continuations=quality.greedy_continuations(lm.model, prompts, CONTINUED_TOKENS),
    )


def continuation_prompts(lm: LoadedModel) -> torch.Tensor:
    """The six beginnings, each cut to its first tokens: [6, PROMPT_TOKENS]."""
    text = files("cheap_inference").joinpath("data", "prompts.toml").read_text(encoding="utf-8")
    passages = tomllib.loads(text)["continuations"]["passages"]
    rows = [lm.tokenizer(passage)["input_ids"][:PROMPT_TOKENS] for passage in passages]
    return torch.tensor(rows, device=lm.device)


def calibration_ids(lm: LoadedModel) -> torch.Tensor:
    """Calibration sequences, from a range that is never evaluated: [6, 512]."""
    count = CALIBRATION_SHAPE[0] * CALIBRATION_SHAPE[1]
    return corpus.token_ids(lm.tokenizer, "calibration", count=count).view(CALIBRATION_SHAPE).to(lm.device)


def score(lm: LoadedModel, *, make_cache: Callable[[], Cache] | None = None) -> Score:
    """Judge the model as it is now. Call `instruments` before changing it."""
    tools = instruments(lm)
    losses = quality.token_losses(lm.model, tools.ids, make_cache=make_cache)
    hits = quality.agreements(lm.model, tools.prompts, tools.continuations, make_cache=make_cache)
    return score_of(tools, losses, hits)


def reference_score(lm: LoadedModel) -> Score:
    """The unchanged model on its own instruments; its losses are known already."""
    tools = instruments(lm)
    return score_of(tools, tools.losses, quality.agreements(lm.model, tools.prompts, tools.continuations))


def score_of(tools: Instruments, losses: torch.Tensor, hits: torch.Tensor) -> Score:
    """A score from losses [n - 1] and hits [prompts, tokens]."""
    ratio = quality.perplexity(losses) / quality.perplexity(tools.losses)
    ratio_interval = bootstrap.perplexity_ratio(tools.losses.tolist(), losses.tolist())
    agreed_interval = bootstrap.share_by_prompt(hits.tolist())
    return Score(
        perplexity=quality.perplexity(losses),
        ratio=bounded(ratio, "ratio", ratio_interval, n=len(losses)),
        agreed=bounded(int(hits.sum()), "positions", agreed_interval, n=hits.numel(), scale=hits.numel()),
        positions=hits.numel(),
    )


def bounded(value: float, unit: str, interval: Interval, *, n: int, scale: float = 1) -> Quantity:
    """A value with a 95 percent interval, `scale` times the one given, from `n` observations."""
    return Quantity(value, unit, interval.low * scale, interval.high * scale, n)
