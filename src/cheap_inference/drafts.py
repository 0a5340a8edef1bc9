"""What may guess for a target: a quantised copy of it, or any model that speaks its vocabulary."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .errors import UserError
from .quantize.in_place import projections

#: From logits [V] to a token and the distribution [V] that it was drawn from (None: it was not drawn).
Draw = Callable[[torch.Tensor], tuple[int, torch.Tensor | None]]


def quantized_copy(model: nn.Module, scheme: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    """The model with rounded projections; all other weights are the model's own tensors, not copies."""
    rounded = {id(linear.weight) for linear in projections(model).values()}
    shared = {id(weight): weight for weight in model.parameters() if id(weight) not in rounded}
    draft = copy.deepcopy(model, shared)
    for linear in projections(draft).values():
        linear.weight.data = scheme(linear.weight.data)
    return draft


def common_vocabulary(target: Any, draft: Any) -> int:
    """How many token ids both loaded models know: a draft must propose no other.

    A model may have more logits than its tokenizer has tokens (padding of the matrix); those are left out.

    Raises:
        UserError: an id means different tokens to the two.
    """
    if target.tokenizer.get_vocab() != draft.tokenizer.get_vocab():
        raise UserError(
            f"{draft.spec.title} cannot guess for {target.spec.title}: their vocabularies differ. "
            "Choose a draft with the same tokenizer."
        )
    return min(
        max(target.tokenizer.get_vocab().values()) + 1, target.config.vocab_size, draft.config.vocab_size
    )


def greedy_draw(vocabulary: int) -> Draw:
    """The likeliest of the first `vocabulary` tokens."""
    return lambda logits: (int(logits[:vocabulary].argmax()), None)


def sampling_draw(*, temperature: float, vocabulary: int, width: int, generator: torch.Generator) -> Draw:
    """A token of softmax(logits / temperature), and that distribution as fp64 [width] on the CPU.

    Ids from `vocabulary` on have probability 0; `width` is the number of the target's logits.
    """

    def draw(logits: torch.Tensor) -> tuple[int, torch.Tensor]:
        q = torch.zeros(width, dtype=torch.float64)
        q[:vocabulary] = (logits[:vocabulary].double() / temperature).softmax(dim=-1).cpu()
        return int(torch.multinomial(q, 1, generator=generator)), q

    return draw


def certain(token: int, width: int) -> torch.Tensor:
    """The distribution [width] of a draft that could have proposed nothing but `token`."""
    q = torch.zeros(width, dtype=torch.float64)
    q[token] = 1
    return q
