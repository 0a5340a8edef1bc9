"""Measurement of the section distillation: what may follow one sentence, and what a temperature does to it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..kv_cache import forward
from ..models.load import LoadedModel

SENTENCE = "She poured the milk into the"
#: Tokens shown of it, ranks (from 1) drawn of it, and temperatures.
SHOWN = 5
RANKS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
TEMPERATURES = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Word:
    """A token as text and its probability."""

    text: str
    probability: float


@dataclass(frozen=True)
class Heated:
    """The distribution at one temperature: the likeliest against the third, and each rank against the first."""

    temperature: float
    first_to_third: float
    relative: tuple[float, ...]


@dataclass(frozen=True)
class NextWords:
    """What the model expects after the sentence. `square_root`: T = 2 gives the root of T = 1's ratio to 1e-9."""

    sentence: str
    words: tuple[Word, ...]
    together: float
    ranks: tuple[int, ...]
    heated: tuple[Heated, ...]
    square_root: bool


@torch.inference_mode()
def next_words(lm: LoadedModel) -> NextWords:
    """The likeliest next tokens of the sentence, and what a temperature does to their ratios."""
    ids = torch.tensor([lm.tokenizer(SENTENCE)["input_ids"]], device=lm.device)
    logits = forward(lm.model, ids, logits_to_keep=1)[0, -1].double()
    best, tokens = logits.softmax(-1).topk(SHOWN)
    words = tuple(Word(lm.tokenizer.decode([int(t)]), float(p)) for t, p in zip(tokens, best, strict=True))
    ranks = tuple(rank for rank in RANKS if rank <= len(logits))
    heated = tuple(_heated(logits.sort(descending=True).values, one, ranks) for one in TEMPERATURES)
    plain, warm = (row.first_to_third for row in heated[:2])
    return NextWords(
        SENTENCE, words, float(best.sum()), ranks, heated, square_root=abs(warm**2 / plain - 1) < 1e-9
    )


def _heated(logits: torch.Tensor, temperature: float, ranks: tuple[int, ...]) -> Heated:
    """Of logits [V] in falling order."""
    probabilities = (logits / temperature).softmax(-1)
    relative = (probabilities / probabilities[0]).tolist()
    return Heated(
        temperature,
        float(probabilities[0] / probabilities[2]),
        tuple(relative[rank - 1] for rank in ranks),
    )
