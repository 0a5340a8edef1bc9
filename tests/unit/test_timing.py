"""Interleaving, pairing and the noise verdict, on a clock that the test moves."""

import gc
import subprocess
import sys

import pytest

from cheap_inference import timing
from cheap_inference.quantity import Quantity


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until `advance` is called."""

    class Clock:
        now = 0.0

        def advance(self, seconds):
            self.now += seconds

    clock = Clock()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock.now)
    return clock


def test_functions_take_turns_in_alternating_order(clock):
    calls = []
    functions = {name: lambda name=name: calls.append(name) for name in "AB"}
    samples = timing.interleaved(functions, repeats=3, warmup=1, device="cpu")
    assert "".join(calls) == "AB" + "AB" + "BA" + "AB"
    assert {name: len(values) for name, values in samples.items()} == {"A": 3, "B": 3}


def test_a_sample_is_the_time_of_the_call_alone(clock):
    functions = {"A": lambda: clock.advance(2), "B": lambda: clock.advance(5)}
    samples = timing.interleaved(functions, repeats=2, device="cpu", before=lambda: clock.advance(100))
    assert samples == {"A": [2, 2], "B": [5, 5]}


def test_before_runs_ahead_of_every_call_warmups_included(clock):
    calls = []
    functions = {"A": lambda: calls.append("A"), "B": lambda: calls.append("B")}
    timing.interleaved(functions, repeats=1, warmup=1, device="cpu", before=lambda: calls.append("."))
    assert "".join(calls) == ".A.B.A.B"


def test_the_device_is_synchronised_on_both_sides(clock, monkeypatch):
    calls = []
    monkeypatch.setattr(timing, "synchronize", lambda device: calls.append(device))
    timing.interleaved({"A": lambda: calls.append("run")}, repeats=1, warmup=0, device="cuda:1")
    assert calls == ["cuda:1", "run", "cuda:1"]


def test_no_garbage_is_collected_inside_a_sample_even_after_an_error():
    states = []
    timing.interleaved({"A": lambda: states.append(gc.isenabled())}, repeats=2, warmup=0, device="cpu")
    assert states == [False, False]
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        timing.interleaved({"A": lambda: 1 / 0}, repeats=1, warmup=0, device="cpu")
    assert gc.isenabled()


def test_ratios_are_taken_pair_by_pair():
    # The machine slows threefold half-way: the medians' ratio would be 2, each pair's is 4.
    quantity = timing.ratio([4, 4, 12, 12], [1, 1, 3, 3])
    assert quantity == Quantity(4.0, "ratio", 4.0, 4.0, 4)
    with pytest.raises(ValueError, match="shorter"):
        timing.ratio([1, 2], [1])


def test_the_noise_floor_is_the_ratio_of_a_thing_with_itself(clock):
    durations = iter([9, 9, 1, 2, 2, 1])  # warm-up of both, then first second | second first
    floor = timing.noise_floor(lambda: clock.advance(next(durations)), repeats=2, device="cpu")
    assert (floor.value, floor.n) == (0.5, 2)


def test_median_seconds():
    assert timing.median_seconds([1.0, 2.0, 3.0]) == Quantity(2.0, "s", 1.5, 2.5, 3)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(1.2, 1.4, True), (1.05, 1.4, False), (0.6, 0.8, True), (0.6, 0.95, False), (0.95, 1.05, False)],
)
def test_a_difference_counts_when_the_intervals_lie_apart(low, high, expected):
    floor = Quantity(1.0, "ratio", 0.9, 1.1, 9)
    assert timing.beyond_noise(Quantity((low + high) / 2, "ratio", low, high, 9), floor) is expected


@pytest.mark.parametrize("around", [0.8, 1.2])
def test_a_lopsided_floor_does_not_make_one_a_difference(around):
    floor = Quantity(around, "ratio", around - 0.05, around + 0.05, 9)
    assert not timing.beyond_noise(Quantity(1.0, "ratio", 0.98, 1.02, 9), floor)


def test_comparing_recorded_ratios_needs_no_torch():
    code = "import sys, cheap_inference.timing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
