"""How far a score could lie from the truth: Wilson's interval and bootstraps over what is dependent.

Neighbouring tokens are not independent draws, so perplexity is resampled in blocks of consecutive
tokens; answers to the same prompt belong together, so agreement is resampled by prompt. Two models are
compared on the same resample. Everything is seeded, so a record can be made again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Tokens in a block, resamples and seed of every bootstrap in the book.
BLOCK_LENGTH = 32
RESAMPLES = 2000
SEED = 20_250_101
#: Two-sided 95 percent.
LEVEL = 0.95
Z = 1.959963984540054


@dataclass(frozen=True)
class Interval:
    """A 95 percent interval."""

    low: float
    high: float

    def covers(self, value: float) -> bool:
        """Whether `value` lies inside, ends included."""
        return self.low <= value <= self.high


def wilson(successes: int, trials: int) -> Interval:
    """Wilson's score interval of a share (Wilson 1927): sensible at 0 and at all of `trials`, too."""
    share = successes / trials
    denominator = 1 + Z**2 / trials
    centre = (share + Z**2 / (2 * trials)) / denominator
    reach = Z * math.sqrt(share * (1 - share) / trials + Z**2 / (4 * trials**2)) / denominator
    return Interval(max(0.0, centre - reach), min(1.0, centre + reach))


def block_means(
    values: np.ndarray, *, tokens: int | None = None, block_length: int = BLOCK_LENGTH, seed: int = SEED
) -> np.ndarray:
    """Bootstrap means of `values` [n] or [k, n], resampled in blocks: [RESAMPLES] or [k, RESAMPLES].

    Blocks start anywhere and wrap around (circular block bootstrap, Politis and Romano 1992). All k rows
    use the same blocks. `tokens`: length of a resample, n unless another amount of text is asked about.
    """
    length = values.shape[-1]
    count = math.ceil((tokens or length) / block_length)
    starts = np.random.default_rng(seed).integers(length, size=(RESAMPLES, count))
    wrapped = np.concatenate([values, values[..., : block_length - 1]], axis=-1)
    sums = np.cumsum(np.concatenate([np.zeros_like(wrapped[..., :1]), wrapped], axis=-1), axis=-1)
    blocks = sums[..., block_length:] - sums[..., :-block_length]  # [..., n], the sum from each start
    return blocks[..., starts].mean(axis=-1) / block_length


def perplexity_difference(
    reference: Sequence[float], other: Sequence[float], *, tokens: int | None = None
) -> Interval:
    """Interval of perplexity(other) - perplexity(reference), both losses of the same tokens in nats."""
    first, second = np.exp(block_means(np.array([reference, other], dtype=float), tokens=tokens))
    return interval(second - first)


def perplexity_ratio(reference: Sequence[float], other: Sequence[float]) -> Interval:
    """Interval of perplexity(other) / perplexity(reference)."""
    difference = np.subtract(other, reference, dtype=float)
    return interval(np.exp(block_means(difference)))


def share_by_prompt(hits: Sequence[Sequence[bool]]) -> Interval:
    """Interval of a share of hits [prompts][tokens], whole prompts resampled."""
    shares = np.array([np.mean(row) for row in hits])
    picks = np.random.default_rng(SEED).integers(len(shares), size=(RESAMPLES, len(shares)))
    return interval(shares[picks].mean(axis=1))


def interval(samples: np.ndarray) -> Interval:
    """The middle 95 percent of bootstrap samples."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(samples, [tail, 1 - tail])
    return Interval(float(low), float(high))
