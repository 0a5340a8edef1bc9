"""The scheduler driven by costs instead of a model: arrivals, loads, latencies. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log
from random import Random
from statistics import quantiles

from .scheduling import Policy, Request, Schedule, serve

BISECTIONS = 8


@dataclass(frozen=True)
class Costs:
    """Seconds of one prefill and of one decode step.

    `decode[k]` is the cost with k + 1 occupied slots; a server whose batch keeps its shape pays the
    last one whatever is occupied.
    """

    prefill: float
    decode: tuple[float, ...]

    @classmethod
    def fixed(cls, *, prefill: float, decode: float, slots: int) -> Costs:
        """Every step costs the same, however many slots are occupied."""
        return cls(prefill, (decode,) * slots)


class CostExecutor:
    """An executor that does nothing and says what it would have cost."""

    def __init__(self, costs: Costs):
        self.costs = costs
        self._occupied = 0

    def prefill(self, slot: int, request: Request) -> float:
        self._occupied += 1
        return self.costs.prefill

    def decode(self) -> float:
        return self.costs.decode[self._occupied - 1]

    def release(self, slot: int) -> None:
        self._occupied -= 1


def simulate(requests: Sequence[Request], costs: Costs, *, policy: Policy) -> Schedule:
    """Serve the requests in as many slots as `costs` knows, at those costs."""
    return serve(requests, CostExecutor(costs), slots=len(costs.decode), policy=policy)


def capacity(requests: Sequence[Request], costs: Costs) -> float:
    """Requests per second at which eight (say) always occupied slots would serve these: load 1.

    Prefills stand one after the other; decode steps are shared by all slots.
    """
    slots = len(costs.decode)
    steps = sum(request.output_tokens - 1 for request in requests) / slots
    return len(requests) / (len(requests) * costs.prefill + steps * costs.decode[-1])


def poisson_arrivals(requests: Sequence[Request], *, rate: float, seed: int) -> list[Request]:
    """The requests in an order and at times drawn by the seed, `rate` of them per second on average.

    The same seed gives the same draws at every rate, so that rates compare in pairs.
    """
    random = Random(seed)
    order = sorted(requests, key=lambda request: random.random())
    now, arriving = 0.0, []
    for request in order:
        now += -log(1 - random.random()) / rate
        arriving.append(replace(request, arrival=now))
    return arriving


def percentile(values: Sequence[float], share: int) -> float:
    """The value that `share` percent of the values do not exceed, interpolated (at least two values)."""
    return quantiles(values, n=100, method="inclusive")[share - 1]


def highest_load(
    requests: Sequence[Request], costs: Costs, *, policy: Policy, seeds: Sequence[int], promise: float
) -> float:
    """The highest load at which the 95th percentile of the time to first token keeps to `promise` seconds.

    The percentile is taken over the requests of all seeds; bisected between loads 0.005 and 8, to a
    factor of 1.03.
    """
    keeps = partial(_keeps, requests, costs, policy=policy, seeds=seeds, promise=promise)
    return _bisect(keeps, low=0.005, high=8.0)


def _keeps(
    requests: Sequence[Request],
    costs: Costs,
    load: float,
    *,
    policy: Policy,
    seeds: Sequence[int],
    promise: float,
) -> bool:
    rate = load * capacity(requests, costs)
    waits = [
        served.time_to_first_token
        for seed in seeds
        for served in simulate(poisson_arrivals(requests, rate=rate, seed=seed), costs, policy=policy).served
    ]
    return percentile(waits, 95) <= promise


def _bisect(keeps: Callable[[float], bool], *, low: float, high: float) -> float:
    """The largest value that keeps, by halving the interval on a log scale."""
    for _ in range(BISECTIONS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low
