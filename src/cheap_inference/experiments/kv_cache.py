"""Measurements of the section kv-cache: two loops, one attention head, products counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from .. import cost, memory, probes, timing
from ..generation import generate_with_margins
from ..kv_cache import forward, new_cache
from ..models.load import LoadedModel, chapter_config
from ..passage import prompt_ids
from ..quantity import Quantity

Loop = Callable[[torch.nn.Module, torch.Tensor, int], torch.Tensor]
Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

ROUNDS = 2
HEAD_REPEATS = 5
HEAD_DIM = 64
HEAD_CONTEXTS = (256, 512, 1024, 2048, 4096, 8192)
COUNTED_LENGTHS = (64, 256, 1024, 4096)
CURVE_LENGTHS = tuple(2**power for power in range(15))
COUNTED_POSITIONS = 64
FUSED_CONTEXT = 4096
MILLISECONDS = 1000
#: SmolLM2-135M, whatever model the page is run with.
DEFAULT_SHAPE = cost.Shape(
    layers=30, heads=9, kv_heads=3, head_dim=64, hidden=576, intermediate=1536, vocab=49152
)


@dataclass(frozen=True)
class Loops:
    """Both loops on the same prompt. Times in milliseconds, medians with their interquartile range."""

    prompt_tokens: int
    new_tokens: int
    identical: bool
    smallest_margin: float
    logit_noise: float
    passes: int
    positions_without: int
    positions_with: int
    speedup: Quantity
    noise: Quantity
    token_without: Quantity
    token_with: Quantity
    position_without: Quantity
    position_with: Quantity


@dataclass(frozen=True)
class HeadRow:
    """One generation step of one attention head over `context` positions, both ways."""

    context: int
    step_without: Quantity
    step_with: Quantity
    ratio: Quantity
    scores_without_bytes: int
    scores_with_bytes: int


@dataclass(frozen=True)
class MacRow:
    """Multiply-accumulates summed from a cold start to `tokens` tokens."""

    tokens: int
    with_cache: int
    without_cache: int
    ratio: float


@dataclass(frozen=True)
class StepRow:
    """Multiply-accumulates of the step at `tokens` tokens, and summed up to it."""

    tokens: int
    step_with: int
    step_without: int
    sum_with: int
    sum_without: int


@dataclass(frozen=True)
class Products:
    """Counts for one head and for the whole model, and the check against the real forward pass."""

    head_dim: int
    head_rows: tuple[MacRow, ...]
    model_rows: tuple[MacRow, ...]
    curve: tuple[StepRow, ...]
    ratio_is_closed_form: bool
    crossing_tokens: int
    crossing_tokens_chapter: int
    crossing_tokens_default: int
    positions_chapter: int
    counted_positions: int
    counted_by_formula: int
    counted_by_watching: int


@dataclass(frozen=True)
class ScoreMemory:
    """Largest allocation of attention over `context` positions, written out and fused. Bytes."""

    context: int
    explicit_bytes: int
    fused_bytes: int
    share: float


def compare_loops(
    lm: LoadedModel, without_cache: Loop, with_cache: Loop, *, prompt_tokens: int, new_tokens: int
) -> Loops:
    """Run both loops in turn, compare their tokens, and divide the times of neighbouring runs."""
    prompt = prompt_ids(lm, prompt_tokens)
    margins = generate_with_margins(lm.model, prompt, new_tokens).margins
    noise = logit_noise(lm, prompt)
    outputs: dict[str, list[int]] = {}

    def write(name: str, loop: Loop) -> None:
        outputs[name] = loop(lm.model, prompt, new_tokens).tolist()

    samples = timing.interleaved(
        {
            "with": lambda: write("with", with_cache),
            "without": lambda: write("without", without_cache),
            "with again": lambda: write("with again", with_cache),
        },
        repeats=ROUNDS,
        warmup=0,  # the margins above have warmed the model up, and the loop without a cache is long
        device=lm.device,
    )
    pair = outputs["without"], outputs["with"]
    first, second = zip(samples["with"], samples["with again"], strict=True)
    in_turn = [*first, *reversed(second)]  # the second round runs backwards
    positions = {
        cached: cost.positions_processed(prompt_tokens=prompt_tokens, new_tokens=new_tokens, cached=cached)
        for cached in (False, True)
    }
    return Loops(
        prompt_tokens=prompt_tokens,
        new_tokens=new_tokens,
        identical=pair[0] == pair[1] or first_difference_is_a_tie(*pair, margins, noise),
        smallest_margin=min(margins),
        logit_noise=noise,
        passes=new_tokens,
        positions_without=positions[False],
        positions_with=positions[True],
        speedup=timing.ratio(samples["without"] * 2, samples["with"] + samples["with again"]),
        noise=timing.ratio(in_turn[1:], in_turn[:-1]),
        token_without=milliseconds_per(samples["without"], new_tokens),
        token_with=milliseconds_per(in_turn, new_tokens),
        position_without=milliseconds_per(samples["without"], positions[False]),
        position_with=milliseconds_per(in_turn, positions[True]),
    )


@torch.inference_mode()
def logit_noise(lm: LoadedModel, prompt: torch.Tensor) -> float:
    """Largest difference between a prompt's last logits fed in one pass and fed token by token.

    The two are the same function; they differ because products of other shapes round differently.
    """
    cache = new_cache(lm.config)
    whole = forward(lm.model, prompt, logits_to_keep=1)
    for position in range(prompt.shape[1]):
        stepwise = forward(lm.model, prompt[:, position : position + 1], cache, logits_to_keep=1)
    return float((whole - stepwise).abs().max())


def first_difference_is_a_tie(one: list[int], other: list[int], margins: list[float], noise: float) -> bool:
    """Whether the first differing token was decided by less than twice the logit noise."""
    first = next(index for index, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    return margins[first] < 2 * noise


def milliseconds_per(samples: list[float], count: int) -> Quantity:
    """Seconds per run into milliseconds per item."""
    return Quantity.of_samples([MILLISECONDS * sample / count for sample in samples], unit="ms")


@dataclass(frozen=True)
class Head:
    """One attention head at several contexts."""

    head_dim: int
    rows: tuple[HeadRow, ...]
    scores_at_4096_bytes: int
    row_at_4096_bytes: int


def one_head(attention: Attention, *, device: torch.device) -> Head:
    """The newest position alone, and all positions again, of one head at several contexts."""
    scores = {queries: _real_scores(queries, FUSED_CONTEXT, device) for queries in (FUSED_CONTEXT, 1)}
    return Head(
        head_dim=HEAD_DIM,
        rows=tuple(_head_row(attention, context, device) for context in HEAD_CONTEXTS),
        scores_at_4096_bytes=scores[FUSED_CONTEXT].nbytes,
        row_at_4096_bytes=scores[1].nbytes,
    )


def _real_scores(queries: int, context: int, device: torch.device) -> torch.Tensor:
    """The scores of the last `queries` positions against all keys: [queries, context], fp32."""
    query, key, _ = _random_head(context, device)
    return query[-queries:] @ key.T


def _head_row(attention: Attention, context: int, device: torch.device) -> HeadRow:
    query, key, value = _random_head(context, device)
    samples = timing.interleaved(
        {
            "without": lambda: attention(query, key, value),
            "with": lambda: attention(query[-1:], key, value),
        },
        repeats=HEAD_REPEATS,
        warmup=1,
        device=device,
    )
    return HeadRow(
        context=context,
        step_without=milliseconds_per(samples["without"], 1),
        step_with=milliseconds_per(samples["with"], 1),
        ratio=timing.ratio(samples["without"], samples["with"]),
        scores_without_bytes=cost.score_bytes(
            queries=context, keys=context, bytes_per_element=query.element_size()
        ),
        scores_with_bytes=cost.score_bytes(queries=1, keys=context, bytes_per_element=query.element_size()),
    )


def _random_head(context: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Query, key and value of one head, each [context, head_dim]."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, context, HEAD_DIM, generator=generator).to(device).unbind()


def count_products(lm: LoadedModel) -> Products:
    """Closed forms for one head, sums for the whole model, and a count of one real forward pass."""
    shape = cost.Shape.from_config(lm.config)
    counted = COUNTED_POSITIONS
    head_rows = tuple(_head_products(tokens) for tokens in COUNTED_LENGTHS)
    return Products(
        head_dim=HEAD_DIM,
        head_rows=head_rows,
        model_rows=tuple(_model_products(shape, tokens) for tokens in COUNTED_LENGTHS),
        curve=tuple(_step_products(shape, tokens) for tokens in CURVE_LENGTHS),
        ratio_is_closed_form=all(summed_ratio(tokens) == (2 * tokens + 1) / 3 for tokens in COUNTED_LENGTHS),
        crossing_tokens=cost.attention_overtakes_linear(shape),
        crossing_tokens_chapter=cost.attention_overtakes_linear(cost.Shape.from_config(chapter_config())),
        crossing_tokens_default=cost.attention_overtakes_linear(DEFAULT_SHAPE),
        positions_chapter=cost.positions_processed(prompt_tokens=40, new_tokens=48, cached=False),
        counted_positions=counted,
        counted_by_formula=cost.pass_macs(shape, queries=counted, keys=counted),
        counted_by_watching=probes.counted_macs(lm.model, prompt_ids(lm, counted)),
    )


def summed_ratio(tokens: int) -> float:
    """One head's products without the cache over those with it, added up step by step."""
    steps = range(1, tokens + 1)
    cached = sum(cost.head_attention_macs(queries=1, keys=step, head_dim=HEAD_DIM) for step in steps)
    uncached = sum(cost.head_attention_macs(queries=step, keys=step, head_dim=HEAD_DIM) for step in steps)
    return uncached / cached


