"""Measurements of the section quality: three instruments on every scheme, each with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

import torch

from .. import bootstrap, corpus, quality
from ..battery import Question, ask, is_correct, questions
from ..models.load import LoadedModel
from ..quality import Scoring
from ..quantity import Quantity
from ..quantize.in_place import projections, quantized
from ..quantize.schemes import CHAPTER_SCHEMES, INT8_ROW
from .instruments import (
    CONTINUED_TOKENS,
    PROMPT_TOKENS,
    Instruments,
    Score,
    bounded,
    instruments,
    score_of,
)

#: Without and with the repetition penalty that the chapter's model ships.
PENALTIES = (1.0, 1.1)
#: The long stretch on which INT8 per row is compared again, and the lengths asked about.
LONG_TOKENS = 4096
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
#: The difference in perplexity that the chapter reports and its text cannot resolve.
RESOLVED = 0.12


@dataclass(frozen=True)
class Marks:
    """The battery under one penalty: right answers, question by question; Wilson's interval of their number."""

    penalty: float
    right: tuple[bool, ...]
    correct: Quantity


@dataclass(frozen=True)
class SchemeRow:
    """One scheme, "float" for the reference.

    `difference`: of the perplexity to the reference's, with a paired 95 percent interval; `distinguishable`:
    the interval leaves out zero. `divergence`: mean KL to the reference in nats a token. `flips`: share of tokens whose
    most probable successor changed.
    """

    scheme: str
    weight_error: float
    score: Score
    bits_per_byte: float
    difference: Quantity
    distinguishable: bool
    divergence: float
    flips: float
    marks: tuple[Marks, ...]


@dataclass(frozen=True)
class Setup:
    """What was measured on, so that a reader can repeat it."""

    corpus_sha256: str
    tokens: int
    bytes: int
    window: int
    stride: int
    first_token_added: bool
    prompts: int
    prompt_tokens: int
    continued_tokens: int
    questions: int
    penalties: tuple[float, ...]
    block_length: int
    resamples: int
    seed: int
    vocabulary: int


@dataclass(frozen=True)
class Scores:
    """Every scheme on every instrument."""

    setup: Setup
    rows: tuple[SchemeRow, ...]


def judge_schemes(lm: LoadedModel, scoring: Scoring) -> Scores:
    """The reference and the chapter's seven schemes; `scoring` is the notebook's own function."""
    tools = instruments(lm)
    rows = [_row(lm, tools, scoring, "float", error=0.0)]
    for scheme in CHAPTER_SCHEMES:
        originals = {name: linear.weight.data for name, linear in projections(lm.model).items()}
        with quantized(lm.model, scheme):
            error = _mean_error(lm, originals)
            rows.append(_row(lm, tools, scoring, scheme.name, error=error))
    return Scores(_setup(lm, tools), tuple(rows))


def _mean_error(lm: LoadedModel, originals: dict[str, torch.Tensor]) -> float:
    """Mean of ||W - W'|| / ||W|| over the matrices as they are now."""
    errors = []
    for name, linear in projections(lm.model).items():
        before = originals[name].float()
        errors.append(float((linear.weight.data.float() - before).norm() / before.norm()))
    return fmean(errors)


def _row(lm: LoadedModel, tools: Instruments, scoring: Scoring, scheme: str, *, error: float) -> SchemeRow:
    found = quality.compare(lm.model, tools.ids, tools.states, scoring=scoring)
    hits = quality.agreements(lm.model, tools.prompts, tools.continuations)
    interval = bootstrap.perplexity_difference(tools.losses.tolist(), found.losses.tolist())
    difference = quality.perplexity(found.losses) - quality.perplexity(tools.losses)
    text_bytes = corpus.byte_count(lm.tokenizer, tools.ids[0, 1:])
    return SchemeRow(
        scheme=scheme,
        weight_error=error,
        score=score_of(tools, found.losses, hits),
        bits_per_byte=quality.bits_per_byte(found.losses, text_bytes=text_bytes),
        difference=bounded(difference, "perplexity", interval, n=len(found.losses)),
        distinguishable=not interval.covers(0),
        divergence=float(found.divergences.double().mean()),
        flips=float(found.flips.double().mean()),
        marks=mark_battery(lm, questions()),
    )


