"""What rounding costs: perplexity, per-token KL divergence, flipped choices and agreement.

Perplexity is exp of the mean loss in nats over every token after the first, each scored once with all
the context its window holds. Models are compared token by token, so the hidden states of the reference
are kept and its logits made again piece by piece: 2,048 tokens of logits would fill 400 MB.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional
from transformers import Cache

from .errors import UserError
from .generation import decode_step, prefill
from .kv_cache import forward, new_cache

#: Tokens a window holds, and how far it moves: from the second window on at least WINDOW - STRIDE
#: tokens of context precede a scored one.
WINDOW = 2048
STRIDE = 1024
#: Positions whose logits exist at the same time.
CHUNK = 256


class Comparison(NamedTuple):
    """A model beside the reference, one value a scored token.

    Attributes:
        losses: negative log-likelihood of the token, nats.
        divergences: KL(reference || model) of the whole distribution, nats.
        flips: whether the most probable token is another one.
    """

    losses: torch.Tensor
    divergences: torch.Tensor
    flips: torch.Tensor


def windows(length: int, *, window: int = WINDOW, stride: int = STRIDE) -> Iterator[tuple[int, int, int]]:
    """(start, end, first) of each window over `length` tokens: tokens first ... end - 1 are scored in it.

    Token 0 has no context and is scored nowhere; every other token once.
    """
    scored = 1
    start = 0
    while scored < length:
        end = min(start + window, length)
        yield start, end, scored
        scored, start = end, start + stride


@torch.inference_mode()
def predicting_states(
    model: nn.Module, ids: torch.Tensor, *, make_cache: Callable[[], Cache] | None = None
) -> torch.Tensor:
    """Last hidden states [n - 1, hidden] that predict tokens 1 ... n - 1 of `ids` [1, n].

    `make_cache` gives each window's pass a cache, through which its attention then reads.
    """
    pieces = []
    for start, end, first in windows(ids.shape[1]):
        hidden = _last_hidden(model, ids[:, start:end], make_cache() if make_cache else None)
        pieces.append(hidden[first - 1 - start : end - 1 - start])
    return torch.cat(pieces)


def _last_hidden(model: nn.Module, ids: torch.Tensor, cache: Cache | None) -> torch.Tensor:
    """States [n, hidden] of one window after the final normalisation.

    Raises:
        UserError: the model's logits are not its head applied to these states.
    """
    caught = []
    hook = model.get_decoder().register_forward_hook(lambda _, __, output: caught.append(output[0]))
    try:
        logits = forward(model, ids, cache, logits_to_keep=1)
    finally:
        hook.remove()
    hidden = caught[0][0]
    if not torch.allclose(logits[0, -1].float(), logits_of(model, hidden[-1:])[0], rtol=1e-3, atol=1e-3):
        raise UserError(
            "This model changes its logits after the head, which is not supported: choose another."
        )
    return hidden


def logits_of(model: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    """Logits [n, vocabulary] of last hidden states [n, hidden], fp32."""
    return model.get_output_embeddings()(hidden).float()


@torch.inference_mode()
def losses_of(model: nn.Module, states: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Loss in nats [n - 1] of tokens 1 ... n - 1 of `ids` [1, n] under their predicting states."""
    parts = zip(states.split(CHUNK), ids[0, 1:].split(CHUNK), strict=True)
    return torch.cat(
        [
            functional.cross_entropy(logits_of(model, part), targets, reduction="none")
            for part, targets in parts
        ]
    )


def token_losses(
    model: nn.Module, ids: torch.Tensor, *, make_cache: Callable[[], Cache] | None = None
) -> torch.Tensor:
    """Loss in nats of tokens 1 ... n - 1 of `ids` [1, n]: [n - 1], each given what its window holds before it."""
    return losses_of(model, predicting_states(model, ids, make_cache=make_cache), ids)


def score_tokens(before: torch.Tensor, after: torch.Tensor, targets: torch.Tensor) -> Comparison:
    """Score logits [m, V] of the reference and of a model on the tokens [m] that follow."""
    expected, found = before.log_softmax(dim=-1), after.log_softmax(dim=-1)
    return Comparison(
        losses=-found.gather(1, targets[:, None])[:, 0],
        divergences=(expected.exp() * (expected - found)).sum(dim=-1),
        flips=expected.argmax(dim=-1) != found.argmax(dim=-1),
    )


Scoring = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]


@torch.inference_mode()
def compare(
    model: nn.Module, ids: torch.Tensor, reference: torch.Tensor, *, scoring: Scoring = score_tokens
) -> Comparison:
    """The model as it is now beside the states [n - 1, hidden] that `predicting_states` gave before.

    Both go through the same output head, which no scheme of this book touches.
    """
    states = predicting_states(model, ids)
    parts = zip(*(tensor.split(CHUNK) for tensor in (reference, states, ids[0, 1:])), strict=True)
    scored = [
        scoring(logits_of(model, before), logits_of(model, after), targets)
        for before, after, targets in parts
    ]
    return Comparison(*(torch.cat(column) for column in zip(*scored, strict=True)))


def perplexity(losses: torch.Tensor) -> float:
    """exp of the mean loss."""
    return math.exp(float(losses.double().mean()))


def bits_per_byte(losses: torch.Tensor, *, text_bytes: int) -> float:
    """Bits needed per byte of the scored text, which compares across tokenizers."""
    return float(losses.double().sum()) / math.log(2) / text_bytes


@torch.inference_mode()
def greedy_continuations(model: nn.Module, prompts: torch.Tensor, new_tokens: int) -> torch.Tensor:
    """Greedy tokens [B, new_tokens] after prompts [B, P] of one length."""
    cache = new_cache(model.config)
    tokens = [prefill(model, prompts, cache).argmax(dim=-1, keepdim=True)]
    while len(tokens) < new_tokens:
        tokens.append(decode_step(model, tokens[-1], cache).argmax(dim=-1, keepdim=True))
    return torch.cat(tokens, dim=1)


@torch.inference_mode()
def agreements(
    model: nn.Module,
    prompts: torch.Tensor,
    continuations: torch.Tensor,
    *,
    make_cache: Callable[[], Cache] | None = None,
) -> torch.Tensor:
    """Where the model's own choice is the token of the continuation, given all before it: [B, new_tokens].

    One pass over prompts [B, P] with their continuations, which some other model has written.
    """
    ids = torch.cat([prompts, continuations[:, :-1]], dim=1)
    logits = forward(model, ids, make_cache() if make_cache else None, logits_to_keep=continuations.shape[1])
    return logits.argmax(dim=-1) == continuations
