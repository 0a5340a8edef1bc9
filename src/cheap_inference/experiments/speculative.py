"""Measurements of the section speculative: quantised drafts in the loop, beside what their agreement says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from torch import nn

from .. import bootstrap, quality
from .. import speculative as arithmetic
from ..drafts import Draw, greedy_draw, quantized_copy
from ..engine import agree
from ..kv_cache import crop_to, new_cache
from ..models.load import LoadedModel
from ..quantity import Quantity
from ..quantize.schemes import CHAPTER_SCHEMES, INT4_GROUP128, INT8_ROW, NF4_GROUP64, Scheme
from ..speculative import Round
from .instruments import CONTINUED_TOKENS, bounded, continuation_prompts
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

MAIN = NF4_GROUP64
#: The main draft runs at the wanted number of guesses on so many prompts, in turns with plain decoding.
TIMED_PROMPTS = 3
#: On the first prompt, and a shorter text, it runs at each of these too, and two other drafts at the wanted number.
EVERY_GUESSES = (1, 2, 4, 8)
OTHERS = (INT8_ROW, INT4_GROUP128)
SHORT_TOKENS = 12


@dataclass(frozen=True)
class AgreementRow:
    """A draft on the target's own text. Spreads are 95 percent intervals, whole prompts resampled.

    `agreed` of `positions` choices are the target's. `accepted` of `judged` guesses were kept in the rounds
    that the column settles; `unjudged_hits` of the positions that nobody guessed would have been right. `tokens_per_round` is their mean, rounds that the text's end cuts short left out;
    `formula_tokens` what independent guesses would give at this acceptance rate.
    """

    scheme: str
    agreed: Quantity
    positions: int
    accepted: int
    judged: int
    unjudged_hits: int
    acceptance: Quantity
    tokens_per_round: float
    formula_tokens: float


@dataclass(frozen=True)
class LiveRow:
    """A draft that really ran in the loop.

    `identical`: on every prompt the tokens are plain decoding's or first differ at a tie; `equal` counts the
    prompts without any difference. `as_walked`: the rounds are those that the agreement column settles.
    """

    scheme: str
    guesses: int
    prompts: int
    tokens: int
    rounds: int
    equal: int
    identical: bool
    as_walked: bool


@dataclass(frozen=True)
class Drafts:
    """Quantised drafts. `speedup`: tokens a second of the main draft's loop over plain decoding's, in pairs."""

    prompts: int
    prompt_tokens: int
    new_tokens: int
    guesses: int
    logit_noise: float
    agreement: tuple[AgreementRow, ...]
    live: tuple[LiveRow, ...]
    identical: bool
    main: str
    main_acceptance: float
    speedup: Quantity


@lru_cache(maxsize=1)
def main_draft(lm: LoadedModel) -> nn.Module:
    """The draft that is timed, made once."""
    return quantized_copy(lm.model, MAIN)


def run_drafts(
    lm: LoadedModel, speculate: Speculate, draft_tokens: DraftTokens, judge: Judge, *, guesses: int
) -> Drafts:
    """Every draft's agreement, three drafts in the notebook's loop, and one of them timed beside plain decoding."""
    loop = _Loop(lm, speculate, draft_tokens, judge)
    ids = continuation_prompts(lm)
    texts, timed_runs, speedups = loop.pairs(main_draft(lm), ids[:TIMED_PROMPTS].tolist(), guesses)
    others = quality.greedy_continuations(lm.model, ids[TIMED_PROMPTS:], CONTINUED_TOKENS)
    written = torch.tensor([text.tokens for text in texts], device=lm.device)
    continuations = torch.cat([written, others])  # [prompts, CONTINUED_TOKENS], the target's own text
    noise = max(check_noise(lm, text) for text in texts)
    hits, live = {}, []
    for scheme in CHAPTER_SCHEMES:
        draft = main_draft(lm) if scheme is MAIN else quantized_copy(lm.model, scheme)
        hits[scheme] = quality.agreements(draft, ids, continuations).tolist()
        row = partial(_live_row, lm, scheme.name, hits[scheme], noise)
        if scheme is MAIN:
            live.append(row(guesses, texts, timed_runs, CONTINUED_TOKENS))
        for count in _short_runs(scheme, guesses):
            runs = [loop.run(draft, texts[0], count, SHORT_TOKENS)]
            live.append(row(count, texts[:1], runs, SHORT_TOKENS))
    agreement = tuple(_agreement_row(scheme.name, rows, guesses) for scheme, rows in hits.items())
    return Drafts(
        prompts=len(ids),
        prompt_tokens=ids.shape[1],
        new_tokens=CONTINUED_TOKENS,
        guesses=guesses,
        logit_noise=noise,
        agreement=agreement,
        live=tuple(sorted(live, key=lambda row: (row.scheme != MAIN.name, row.scheme, row.guesses))),
        identical=all(row.identical for row in live),
        main=MAIN.name,
        main_acceptance=next(row.acceptance.value for row in agreement if row.scheme == MAIN.name),
        speedup=Quantity.of_samples(speedups, unit="ratio"),
    )


def _short_runs(scheme: Scheme, guesses: int) -> list[int]:
    """The numbers of guesses that a draft runs with on the first prompt alone."""
    if scheme is MAIN:
        return [count for count in EVERY_GUESSES if count != guesses]
    return [guesses] if scheme in OTHERS else []


Run = tuple[list[int], list[Round]]


class _Loop:
    """The notebook's functions, joined to a target."""

    def __init__(self, lm: LoadedModel, speculate: Speculate, draft_tokens: DraftTokens, judge: Judge):
        self.lm, self.speculate, self.draft_tokens, self.judge = lm, speculate, draft_tokens, judge
        self.draw: Draw = greedy_draw(lm.config.vocab_size)

    def pairs(
        self, draft: nn.Module, prompts: list[list[int]], guesses: int
    ) -> tuple[list[Text], list[Run], list[float]]:
        """Plain and speculative decoding of every prompt, in turns; the speculative speed over the plain one."""
        texts, runs, speedups = [], [], []
        for place, ids in enumerate(prompts):
            text = Text(ids, prefilled(self.lm.model, ids), [], torch.empty(0))
            offer = self.offers(draft, ids)
            jobs = {
                "plain": lambda text=text: decode_plainly(
                    self.lm.model, text.cache, text.ids, CONTINUED_TOKENS
                ),
                "draft": lambda text=text, offer=offer: self.run(
                    draft, text, guesses, CONTINUED_TOKENS, offer
                ),
            }
            order = list(jobs) if place % 2 else list(reversed(jobs))
            found = {name: timed(jobs[name], self.lm.device) for name in order}
            (plain_seconds, (tokens, logits)), (seconds, run) = found["plain"], found["draft"]
            texts.append(Text(ids, text.cache, tokens, logits))
            runs.append(run)
            speedups.append(len(run[0]) / seconds / (len(tokens) / plain_seconds))
        return texts, runs, speedups

    def offers(self, draft: nn.Module, ids: list[int]) -> Callable[[list[int], int], tuple]:
        """The draft as a function of the text and the number of guesses; the prompt is in its cache already."""
        cache = new_cache(draft.config)
        self.draft_tokens(draft, cache, ids, 1, self.draw)
        return lambda text, guesses: self.draft_tokens(draft, cache, text, guesses, self.draw)

    def run(
        self,
        draft: nn.Module,
        text: Text,
        guesses: int,
        new_tokens: int,
        offer: Callable | None = None,
    ) -> Run:
        offer = offer or self.offers(draft, text.ids)
        crop_to(text.cache, len(text.ids) - 1)
        made, rounds = self.speculate(
            self.lm.model,
            text.cache,
            text.ids,
            offer,
            self.judge,
            guesses=guesses,
            new_tokens=new_tokens,
        )
        return made, [Round(*one) for one in rounds]