def _head_products(tokens: int) -> MacRow:
    cached = cost.cached_head_total(tokens, head_dim=HEAD_DIM)
    uncached = cost.uncached_head_total(tokens, head_dim=HEAD_DIM)
    return MacRow(tokens, cached, uncached, uncached / cached)


def _model_products(shape: cost.Shape, tokens: int) -> MacRow:
    cached, uncached = (
        cost.generation_macs(shape, prompt_tokens=1, new_tokens=tokens, cached=cached, head="none")
        for cached in (True, False)
    )
    return MacRow(tokens, cached, uncached, uncached / cached)


def _step_products(shape: cost.Shape, tokens: int) -> StepRow:
    total = _model_products(shape, tokens)
    return StepRow(
        tokens=tokens,
        step_with=cost.pass_macs(shape, queries=1, keys=tokens, head="none"),
        step_without=cost.pass_macs(shape, queries=tokens, keys=tokens, head="none"),
        sum_with=total.with_cache,
        sum_without=total.without_cache,
    )


def score_memory(attention: Attention, *, device: torch.device) -> ScoreMemory:
    """Largest single allocation of one head over 4,096 positions: written out, and fused."""
    query, key, value = _random_head(FUSED_CONTEXT, device)
    batched = [tensor[None, None] for tensor in (query, key, value)]  # [1, 1, n, d]
    explicit = memory.allocations(lambda: attention(query, key, value), device=device)
    fused = memory.allocations(lambda: functional.scaled_dot_product_attention(*batched), device=device)
    written_out, tiled = (max(block.bytes for block in blocks) for blocks in (explicit, fused))
    return ScoreMemory(FUSED_CONTEXT, written_out, tiled, tiled / written_out)
