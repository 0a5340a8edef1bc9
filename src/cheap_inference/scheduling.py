"""Which request gets a slot, and when: one scheduler for the simulator and for the engine. No torch.

The scheduler knows requests, slots and a clock; what a prefill or a step costs, its executor tells it.
Rules that every executor shares: an answer's length counts the token that its prefill gives, so L
tokens take L - 1 decode steps and a request of one token frees its slot at once; end-of-text is
ignored; prefills are done one request at a time while the other slots stand still. Continuous
batching: Yu et al., Orca, OSDI 2022.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, Protocol

from .errors import UserError

Policy = Literal["static", "continuous"]
POLICIES: tuple[Policy, ...] = ("static", "continuous")


@dataclass(frozen=True)
class Request:
    """One request: what it asks for and when it comes (seconds on the schedule's clock)."""

    index: int
    output_tokens: int
    prompt_tokens: int = 1
    arrival: float = 0.0


@dataclass(frozen=True)
class Served:
    """A request and what became of it. Times in seconds on the schedule's clock."""

    request: Request
    admitted: float
    first_token: float
    finished: float

    @property
    def latency(self) -> float:
        """Seconds from arrival to the last token."""
        return self.finished - self.request.arrival

    @property
    def latency_from_admission(self) -> float:
        """Seconds from getting a slot to the last token: the wait in the queue is left out."""
        return self.finished - self.admitted

    @property
    def time_to_first_token(self) -> float:
        """Seconds from arrival to the first token."""
        return self.first_token - self.request.arrival


@dataclass(frozen=True)
class Stay:
    """A request in a slot, from before decode step `first_step` to after step `last_step` (exclusive)."""

    index: int
    slot: int
    first_step: int
    last_step: int


@dataclass(frozen=True)
class Schedule:
    """What a run did: requests by index, stays in slots in order of their end, steps and seconds."""

    slots: int
    served: tuple[Served, ...]
    stays: tuple[Stay, ...]
    steps: int
    seconds: float

    @property
    def tokens(self) -> int:
        """Output tokens of all requests."""
        return sum(served.request.output_tokens for served in self.served)

    @property
    def throughput(self) -> float:
        """Output tokens per second from the start to the last token."""
        return self.tokens / self.seconds

    @property
    def mean_latency(self) -> float:
        """Seconds from a request's arrival to its last token, averaged over requests."""
        return fmean(served.latency for served in self.served)

    @property
    def mean_latency_from_admission(self) -> float:
        """As `mean_latency`, counted from getting a slot."""
        return fmean(served.latency_from_admission for served in self.served)

    @property
    def utilisation(self) -> float:
        """Share of the slot steps of all decode steps in which a slot made a token that was asked for."""
        busy = sum(stay.last_step - stay.first_step for stay in self.stays)
        return busy / (self.slots * self.steps) if self.steps else 1.0


class Executor(Protocol):
    """Does the work, or only says what it costs. The seconds returned move the schedule's clock."""

    def prefill(self, slot: int, request: Request) -> float:
        """Put the request into the slot and make its next token."""

    def decode(self) -> float:
        """Make one token for every occupied slot."""

    def release(self, slot: int) -> None:
        """Empty the slot."""


AdmissionRule = Callable[[Policy, deque[Request], Sequence["Request | None"]], list[tuple[int, Request]]]


def admit(policy, waiting, slots):
    """The (slot, request) pairs to prefill now; admitted requests leave the queue.

    Continuous: every free slot takes the next request. Static: the requests that wait form a batch, as
    many as there are slots, only when all slots are free; the batch closes as it forms.
    """
    free = [slot for slot, request in enumerate(slots) if request is None]
    if policy == "static" and len(free) < len(slots):
        return []
    return [(slot, waiting.popleft()) for slot in free[: len(waiting)]]


class Scheduler:
    """Runs requests through slots under one policy. Made for one run."""

    def __init__(
        self,
        requests: Sequence[Request],
        executor: Executor,
        *,
        slots: int,
        policy: Policy,
        rule: AdmissionRule = admit,
    ):
        """Raises UserError where there is nothing to serve or nowhere to serve it."""
        if slots < 1 or not requests or min(request.output_tokens for request in requests) < 1:
            raise UserError("A schedule needs at least one slot, one request, and one token a request.")
        self.executor, self.policy, self.rule = executor, policy, rule
        self.slots: list[Request | None] = [None] * slots
        self.waiting: deque[Request] = deque()
        self.clock, self.steps = 0.0, 0
        self._requests = len(requests)
        self._coming = deque(sorted(requests, key=lambda request: request.arrival))
        self._ends: dict[int, int] = {}  # slot -> step after which it is free
        self._since: dict[int, int] = {}  # slot -> step before which it was filled
        self._served: dict[int, Served] = {}
        self._stays: list[Stay] = []

    def run(self) -> Schedule:
        """Serve every request."""
        while not self.done:
            self.advance()
        return self.schedule()

    @property
    def done(self) -> bool:
        """Whether every request has been served."""
        return not (self._coming or self.waiting or self._ends)

    @property
    def progress(self) -> float:
        """Requests served, as a share of all; those in slots count for none."""
        return 1 - (len(self._coming) + len(self.waiting) + len(self._ends)) / self._requests

    def advance(self) -> None:
        """Fill the free slots and take one decode step; where there is nothing to do, skip to an arrival."""
        self._receive()
        self.fill_slots()
        if self._ends:
            self.step()
        elif self._coming:
            self.clock = max(self.clock, self._coming[0].arrival)

    def schedule(self) -> Schedule:
        """What has been done, once all is."""
        served = tuple(self._served[index] for index in sorted(self._served))
        return Schedule(len(self.slots), served, tuple(self._stays), self.steps, self.clock)

    def fill_slots(self) -> None:
        """Admit until the rule has nobody more; a request of one token frees its slot for the next."""
        while self.waiting and (pairs := self.rule(self.policy, self.waiting, self.slots)):
            for slot, request in pairs:
                self.place(slot, request, still_to_make=request.output_tokens)

    def place(self, slot: int, request: Request, *, still_to_make: int) -> None:
        """Prefill the request in the slot: it gets one of the tokens `still_to_make` by that."""
        self.slots[slot] = request
        admitted = self.clock
        self.clock += self.executor.prefill(slot, request)
        self._served.setdefault(request.index, Served(request, admitted, self.clock, self.clock))
        self._since[slot] = self.steps
        self._ends[slot] = self.steps + still_to_make - 1
        if still_to_make == 1:
            self._finish(slot)

    def step(self) -> None:
        """One decode step; slots whose request is done become free."""
        self.clock += self.executor.decode()
        self.steps += 1
        if self.steps in self._ends.values():
            for slot in [slot for slot, end in self._ends.items() if end == self.steps]:
                self._finish(slot)

    def vacate(self, slot: int) -> Request:
        """Empty the slot, its request done or not, and return the request."""
        request = self.slots[slot]
        self.executor.release(slot)
        self._stays.append(Stay(request.index, slot, self._since.pop(slot), self.steps))
        del self._ends[slot]
        self.slots[slot] = None
        return request

    def _finish(self, slot: int) -> None:
        request = self.vacate(slot)
        self._served[request.index] = replace(self._served[request.index], finished=self.clock)

    def _receive(self) -> None:
        while self._coming and self._coming[0].arrival <= self.clock:
            self.waiting.append(self._coming.popleft())


def serve(
    requests: Sequence[Request],
    executor: Executor,
    *,
    slots: int,
    policy: Policy,
    rule: AdmissionRule = admit,
) -> Schedule:
    """Run the requests through the slots under a policy, doing the work in `executor`."""
    return Scheduler(requests, executor, slots=slots, policy=policy, rule=rule).run()


def take_turns(schedulers: Sequence[Scheduler]) -> list[Schedule]:
    """Run several schedulers side by side, a step at a time, the one furthest behind first.

    On a machine with other work a slow minute then hits all of them alike.
    """
    while pending := [scheduler for scheduler in schedulers if not scheduler.done]:
        min(pending, key=lambda scheduler: scheduler.progress).advance()
    return [scheduler.schedule() for scheduler in schedulers]
