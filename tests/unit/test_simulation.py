"""Costs instead of a model: load 1, arrivals, percentiles, and the load that keeps a promise."""

from itertools import pairwise
from statistics import mean

import pytest

from cheap_inference.scheduling import Request
from cheap_inference.simulation import (
    Costs,
    capacity,
    highest_load,
    percentile,
    poisson_arrivals,
    simulate,
)

REQUESTS = [Request(index, 9) for index in range(64)]
COSTS = Costs.fixed(prefill=0.5, decode=1.0, slots=8)


def test_load_one_is_what_full_slots_serve():
    assert capacity(REQUESTS, COSTS) == pytest.approx(64 / (64 * 0.5 + 8 * 8))
    assert simulate(REQUESTS, COSTS, policy="static").seconds == pytest.approx(64 / capacity(REQUESTS, COSTS))


def test_a_server_that_drops_finished_rows_pays_for_the_occupied_ones():
    costs = Costs(0.0, (1.0, 5.0))
    schedule = simulate([Request(0, 2), Request(1, 4)], costs, policy="static")
    assert schedule.seconds == 5 + 1 + 1


def test_arrivals_have_the_rate_and_one_seed_stretches():
    many = [Request(index, 1) for index in range(4000)]
    slow, fast = (poisson_arrivals(many, rate=rate, seed=3) for rate in (2.0, 4.0))
    gaps = [b.arrival - a.arrival for a, b in pairwise(slow)]
    assert mean(gaps) == pytest.approx(0.5, rel=0.05)
    assert [r.index for r in slow] == [r.index for r in fast]
    assert slow[-1].arrival == pytest.approx(2 * fast[-1].arrival)
    assert [r.index for r in slow] != [r.index for r in poisson_arrivals(many, rate=2.0, seed=4)]


def test_percentiles_interpolate():
    values = [float(value) for value in range(101)]
    assert (percentile(values, 50), percentile(values, 95)) == (50, 95)


def test_continuous_batching_keeps_a_promise_at_a_higher_load():
    requests = [Request(index, 2 if index % 4 else 40) for index in range(64)]
    highest = {
        policy: highest_load(requests, COSTS, policy=policy, seeds=range(10), promise=20.0)
        for policy in ("static", "continuous")
    }
    assert highest["static"] < highest["continuous"] < 8
    rate = highest["continuous"] * capacity(requests, COSTS)
    for factor, keeps in ((1.0, True), (1.2, False)):
        arriving = [poisson_arrivals(requests, rate=rate * factor, seed=seed) for seed in range(10)]
        waits = [
            s.time_to_first_token for r in arriving for s in simulate(r, COSTS, policy="continuous").served
        ]
        assert (percentile(waits, 95) <= 20) is keeps
