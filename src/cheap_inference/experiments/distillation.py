"""Measurements of the section distillation: the same student taught on hard, soft and softened labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import torch
from torch.nn import functional

from .. import bootstrap, corpus, distillation
from ..distillation import Examples, Loss, Student
from ..models.load import LoadedModel
from ..quantity import Quantity
from .lesson import HELD_OUT_WINDOWS, TRAINING_WINDOWS, VALIDATION_WINDOWS, WINDOW, Lesson, lesson, timed

SEEDS = (0, 1, 2)
#: Of the training text, what a student with less text gets.
LESS_TEXT = 4
GRADIENT_TEMPERATURES = (1.0, 2.0, 4.0, 8.0)
#: Examples that a gradient is computed on.
GRADIENT_EXAMPLES = 1024

HardLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
SoftLoss = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]


@dataclass(frozen=True)
class Setup:
    """What was measured on. `kept`: the teacher's mean probability of the vocabulary before renormalising."""

    corpus_sha256: str
    training_tokens: int
    validation_tokens: int
    held_out_tokens: int
    held_out_scored: int
    vocabulary: int
    kept: float
    parameters: int
    context: int
    batch_size: int
    steps: int
    learning_rate: float
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Taught:
    """Students of one objective. Spreads are the lowest and the highest of the seeds around their mean.

    `cross_entropy`: held-out, nats a token; `divergence`: KL(teacher || student), nats a token; `curve`:
    validation loss after every so many steps; `best_steps`: the step kept, seed by seed.
    """

    objective: str
    temperature: float
    examples: int
    cross_entropy: Quantity
    divergence: Quantity
    curve: tuple[Quantity, ...]
    best_steps: tuple[int, ...]
    seconds: Quantity


@dataclass(frozen=True)
class Baseline:
    """Something that is not trained here, on the same held-out tokens."""

    name: str
    cross_entropy: float
    divergence: float


@dataclass(frozen=True)
class Comparison:
    """Cross-entropy of `first` minus that of `second`, with the 95 percent interval over the held-out text.

    `seeds_apart`: no seed of one lies among those of the other. `beyond`: that, and the interval leaves out zero.
    """

    first: str
    second: str
    difference: Quantity
    seeds_apart: bool
    beyond: bool


@dataclass(frozen=True)
class GradientRow:
    """Gradient norms relative to T = 1: of the bare loss and of the loss times T squared, for two students."""

    temperature: float
    fresh_bare: float
    fresh_scaled: float
    trained_bare: float
    trained_scaled: float


@dataclass(frozen=True)
class Students:
    """All that the training shows. The fourth objective is soft labels on a part of the text, 1 / `less_text` of it.

    `raised`: median number of tokens that the soft label raises in a fresh student; a hard one raises one.
    `teacher_cost`: the teacher's seconds over the training text by those of training one student on it.
    """

    setup: Setup
    checked_at: tuple[int, ...]
    taught: tuple[Taught, ...]
    less_text: int
    baselines: tuple[Baseline, ...]
    comparisons: tuple[Comparison, ...]
    gradients: tuple[GradientRow, ...]
    raised: int
    teacher_cost: Quantity
    soft_beats_hard: bool
    soft_nearer_teacher: bool


@dataclass(frozen=True)
class _Class:
    """The students of one objective, judged: losses and divergences [seeds, n] on the held-out text."""

    taught: Taught
    students: tuple[Student, ...]
    losses: torch.Tensor
    divergences: torch.Tensor