def mark_battery(lm: LoadedModel, asked: tuple[Question, ...]) -> tuple[Marks, ...]:
    """Ask all questions under every penalty and mark the answers."""
    marks = []
    answered = ask(lm.model, lm.tokenizer, asked, penalties=PENALTIES)
    for penalty, answers in zip(PENALTIES, answered, strict=True):
        right = tuple(is_correct(question, answer) for question, answer in zip(asked, answers, strict=True))
        interval = bootstrap.wilson(sum(right), len(right))
        correct = bounded(sum(right), "questions", interval, n=len(right), scale=len(right))
        marks.append(Marks(penalty, right, correct))
    return tuple(marks)


def _setup(lm: LoadedModel, tools: Instruments) -> Setup:
    return Setup(
        corpus_sha256=corpus.sha256(),
        tokens=tools.ids.shape[1],
        bytes=corpus.byte_count(lm.tokenizer, tools.ids[0, 1:]),
        window=quality.WINDOW,
        stride=quality.STRIDE,
        first_token_added=int(tools.ids[0, 0]) in lm.tokenizer.all_special_ids,
        prompts=len(tools.prompts),
        prompt_tokens=PROMPT_TOKENS,
        continued_tokens=CONTINUED_TOKENS,
        questions=len(questions()),
        penalties=PENALTIES,
        block_length=bootstrap.BLOCK_LENGTH,
        resamples=bootstrap.RESAMPLES,
        seed=bootstrap.SEED,
        vocabulary=lm.config.vocab_size,
    )


# --- how much text ---


@dataclass(frozen=True)
class LengthRow:
    """Half the width of the interval of the perplexity difference on so many tokens.

    `measured`: there were as many; else longer texts are resampled from the ones there are.
    """

    tokens: int
    half_width: float
    measured: bool


@dataclass(frozen=True)
class TextNeeded:
    """INT8 per row against full precision on the longest stretch scored.

    `tokens_needed`: so that the half-width falls to RESOLVED, by the square root of the text.
    """

    tokens: int
    reference: float
    perplexity: float
    ratio: float
    difference: Quantity
    resolved: float
    tokens_needed: int
    rows: tuple[LengthRow, ...]


def how_much_text(lm: LoadedModel) -> TextNeeded:
    """Score 4,096 tokens with and without INT8 per row, and ask how the interval shrinks."""
    ids = corpus.token_ids(lm.tokenizer, "evaluation", count=LONG_TOKENS).to(lm.device)
    before = quality.token_losses(lm.model, ids)
    with quantized(lm.model, INT8_ROW):
        after = quality.token_losses(lm.model, ids)
    pair = (before.tolist(), after.tolist())
    rows = tuple(_length_row(pair, tokens) for tokens in LENGTHS)
    longest = next(row for row in reversed(rows) if row.measured)
    return TextNeeded(
        tokens=ids.shape[1],
        reference=quality.perplexity(before),
        perplexity=quality.perplexity(after),
        ratio=quality.perplexity(after) / quality.perplexity(before),
        difference=bounded(
            quality.perplexity(after) - quality.perplexity(before),
            "perplexity",
            bootstrap.perplexity_difference(*pair),
            n=len(after),
        ),
        resolved=RESOLVED,
        tokens_needed=round(longest.tokens * (longest.half_width / RESOLVED) ** 2),
        rows=rows,
    )


def _length_row(pair: tuple[list[float], list[float]], tokens: int) -> LengthRow:
    interval = bootstrap.perplexity_difference(*pair, tokens=tokens)
    return LengthRow(tokens, (interval.high - interval.low) / 2, tokens <= LONG_TOKENS)
