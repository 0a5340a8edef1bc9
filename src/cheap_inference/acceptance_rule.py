"""Is the distribution still the target's? Exact enumeration of a rule's outputs, and a chi-square test.

A rule is a pair of functions on distributions p (target) and q (draft), both [V]: `keep(p, q, token)` is the
chance that a guess drawn from q is kept, `redraw(p, q)` [V] what a refused one is replaced from. The rule
under which the output follows p is Leviathan et al.'s (arXiv:2211.17192, appendix A.1) and Chen et al.'s
(arXiv:2302.01318, theorem 1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import torch

Prefix = tuple[int, ...]
NextToken = Callable[[Prefix], torch.Tensor]  # distribution [V] of the token after a prefix
Keep = Callable[[torch.Tensor, torch.Tensor, int], float]
Redraw = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

#: Tokens rarer than this in the expected counts are thrown together: the test's approximation needs it.
LEAST_EXPECTED = 5


def enumerate_outputs(
    target: NextToken, draft: NextToken, keep: Keep, redraw: Redraw, *, guesses: int, length: int
) -> dict[Prefix, float]:
    """The exact distribution of the first `length` tokens, over everything that chance may do in the rounds."""
    waiting: dict[Prefix, float] = {(): 1.0}
    done: dict[Prefix, float] = defaultdict(float)
    while waiting:
        prefix = min(waiting, key=len)  # the shortest first: nothing can reach it any more
        chance = waiting.pop(prefix)
        for made, share in _round(target, draft, keep, redraw, prefix, guesses):
            text = (prefix + made)[:length]
            found = done if len(text) == length else waiting
            found[text] = found.get(text, 0.0) + chance * share
    return dict(done)


def _round(
    target: NextToken, draft: NextToken, keep: Keep, redraw: Redraw, prefix: Prefix, guesses: int
) -> list[tuple[Prefix, float]]:
    """What one round may add to `prefix`, with its chance."""
    outcomes = []
    for guess in product(range(len(target(prefix))), repeat=guesses):
        chance = 1.0  # that these guesses are drawn
        for i, token in enumerate(guess):
            chance *= float(draft(prefix + guess[:i])[token])
        for i, token in enumerate(guess):
            p, q = target(prefix + guess[:i]), draft(prefix + guess[:i])
            if chance == 0:
                break
            kept = float(keep(p, q, token))
            if kept < 1:
                outcomes += _followed(guess[:i], redraw(p, q), chance * (1 - kept))
            chance *= kept
        outcomes += _followed(guess, target(prefix + guess), chance)
    return outcomes


def _followed(made: Prefix, last: torch.Tensor, chance: float) -> list[tuple[Prefix, float]]:
    return [((*made, token), chance * share) for token, share in enumerate(last.tolist())]


def plain_outputs(target: NextToken, *, length: int) -> dict[Prefix, float]:
    """The distribution of the first `length` tokens when the target draws them one by one."""
    texts: dict[Prefix, float] = {(): 1.0}
    for _ in range(length):
        texts = {
            (*text, token): chance * share
            for text, chance in texts.items()
            for token, share in enumerate(target(text).tolist())
        }
    return texts


def largest_difference(one: dict[Prefix, float], other: dict[Prefix, float]) -> float:
    """Largest difference of two distributions in any outcome."""
    return max(abs(one.get(text, 0.0) - other.get(text, 0.0)) for text in one.keys() | other.keys())


@dataclass(frozen=True)
class ChiSquare:
    """Pearson's test of counts against a distribution; `p_value`: the chance of a statistic this large."""

    statistic: float
    degrees_of_freedom: int
    p_value: float


def chi_square(drawn: Sequence[int], distribution: torch.Tensor) -> ChiSquare:
    """Test drawn tokens against a distribution [V]; rare tokens are one class together."""
    expected = distribution.double() * len(drawn)
    found = torch.bincount(torch.tensor(drawn), minlength=len(expected)).double()
    own = expected >= LEAST_EXPECTED
    expected = torch.cat([expected[own], expected[~own].sum()[None]])
    found = torch.cat([found[own], found[~own].sum()[None]])
    if expected[-1] < LEAST_EXPECTED and len(expected) > 1:  # too rare even together
        expected = torch.cat([expected[:-2], expected[-2:].sum()[None]])
        found = torch.cat([found[:-2], found[-2:].sum()[None]])
    statistic = ((found - expected).square() / expected).sum()
    freedom = len(expected) - 1
    tail = torch.special.gammaincc(torch.tensor(freedom / 2, dtype=torch.float64), statistic / 2)
    return ChiSquare(float(statistic), freedom, float(tail))