def teach_students(
    lm: LoadedModel, hard_loss: HardLoss, soft_loss: SoftLoss, *, temperature: float
) -> Students:
    """Train the same student on hard labels, on soft ones and on softened ones; losses are the notebook's own."""
    text = lesson(lm)
    hard = _teach(text, text.training, _hard(hard_loss), "hard")
    soft = _teach(text, text.training, _soft(soft_loss, 1.0), "soft")
    warm = _teach(text, text.training, _soft(soft_loss, temperature), "warm", temperature=temperature)
    part = text.training.rows(slice(len(text.training.labels) // LESS_TEXT))
    less = _teach(text, part, _soft(soft_loss, 1.0), "soft-part")
    return Students(
        setup=_setup(text, hard.students[0]),
        checked_at=tuple(range(distillation.CHECK_EVERY, distillation.STEPS + 1, distillation.CHECK_EVERY)),
        taught=(hard.taught, soft.taught, warm.taught, less.taught),
        less_text=LESS_TEXT,
        baselines=_baselines(text),
        comparisons=(
            _compare(hard, soft),
            _compare(hard, warm),
            _compare(warm, soft),
            _compare(hard, less),
        ),
        gradients=_gradients(text, hard.students[0], soft_loss),
        raised=_raised(text),
        teacher_cost=_cost(text, soft.taught),
        soft_beats_hard=all(_below(one.losses, hard.losses) for one in (soft, warm)),
        soft_nearer_teacher=all(_below(one.divergences, hard.divergences) for one in (soft, warm)),
    )


def _hard(loss: HardLoss) -> Loss:
    return lambda logits, batch: loss(logits, batch.labels)


def _soft(loss: SoftLoss, temperature: float) -> Loss:
    return lambda logits, batch: loss(logits, batch.teacher_logits, temperature)


def _teach(
    text: Lesson, training: Examples, loss: Loss, objective: str, *, temperature: float = 1.0
) -> _Class:
    """Train and judge one student a seed."""
    train = partial(distillation.train, loss, training, text.validation, vocabulary_size=len(text.vocabulary))
    runs = [timed(lambda seed=seed: train(seed=seed), training.labels.device) for seed in SEEDS]
    students = tuple(trained.student for trained, _ in runs)
    losses = torch.stack([distillation.text_losses(student, text.held_out) for student in students])
    divergences = torch.stack([distillation.divergences(student, text.held_out) for student in students])
    curves = zip(*(trained.curve for trained, _ in runs), strict=True)
    taught = Taught(
        objective=objective,
        temperature=temperature,
        examples=len(training.labels),
        cross_entropy=_over_seeds(losses.mean(dim=1).tolist()),
        divergence=_over_seeds(divergences.mean(dim=1).tolist()),
        curve=tuple(_over_seeds(values) for values in curves),
        best_steps=tuple(trained.best_step for trained, _ in runs),
        seconds=Quantity.of_samples([seconds for _, seconds in runs], unit="s"),
    )
    return _Class(taught, students, losses, divergences)


def _over_seeds(values: list[float] | tuple[float, ...]) -> Quantity:
    return Quantity(fmean(values), "nats", min(values), max(values), len(values))


def _below(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether every seed's mean of `one` [seeds, n] is below every seed's of `other`."""
    return bool(one.mean(dim=1).max() < other.mean(dim=1).min())


def _compare(first: _Class, second: _Class) -> Comparison:
    """Both classes averaged over seeds, position by position; positions resampled in blocks."""
    differences = (first.losses.mean(dim=0) - second.losses.mean(dim=0)).double().cpu().numpy()
    interval = bootstrap.interval(bootstrap.block_means(differences))
    apart = _below(first.losses, second.losses) or _below(second.losses, first.losses)
    return Comparison(
        first.taught.objective,
        second.taught.objective,
        Quantity(float(differences.mean()), "nats", interval.low, interval.high, len(differences)),
        apart,
        apart and not interval.covers(0),
    )


def _setup(text: Lesson, student: Student) -> Setup:
    return Setup(
        corpus_sha256=corpus.sha256(),
        training_tokens=TRAINING_WINDOWS * WINDOW,
        validation_tokens=VALIDATION_WINDOWS * WINDOW,
        held_out_tokens=HELD_OUT_WINDOWS * WINDOW,
        held_out_scored=len(text.held_out.labels),
        vocabulary=len(text.vocabulary),
        kept=text.kept,
        parameters=sum(parameter.numel() for parameter in student.parameters()),
        context=distillation.CONTEXT,
        batch_size=distillation.BATCH_SIZE,
        steps=distillation.STEPS,
        learning_rate=distillation.LEARNING_RATE,
        seeds=SEEDS,
    )


def _baselines(text: Lesson) -> tuple[Baseline, ...]:
    """How often each token occurs in the training text (plus one), whatever stands before it; and the teacher."""
    size = len(text.vocabulary)
    counts = torch.bincount(text.training.labels, minlength=size).float() + 1
    frequencies = (counts / counts.sum()).log()
    teacher = text.held_out.teacher_logits.log_softmax(-1)
    divergence = (teacher.exp() * (teacher - frequencies)).sum(-1).mean()
    labels = text.held_out.labels
    return (
        Baseline("frequencies", float(-frequencies[labels].mean()), float(divergence)),
        Baseline("teacher", float(functional.nll_loss(teacher, labels)), 0.0),
    )


def _gradients(text: Lesson, trained: Student, soft_loss: SoftLoss) -> tuple[GradientRow, ...]:
    batch = text.training.rows(slice(GRADIENT_EXAMPLES))
    fresh = distillation.new_student(len(text.vocabulary), seed=SEEDS[0], device=batch.labels.device)

    def norm(student: Student, temperature: float) -> float:
        loss = soft_loss(student(batch.contexts), batch.teacher_logits, temperature)
        return distillation.gradient_norm(student, loss)

    units = [norm(student, 1.0) for student in (fresh, trained)]
    rows = []
    for temperature in GRADIENT_TEMPERATURES:
        scaled = [norm(one, temperature) / unit for one, unit in zip((fresh, trained), units, strict=True)]
        bare = [value / temperature**2 for value in scaled]
        rows.append(GradientRow(temperature, bare[0], scaled[0], bare[1], scaled[1]))
    return tuple(rows)


@torch.no_grad()
def _raised(text: Lesson) -> int:
    """The gradient by a logit is the student's probability minus the teacher's: where it is negative, it rises."""
    batch = text.training.rows(slice(GRADIENT_EXAMPLES))
    fresh = distillation.new_student(len(text.vocabulary), seed=SEEDS[0], device=batch.labels.device)
    wanted, found = batch.teacher_logits.softmax(-1), fresh(batch.contexts).softmax(-1)
    return int((wanted > found).sum(-1).median())


def _cost(text: Lesson, taught: Taught) -> Quantity:
    seconds = taught.seconds
    low, middle, high = (text.teacher_seconds / one for one in (seconds.high, seconds.value, seconds.low))
    return Quantity(middle, "ratio", low, high, seconds.n)
