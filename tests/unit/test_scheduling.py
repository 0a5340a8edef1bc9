"""The scheduler: both policies by hand-worked cases, arrivals, and the rules that executors share."""

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cheap_inference.errors import UserError
from cheap_inference.scheduling import POLICIES, Request, Scheduler, Stay, admit, serve, take_turns
from cheap_inference.workload import output_lengths


class Steady:
    """Prefills and steps of fixed cost, counted; notes what is in the slots."""

    def __init__(self, prefill=0.0, decode=1.0):
        self.costs = (prefill, decode)
        self.occupied = {}
        self.done = Counter()

    def prefill(self, slot, request):
        assert slot not in self.occupied, "a slot was given away twice"
        self.occupied[slot] = request.index
        self.done[request.index] += 1
        return self.costs[0]

    def decode(self):
        self.done.update(self.occupied.values())
        return self.costs[1]

    def release(self, slot):
        del self.occupied[slot]


def requests(*lengths, arrivals=None):
    arrivals = arrivals or [0.0] * len(lengths)
    pairs = zip(lengths, arrivals, strict=True)
    return [Request(index, length, arrival=arrival) for index, (length, arrival) in enumerate(pairs)]


def finished(schedule):
    return [served.finished for served in schedule.served]


def test_a_static_batch_waits_for_its_longest():
    schedule = serve(requests(3, 5, 2, 2), Steady(), slots=2, policy="static")
    assert finished(schedule) == [2, 4, 5, 5]
    assert schedule.steps == 5
    assert schedule.stays == (Stay(0, 0, 0, 2), Stay(1, 1, 0, 4), Stay(2, 0, 4, 5), Stay(3, 1, 4, 5))


def test_a_freed_slot_admits_at_the_next_step():
    schedule = serve(requests(3, 5, 2, 2), Steady(), slots=2, policy="continuous")
    assert finished(schedule) == [2, 4, 3, 4]
    assert schedule.steps == 4
    assert schedule.utilisation == 1


def test_one_token_is_done_at_the_prefill_and_its_slot_is_filled_again():
    schedule = serve(requests(1, 1, 1, 3), Steady(prefill=1), slots=1, policy="continuous")
    assert finished(schedule) == [1, 2, 3, 6]
    assert schedule.steps == 2
    assert schedule.stays[0] == Stay(0, 0, 0, 0)


def test_a_static_batch_is_closed_even_where_one_token_frees_a_slot():
    schedule = serve(requests(1, 3, 2), Steady(), slots=2, policy="static")
    assert finished(schedule) == [0, 2, 3]


def test_prefills_stand_in_line_and_hold_up_the_others():
    schedule = serve(requests(2, 2), Steady(prefill=10), slots=2, policy="continuous")
    assert [served.first_token for served in schedule.served] == [10, 20]
    assert finished(schedule) == [21, 21]


def test_the_clock_jumps_over_idle_time_and_waits_count_from_arrival():
    late = requests(2, 2, 2, arrivals=[0.0, 0.5, 50.0])
    schedule = serve(late, Steady(prefill=1), slots=1, policy="continuous")
    first, second, third = schedule.served
    assert (first.latency, third.latency) == (2, 2)
    assert second.time_to_first_token == 2.5
    assert second.latency - second.latency_from_admission == 1.5
    assert schedule.seconds == 52


def test_requests_are_served_in_order_of_arrival():
    schedule = serve(requests(2, 2, arrivals=[9.0, 1.0]), Steady(), slots=1, policy="static")
    assert finished(schedule) == [10, 2]


def test_a_static_batch_takes_those_that_wait_and_does_not_wait_for_a_full_one():
    schedule = serve(requests(4, 2, 2, arrivals=[0.0, 1.0, 1.0]), Steady(), slots=8, policy="static")
    assert finished(schedule) == [3, 4, 4]


def test_the_rule_leaves_the_queue_alone_where_nothing_is_free():
    waiting = deque(requests(2, 2))
    assert admit("continuous", waiting, [waiting[0], waiting[1]]) == []
    assert admit("static", waiting, [None, waiting[0]]) == []
    assert len(waiting) == 2


@pytest.mark.parametrize("policy", POLICIES)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=30),
    gaps=st.lists(st.floats(0, 5), min_size=30, max_size=30),
    slots=st.integers(1, 6),
)
def test_every_request_gets_exactly_its_tokens(policy, lengths, gaps, slots):
    arrivals = [sum(gaps[:index]) for index in range(len(lengths))]
    executor = Steady(prefill=0.5)
    schedule = serve(requests(*lengths, arrivals=arrivals), executor, slots=slots, policy=policy)
    assert [executor.done[index] for index in range(len(lengths))] == lengths
    assert executor.occupied == {}
    assert all(0 <= s.request.arrival <= s.admitted < s.first_token <= s.finished for s in schedule.served)


def test_steps_of_the_workload():
    steps = {
        policy: serve(requests(*output_lengths()), Steady(), slots=8, policy=policy).steps
        for policy in POLICIES
    }
    batches = [output_lengths()[first : first + 8] for first in range(0, 64, 8)]
    assert steps["static"] == sum(max(batch) - 1 for batch in batches) == 700
    assert steps["continuous"] == 292


def test_nothing_to_serve_is_refused():
    for bad, slots in (([], 8), (requests(0), 8), (requests(2), 0)):
        with pytest.raises(UserError, match="at least one"):
            serve(bad, Steady(), slots=slots, policy="static")


def test_schedulers_that_take_turns_do_what_they_do_alone():
    together = [
        Scheduler(requests(*output_lengths()), Steady(), slots=8, policy=policy) for policy in POLICIES
    ]
    alone = [serve(requests(*output_lengths()), Steady(), slots=8, policy=policy) for policy in POLICIES]
    assert take_turns(together) == alone


def test_the_one_furthest_behind_has_its_turn():
    slow = Scheduler(requests(9, 9, 9), Steady(), slots=1, policy="continuous")
    fast = Scheduler(requests(3, 3, 3), Steady(), slots=1, policy="continuous")
    while not fast.done:
        assert abs(fast.progress - slow.progress) <= 1 / 3 + 1e-9
        min((slow, fast), key=lambda scheduler: scheduler.progress).advance()
