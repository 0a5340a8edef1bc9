"""What teacher and students of the section distillation read: the text in examples, with the teacher's answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import torch

from .. import corpus, distillation
from ..distillation import Examples
from ..kv_cache import forward
from ..models.load import LoadedModel
from ..timing import synchronize

#: The teacher reads windows of so many tokens; windows of each part of the text.
WINDOW = 512
TRAINING_WINDOWS = 16
VALIDATION_WINDOWS = 2
HELD_OUT_WINDOWS = 8


@dataclass(frozen=True)
class Lesson:
    """Text cut into examples, the teacher's answers to it, and the seconds the training text took it.

    `kept`: mean probability that the teacher gives to the vocabulary, on the first held-out window.
    """

    vocabulary: torch.Tensor
    training: Examples
    validation: Examples
    held_out: Examples
    teacher_seconds: float
    kept: float


@lru_cache(maxsize=1)
def lesson(lm: LoadedModel) -> Lesson:
    """Let the teacher read the training and the held-out text, once for a model."""
    training = _windows(lm, "distillation", TRAINING_WINDOWS)
    validation = _windows(lm, "distillation", VALIDATION_WINDOWS, skip=TRAINING_WINDOWS * WINDOW)
    held_out = _windows(lm, "holdout", HELD_OUT_WINDOWS)
    vocabulary = training.unique()
    teach = partial(distillation.teacher_logits, lm.model, vocabulary=vocabulary)
    teach(training[:1, : WINDOW // 8])  # the first call is slow
    answers, seconds = timed(lambda: teach(training), lm.device)
    return Lesson(
        vocabulary,
        distillation.examples(training, vocabulary, answers),
        distillation.examples(validation, vocabulary),
        distillation.examples(held_out, vocabulary, teach(held_out)),
        seconds,
        _kept(lm, held_out[:1], vocabulary),
    )


def _windows(lm: LoadedModel, name: corpus.Range, count: int, *, skip: int = 0) -> torch.Tensor:
    ids = corpus.token_ids(lm.tokenizer, name, count=count * WINDOW, skip=skip)
    return ids.view(count, WINDOW).to(lm.device)


@torch.inference_mode()
def _kept(lm: LoadedModel, window: torch.Tensor, vocabulary: torch.Tensor) -> float:
    probabilities = forward(lm.model, window)[0].float().softmax(-1)
    return float(probabilities[:, vocabulary].sum(-1).mean())


def timed(function: Callable[[], object], device: torch.device) -> tuple:
    """What `function` returns, and the seconds it took."""
    synchronize(device)
    start = time.perf_counter()
    result = function()
    synchronize(device)
    return result, time.perf_counter() - start
