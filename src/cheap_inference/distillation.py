"""Distillation: a student that reads four tokens, the two losses it can learn from, and its training.

The student is Bengio et al.'s network (JMLR 3, 2003); the losses are those of Hinton et al.
(arXiv:1503.02531). Everything speaks a restricted vocabulary of V tokens, those of the training text:
a softmax over the teacher's logits of these tokens is the teacher renormalised over them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from . import quality

#: Tokens that the student reads, the width of an embedding and of its hidden layer.
CONTEXT = 4
WIDTH = 64
HIDDEN = 128
#: One recipe for every objective.
LEARNING_RATE = 5e-3
BATCH_SIZE = 256
STEPS = 200
#: The validation loss is looked at after so many steps.
CHECK_EVERY = 20


class Examples(NamedTuple):
    """What a student learns from or is judged on, one row a position.

    Attributes:
        contexts: the CONTEXT tokens before it [n, CONTEXT]; V stands for a token outside the vocabulary.
        labels: the token that the text has there [n].
        teacher_logits: the teacher's logits of the vocabulary there [n, V], None where none are needed.
    """

    contexts: torch.Tensor
    labels: torch.Tensor
    teacher_logits: torch.Tensor | None

    def rows(self, index: torch.Tensor | slice) -> Examples:
        """Some of the rows."""
        return Examples(*(None if column is None else column[index] for column in self))


Loss = Callable[[torch.Tensor, Examples], torch.Tensor]


# --- text and teacher ---


def restrict(ids: torch.Tensor, vocabulary: torch.Tensor) -> torch.Tensor:
    """Places of `ids` in the sorted `vocabulary` [V]; V for a token that is not in it."""
    places = torch.searchsorted(vocabulary, ids).clamp(max=len(vocabulary) - 1)
    return torch.where(vocabulary[places] == ids, places, len(vocabulary))


@torch.no_grad()
def teacher_logits(model: nn.Module, windows: torch.Tensor, vocabulary: torch.Tensor) -> torch.Tensor:
    """Logits [W, L - 1, V] of the tokens 1 ... L - 1 of each window [W, L], fp32.

    Only the V rows of the output head that are wanted are multiplied.

    Raises:
        UserError: the model's logits are not its head applied to its last states.
    """
    head = model.get_output_embeddings()
    bias = getattr(head, "bias", None)
    rows = head.weight[vocabulary], None if bias is None else bias[vocabulary]
    states = (quality.predicting_states(model, window[None]) for window in windows)
    return torch.stack([functional.linear(one, *rows).float() for one in states])


def examples(windows: torch.Tensor, vocabulary: torch.Tensor, logits: torch.Tensor | None = None) -> Examples:
    """Every position of the windows [W, L] that has CONTEXT tokens before it and a label in the vocabulary."""
    runs = restrict(windows, vocabulary).unfold(1, CONTEXT + 1, 1).flatten(0, 1)  # [n, CONTEXT + 1]
    known = runs[:, -1] < len(vocabulary)
    taught = None if logits is None else logits[:, CONTEXT - 1 :].flatten(0, 1)[known]
    return Examples(runs[known, :-1], runs[known, -1], taught)


# --- losses ---


def hard_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy, in nats, of logits [B, V] against the one token [B] that the text has."""
    return functional.cross_entropy(logits, labels)


def soft_loss(logits: torch.Tensor, teacher_logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Cross-entropy of logits [B, V] against the teacher's whole distribution, both at `temperature`.

    Times the temperature squared, which keeps the gradient's size (Hinton et al., section 2).
    """
    targets = (teacher_logits / temperature).softmax(dim=-1)
    return temperature**2 * functional.cross_entropy(logits / temperature, targets)


# --- student and training ---


class Student(nn.Module):
    """Logits [n, V] of the next token from the last CONTEXT tokens [n, CONTEXT]."""

    def __init__(self, vocabulary_size: int):
        super().__init__()
        # Index V is every unknown token: a row of zeros that is never trained.
        self.embedding = nn.Embedding(vocabulary_size + 1, WIDTH, padding_idx=vocabulary_size)
        self.hidden = nn.Linear(CONTEXT * WIDTH, HIDDEN)
        self.output = nn.Linear(HIDDEN, vocabulary_size)

    def forward(self, contexts: torch.Tensor) -> torch.Tensor:
        return self.output(self.hidden(self.embedding(contexts).flatten(1)).tanh())


def new_student(vocabulary_size: int, *, seed: int, device: torch.device) -> Student:
    """An untrained student, the same for the same seed; the caller's random state is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Student(vocabulary_size).to(device)


class Trained(NamedTuple):
    """The student of the step with the lowest validation loss, and that loss after every CHECK_EVERY steps."""

    student: Student
    curve: list[float]

    @property
    def best_step(self) -> int:
        return CHECK_EVERY * (1 + self.curve.index(min(self.curve)))


def train(loss: Loss, lessons: Examples, validation: Examples, *, vocabulary_size: int, seed: int) -> Trained:
    """Train a student on `lessons` for STEPS steps and keep it as it was at its best on `validation`.

    The loss gets the logits [B, V] and the rows they belong to. The validation loss is the
    cross-entropy of the text itself, whatever was learned from.
    """
    student = new_student(vocabulary_size, seed=seed, device=lessons.contexts.device)
    optimizer = torch.optim.AdamW(student.parameters(), LEARNING_RATE, fused=True)
    best, curve = student, []
    for step, rows in enumerate(batches(len(lessons.labels), seed=seed), start=1):
        batch = lessons.rows(rows.to(lessons.contexts.device))
        optimizer.zero_grad()
        loss(student(batch.contexts), batch).backward()
        optimizer.step()
        if step % CHECK_EVERY == 0:
            curve.append(float(text_losses(student, validation).mean()))
            if curve[-1] == min(curve):
                best = copy.deepcopy(student)
    return Trained(best, curve)


def batches(count: int, *, seed: int) -> tuple[torch.Tensor, ...]:
    """STEPS batches of row numbers below `count`: shuffled passes over all of them, one after the other."""
    generator = torch.Generator().manual_seed(seed)
    passes = math.ceil(STEPS * BATCH_SIZE / count)
    order = torch.cat([torch.randperm(count, generator=generator) for _ in range(passes)])
    return order[: STEPS * BATCH_SIZE].split(BATCH_SIZE)


# --- judging ---


@torch.no_grad()
def text_losses(student: Student, judged: Examples) -> torch.Tensor:
    """Loss in nats [n] of the text's own tokens."""
    return functional.cross_entropy(student(judged.contexts), judged.labels, reduction="none")


@torch.no_grad()
def divergences(student: Student, judged: Examples) -> torch.Tensor:
    """KL(teacher || student) in nats [n] at every position."""
    found, expected = student(judged.contexts).log_softmax(-1), judged.teacher_logits.log_softmax(-1)
    return (expected.exp() * (expected - found)).sum(dim=-1)


def gradient_norm(student: Student, loss: torch.Tensor) -> float:
    """Euclidean length of the gradient of `loss` over all of the student's parameters."""
    gradients = torch.autograd.grad(loss, list(student.parameters()))
    return float(torch.cat([gradient.flatten() for gradient in gradients]).norm())
