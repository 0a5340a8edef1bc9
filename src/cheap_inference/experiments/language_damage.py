"""What rounding the weights to INT4 does to a text in each language: choices that change, and bits that are lost.

Agreement is taken over the passages themselves: at every token after the first, given the tokens before it, is the
rounded model's most probable token the unrounded one's? Tokens of different languages hold different amounts of
text, so beside it stands what the whole text costs in bits, which compares across tokens and languages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from .. import bootstrap, quality
from ..models.load import LoadedModel
from ..passages import ENGLISH, parallel_text
from ..quantity import Quantity
from ..quantize.in_place import quantized
from ..quantize.schemes import INT4_GROUP128
from .instruments import bounded

#: Last hidden states [n - 1, hidden] by language and passage.
States = dict[tuple[str, int], torch.Tensor]

#: Every passage is cut into so many parts, the same share of the text in every language, which are resampled.
PARTS = 8
#: Columns of what is counted in a part.
TOKENS, SAME, BEFORE, AFTER = range(4)


@dataclass(frozen=True)
class DamageRow:
    """One language; spreads are 95 percent intervals of parts drawn again, the same parts in every language.

    `agreed` is a share of `positions`, `agreed_to_english` that share over the English one. `bits` is what the
    unrounded model needs for a character of the text, `more_bits` the rounded one's bits over these, and
    `more_bits_to_english` that ratio over the English one. `agreement_differs` and `bits_differ`: the interval of
    the comparison with English leaves out 1; None for English.
    """

    language: str
    positions: int
    agreed: Quantity
    agreed_to_english: Quantity
    agreement_differs: bool | None
    bits: float
    more_bits: Quantity
    more_bits_to_english: Quantity
    bits_differ: bool | None


@dataclass(frozen=True)
class Damage:
    """INT4 in groups of 128 on every language."""

    scheme: str
    parts: int
    resamples: int
    rows: tuple[DamageRow, ...]


@torch.inference_mode()
def compare_rounded(lm: LoadedModel, ids: dict[tuple[str, int], torch.Tensor], states: States) -> Damage:
    """Read tokens [1, n] again with rounded weights; `states` are those of the weights as loaded."""
    with quantized(lm.model, INT4_GROUP128):
        after = {key: quality.predicting_states(lm.model, tokens) for key, tokens in ids.items()}
    counted: dict[str, list[np.ndarray]] = {language: [] for language, _ in ids}
    for key, tokens in ids.items():
        scores = score_positions(lm, states[key], after[key], tokens[0, 1:])
        counted[key[0]] += [part.sum(axis=0) for part in np.array_split(scores, PARTS)]
    passages = 1 + max(i for _, i in ids)
    characters = {
        language: sum(map(len, texts[:passages])) for language, texts in parallel_text().passages.items()
    }
    return Damage(
        scheme=INT4_GROUP128.name,
        parts=passages * PARTS,
        resamples=bootstrap.RESAMPLES,
        rows=damage_rows({language: np.stack(parts) for language, parts in counted.items()}, characters),
    )


def score_positions(
    lm: LoadedModel, before: torch.Tensor, after: torch.Tensor, targets: torch.Tensor
) -> np.ndarray:
    """[n - 1, 4]: one, whether the choices agree, and the bits of the text's own token before and after."""
    rows = []
    for old, new, wanted in zip(*(t.split(quality.CHUNK) for t in (before, after, targets)), strict=True):
        logits = [quality.logits_of(lm.model, hidden) for hidden in (old, new)]
        losses = [
            functional.cross_entropy(each, wanted, reduction="none").double() / math.log(2) for each in logits
        ]
        same = (logits[0].argmax(dim=-1) == logits[1].argmax(dim=-1)).double()
        rows.append(torch.stack([torch.ones_like(same), same, *losses], dim=1))
    return torch.cat(rows).cpu().numpy()


def damage_rows(counted: dict[str, np.ndarray], characters: dict[str, int]) -> tuple[DamageRow, ...]:
    """Rows from what was counted in each part, [parts, 4] by language, with as many parts for all.

    Parts are parallel: the same ones are drawn in two languages that are compared.
    """
    parts = len(counted[ENGLISH])
    picks = np.random.default_rng(bootstrap.SEED).integers(parts, size=(bootstrap.RESAMPLES, parts))
    drawn = {language: rows[picks].sum(axis=1) for language, rows in counted.items()}  # [RESAMPLES, 4]
    sums = {language: rows.sum(axis=0) for language, rows in counted.items()}
    return tuple(_damage_row(language, sums, drawn, characters[language]) for language in counted)


def _damage_row(language: str, sums: dict, drawn: dict, characters: int) -> DamageRow:
    positions = int(sums[language][TOKENS])
    agreed, agreed_to_english = _share(sums, drawn, language, SAME, TOKENS, positions)
    more, more_to_english = _share(sums, drawn, language, AFTER, BEFORE, positions)
    return DamageRow(
        language=language,
        positions=positions,
        agreed=agreed,
        agreed_to_english=agreed_to_english,
        agreement_differs=None if language == ENGLISH else _apart_from_one(agreed_to_english),
        bits=float(sums[language][BEFORE]) / characters,
        more_bits=more,
        more_bits_to_english=more_to_english,
        bits_differ=None if language == ENGLISH else _apart_from_one(more_to_english),
    )


def _share(
    sums: dict, drawn: dict, language: str, above: int, below: int, positions: int
) -> tuple[Quantity, Quantity]:
    """One column over another, and that over the same of English, with their intervals."""
    value, english = (float(sums[code][above] / sums[code][below]) for code in (language, ENGLISH))
    samples, of_english = (drawn[code][:, above] / drawn[code][:, below] for code in (language, ENGLISH))
    return (
        bounded(value, "ratio", bootstrap.interval(samples), n=positions),
        bounded(value / english, "ratio", bootstrap.interval(samples / of_english), n=positions),
    )


def _apart_from_one(ratio: Quantity) -> bool:
    return not ratio.low <= 1 <= ratio.high
