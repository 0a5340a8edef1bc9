"""A bigger model in 4 bits against a smaller one in 16, at nearly the same bytes and with one tokenizer.

It needs the chapter's model, its bigger sibling from the hub and a GPU; elsewhere only the bytes are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .. import battery, bootstrap, corpus, kv_cache, quality, timing
from ..cost import Shape
from ..errors import UserError
from ..generation import decode_step
from ..models.load import LoadedModel, chapter_config, load
from ..models.registry import GPU_MODEL, resolve
from ..quantity import Quantity
from ..quantize.in_place import projections, quantized
from ..quantize.schemes import INT4_GROUP128
from ..quantize.small_storage import stored_small, supported

BIGGER = "Qwen/Qwen2.5-1.5B-Instruct"
#: Its published shape (config.json on the hub), so that the bytes are known without its weights.
BIGGER_SHAPE = Shape(28, 12, 2, 128, 1536, 8960, 151_936, vectors=144_896)
EVALUATION_TOKENS = 2048
CACHED_TOKENS = 64
REPEATS = 9
MILLISECONDS = 1000
SIXTEEN_BITS = 16


@dataclass(frozen=True)
class Side:
    """One of the two. `step` None: this installation has no kernel for weights stored in 4 bits."""

    model: str
    weight_bytes: int
    perplexity: float
    correct: int
    step: Quantity | None


@dataclass(frozen=True)
class Sizes:
    """Both sides, or none where they could not be measured, and the bytes of their weights by arithmetic.

    `perplexity_ratio` is bigger over smaller, with a 95 percent interval of a paired block bootstrap.
    """

    smaller_bytes: int
    bigger_bytes: int
    questions: int
    sides: tuple[Side, ...]
    perplexity_ratio: Quantity | None


def bigger_or_smaller(spec: Any, lm: Callable[[], LoadedModel], *, device: str) -> Sizes:
    """Measure both where the chapter's model runs on a GPU and its sibling can be had; else count bytes."""
    if device == "cuda" and spec.name == GPU_MODEL:
        try:
            bigger = load(resolve(BIGGER, device=device), device=device)
        except UserError:
            return _bytes_alone()
        return compare_sizes(lm(), bigger)
    return _bytes_alone()


def _bytes_alone() -> Sizes:
    smaller = Shape.from_config(chapter_config())
    return Sizes(
        smaller.parameters * SIXTEEN_BITS // 8, int4_bytes(BIGGER_SHAPE), len(battery.questions()), (), None
    )


def int4_bytes(shape: Shape) -> int:
    """Projections in INT4 by groups of 128 with 16-bit scales, everything else in 16 bits."""
    rest = shape.parameters - shape.projection_weights
    bits = shape.projection_weights * (4 + 16 / 128) + rest * SIXTEEN_BITS
    return round(bits / 8)


@torch.inference_mode()
def compare_sizes(
    smaller: LoadedModel, bigger: LoadedModel, *, evaluation_tokens: int = EVALUATION_TOKENS
) -> Sizes:
    """Perplexity, battery and step of `smaller` as loaded and of `bigger` with its projections in INT4."""
    losses = [_losses(smaller, evaluation_tokens)]
    right = [_correct(smaller)]
    with quantized(bigger.model, INT4_GROUP128):
        losses.append(_losses(bigger, evaluation_tokens))
        right.append(_correct(bigger))
    steps = _steps(smaller, bigger)
    sizes = _stored_bytes(smaller, bits=SIXTEEN_BITS), _stored_bytes(bigger, bits=4)
    sides = tuple(
        Side(lm.spec.title, size, quality.perplexity(loss), correct, step)
        for lm, size, loss, correct, step in zip((smaller, bigger), sizes, losses, right, steps, strict=True)
    )
    found = bootstrap.perplexity_ratio(*(loss.tolist() for loss in losses))
    ratio = sides[1].perplexity / sides[0].perplexity
    interval = Quantity(ratio, "ratio", found.low, found.high, len(losses[0]))
    return Sizes(*sizes, len(battery.questions()), sides, interval)


def _losses(lm: LoadedModel, tokens: int) -> torch.Tensor:
    ids = corpus.token_ids(lm.tokenizer, "evaluation", count=tokens).to(lm.device)
    return quality.token_losses(lm.model, ids).cpu()


def _correct(lm: LoadedModel) -> int:
    asked = battery.questions()
    answers = battery.ask(lm.model, lm.tokenizer, asked, penalties=(1.0,))[0]
    return sum(battery.is_correct(question, answer) for question, answer in zip(asked, answers, strict=True))


def _stored_bytes(lm: LoadedModel, *, bits: int) -> int:
    """Weights in 16 bits, or with the projections as INT4_GROUP128 stores them."""
    matrices = [layer.weight for layer in projections(lm.model).values()]
    rest = sum(weight.numel() for weight in lm.model.parameters()) - sum(
        weight.numel() for weight in matrices
    )
    stored = (
        INT4_GROUP128.stored_bits(tuple(weight.shape)) if bits == 4 else SIXTEEN_BITS * weight.numel()
        for weight in matrices
    )
    return (sum(stored) + SIXTEEN_BITS * rest) // 8


def _steps(smaller: LoadedModel, bigger: LoadedModel) -> tuple[Quantity | None, Quantity | None]:
    """A decode step of each, in turns; the bigger one with weights really stored in 4 bits."""
    if not supported(bigger.model, bits=4):
        return None, None
    models = {"smaller": smaller.model, "bigger": stored_small(bigger.model, bits=4)}
    caches = {
        name: kv_cache.filled_cache(
            model.config, tokens=CACHED_TOKENS, dtype=model.dtype, device=smaller.device
        )
        for name, model in models.items()
    }
    token = torch.zeros(1, 1, dtype=torch.long, device=smaller.device)
    samples = timing.interleaved(
        {name: lambda name=name: decode_step(models[name], token, caches[name]) for name in models},
        repeats=REPEATS,
        device=smaller.device,
        before=lambda: [kv_cache.crop_to(cache, CACHED_TOKENS) for cache in caches.values()],
    )
    return tuple(
        Quantity.of_samples([MILLISECONDS * sample for sample in samples[name]], unit="ms") for name in models
    )
