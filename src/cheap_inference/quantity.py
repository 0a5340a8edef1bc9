"""A measured value with its unit, its spread and the number of times it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True)
class Quantity:
    """One value of a record.

    `low` and `high` bound the spread (the interquartile range unless the field's documentation
    says otherwise); both are None for an exact value. `n` counts the repeats behind the value.
    """

    value: float | int | bool | str
    unit: str
    low: float | None = None
    high: float | None = None
    n: int = 1

    @classmethod
    def of_samples(cls, samples: Sequence[float], *, unit: str) -> Quantity:
        """Median and interquartile range of `samples` (at least one)."""
        if len(samples) == 1:
            return cls(samples[0], unit, samples[0], samples[0], 1)
        low, _, high = quantiles(samples, n=4, method="inclusive")
        return cls(median(samples), unit, low, high, len(samples))