def _live_row(
    lm: LoadedModel,
    scheme: str,
    hits: list[list[bool]],
    noise: float,
    guesses: int,
    texts: list[Text],
    runs: list[Run],
    tokens: int,
) -> LiveRow:
    answers = [
        (text.ids, text.tokens[:tokens], made[:tokens]) for text, (made, _) in zip(texts, runs, strict=True)
    ]
    rounds = [arithmetic.within(found, tokens) for _, found in runs]
    expected = [arithmetic.walk(row[:tokens], guesses) for row in hits[: len(runs)]]
    return LiveRow(
        scheme=scheme,
        guesses=guesses,
        prompts=len(runs),
        tokens=tokens * len(runs),
        rounds=sum(map(len, rounds)),
        equal=sum(plain == made for _, plain, made in answers),
        identical=all(agree(lm, ids, plain, made, noise=noise) for ids, plain, made in answers),
        as_walked=rounds == expected,
    )


def _agreement_row(scheme: str, hits: list[list[bool]], guesses: int) -> AgreementRow:
    by_text = [arithmetic.walk(row, guesses) for row in hits]
    rounds = [one for found in by_text for one in found]
    whole = [one for one in rounds if one.guessed == guesses]  # the text's end cuts some rounds short
    positions = sum(map(len, hits))
    agreed = sum(map(sum, hits))
    acceptance = arithmetic.acceptance_rate(rounds)
    judged = sum(one.judged for one in rounds)
    return AgreementRow(
        scheme=scheme,
        agreed=bounded(agreed, "positions", bootstrap.share_by_prompt(hits), n=positions, scale=positions),
        positions=positions,
        accepted=sum(one.accepted for one in rounds),
        judged=judged,
        unjudged_hits=agreed - sum(one.accepted for one in rounds),
        acceptance=bounded(acceptance, "ratio", arithmetic.acceptance_interval(by_text), n=judged),
        tokens_per_round=arithmetic.mean_tokens(whole),
        formula_tokens=arithmetic.expected_tokens(acceptance, guesses),
    )
