"""Simulations of the section continuous-batching: many loads, many seeds, no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..quantity import Quantity
from ..scheduling import POLICIES, Policy, Request
from ..simulation import Costs, capacity, highest_load, poisson_arrivals, simulate
from .continuous_batching import StepCosts
from .serving import workload_requests

LOADS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5)
SEEDS = 200
SEED_GROUPS = 4  # the highest load is found once for each group of seeds, which gives its spread


@dataclass(frozen=True)
class LoadRow:
    """Static against continuous at one load (None: all at once), over seeds: median and middle half.

    Ratios above 1 favour the continuous policy. `latency_two_clocks` counts the static policy's latency
    from arrival and the continuous one's from admission.
    """

    load: float | None
    throughput: Quantity
    latency: Quantity
    latency_two_clocks: Quantity


@dataclass(frozen=True)
class Loads:
    """The gain against the load, and with a static server that stops computing finished rows."""

    seeds: int
    rows: tuple[LoadRow, ...]
    fixed_order_throughput: float
    dropping_rows_throughput: float
    dropping_rows_latency: float


@dataclass(frozen=True)
class PromiseRow:
    """The highest load of one policy under the promise; requests per second in `rate`."""

    policy: Policy
    load: Quantity
    rate: Quantity


@dataclass(frozen=True)
class Promise:
    """The 95th percentile of the time to first token is to stay within `seconds`."""

    steps: int
    seconds: float
    seeds: int
    rows: tuple[PromiseRow, ...]
    ratio: Quantity


def sweep_loads(costs: StepCosts) -> Loads:
    """The gain of the continuous policy at several loads, over orders and arrival times of many seeds."""
    requests, known = workload_requests(), fixed_costs(costs)
    fixed_order = [simulate(requests, known, policy=policy) for policy in POLICIES]
    dropping = [simulate(requests, dropping_costs(costs), policy=policy) for policy in POLICIES]
    return Loads(
        seeds=SEEDS,
        rows=tuple(_load_row(requests, known, load) for load in (*LOADS, None)),
        fixed_order_throughput=fixed_order[0].seconds / fixed_order[1].seconds,
        dropping_rows_throughput=dropping[0].seconds / dropping[1].seconds,
        dropping_rows_latency=dropping[0].mean_latency / dropping[1].mean_latency,
    )


def _load_row(requests: Sequence[Request], costs: Costs, load: float | None) -> LoadRow:
    rate = float("inf") if load is None else load * capacity(requests, costs)
    pairs = []
    for seed in range(SEEDS):
        arriving = poisson_arrivals(requests, rate=rate, seed=seed)
        pairs.append([simulate(arriving, costs, policy=policy) for policy in POLICIES])
    ratios = (
        [static.seconds / continuous.seconds for static, continuous in pairs],
        [static.mean_latency / continuous.mean_latency for static, continuous in pairs],
        [static.mean_latency / continuous.mean_latency_from_admission for static, continuous in pairs],
    )
    return LoadRow(load, *(Quantity.of_samples(samples, unit="ratio") for samples in ratios))


def loads_under_promise(costs: StepCosts, *, promised_steps: int) -> Promise:
    """The highest load at which 95 of 100 requests get their first token within `promised_steps` steps."""
    requests, known = workload_requests(), fixed_costs(costs)
    seconds = promised_steps * known.decode[-1]
    groups = [range(SEEDS)[group::SEED_GROUPS] for group in range(SEED_GROUPS)]
    found = {
        policy: [
            highest_load(requests, known, policy=policy, seeds=seeds, promise=seconds) for seeds in groups
        ]
        for policy in POLICIES
    }
    full = capacity(requests, known)
    rows = [
        PromiseRow(
            policy,
            Quantity.of_samples(loads, unit="ratio"),
            Quantity.of_samples([load * full for load in loads], unit="requests/s"),
        )
        for policy, loads in found.items()
    ]
    ratios = [more / less for less, more in zip(*found.values(), strict=True)]
    return Promise(promised_steps, seconds, SEEDS, tuple(rows), Quantity.of_samples(ratios, unit="ratio"))


def fixed_costs(costs: StepCosts) -> Costs:
    """Costs of a server whose batch keeps its shape: a step costs what all slots cost."""
    return Costs.fixed(prefill=costs.prefill.value, decode=costs.decode[-1], slots=costs.rows[-1])


def dropping_costs(costs: StepCosts) -> Costs:
    """Costs of a server that computes occupied slots only, interpolated between the measured counts."""
    decode = [_interpolated(rows, costs) for rows in range(1, costs.rows[-1] + 1)]
    return Costs(costs.prefill.value, tuple(decode))


def _interpolated(rows: int, costs: StepCosts) -> float:
    above = next(index for index, known in enumerate(costs.rows) if known >= rows)
    if costs.rows[above] == rows:
        return costs.decode[above]
    low, high = costs.rows[above - 1], costs.rows[above]
    share = (rows - low) / (high - low)
    return (1 - share) * costs.decode[above - 1] + share * costs.decode[above]
