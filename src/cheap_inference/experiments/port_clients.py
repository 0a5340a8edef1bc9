"""Clients at a full server: one who comes too late, and one who hangs up. For the section beyond-the-port."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from threading import Event
from time import perf_counter
from typing import Any

from ..errors import UserError
from ..serving.client import Answer, Refusal, ask, ask_patiently
from ..serving.live_batch import LiveBatch
from ..serving.service import CompletionService

#: Events after which a client hangs up, and what the one behind it asks for.
HEARD, SHORT_ANSWER = 4, 2
TRIES = 6
#: Seconds after which an experiment on loopback is given up.
LIMIT = 120


@dataclass(frozen=True)
class Refused:
    """A request that came when all was full, asked again as told. Seconds."""

    refusal_seconds: float
    retry_after: tuple[int, ...]
    until_first_token: float


@dataclass(frozen=True)
class HungUp:
    """A client that hung up while another waited for a slot. Seconds.

    `made` counts the tokens made for it in the end. `until_reused` runs from the hanging up to the
    other's admission, `rest` is what the answer had still to run at the pace of its neighbours.
    """

    asked: int
    heard: int
    made: int
    until_reused: float
    rest: float
    same_slot: bool


def gaps(answer: Answer) -> list[float]:
    """Seconds between the events of a stream."""
    return [later - earlier for earlier, later in pairwise(answer.arrivals)]


@contextmanager
def held(batch: LiveBatch) -> Iterator[None]:
    """Nothing is computed in the `with` block: on a fast machine one would be done before the next has come."""
    batch.held = True
    try:
        yield
    finally:
        batch.held = False


def crowd_and_one_more(
    url: str,
    service: CompletionService,
    prompts: Sequence[str],
    *,
    max_tokens: int,
    crowd_done: Callable[[], object],
) -> tuple[list[Answer], Refused, float]:
    """Send all prompts while the loop is held, let it go, and send one that finds everything taken.

    `crowd_done` is called when the last answer but that of the late one has ended. The third result is when the
    loop was let go, in `perf_counter` seconds.

    Raises:
        UserError: somebody was done before the last one came, so that it was not refused.
    """
    with ThreadPoolExecutor(len(prompts) + 1, thread_name_prefix="client") as clients:
        with held(service.batch):
            running = [_accepted(clients, url, prompt, max_tokens=max_tokens) for prompt in prompts]
            start = perf_counter()
        late = clients.submit(ask_patiently, url, prompts[0], max_tokens=max_tokens, tries=TRIES)
        answers = [future.result(LIMIT) for future in running]
        crowd_done()
        answer, refusals = late.result(LIMIT)
    if not refusals:
        raise UserError("A place was free before one more could come: set longer answer_tokens.")
    waits = tuple(refusal.retry_after for refusal in refusals)
    return answers, Refused(refusals[0].seconds, waits, answer.arrivals[0] - start), start


def hang_up(url: str, service: CompletionService, prompt: str, *, max_tokens: int) -> HungUp:
    """Fill the slots and let one more wait while the loop is held, then hang up in the first slot."""
    slots, before = len(service.batch.slots), len(service.tickets)
    with ThreadPoolExecutor(slots + 1, thread_name_prefix="client") as clients:
        with held(service.batch):
            leaving = _accepted(clients, url, prompt, max_tokens=max_tokens, hang_up_after=HEARD)
            staying = [_accepted(clients, url, prompt, max_tokens=max_tokens) for _ in range(slots - 1)]
            waiting = _accepted(clients, url, prompt, max_tokens=SHORT_ANSWER)
        left, *others = [future.result(LIMIT) for future in (leaving, *staying, waiting)]
    abandoned, *_, waited = service.tickets[before:]
    return HungUp(
        asked=max_tokens,
        heard=len(left.arrivals),
        made=abandoned.made,
        until_reused=waited.admitted - left.arrivals[-1],
        rest=(max_tokens - HEARD) * median(gap for answer in (left, *others) for gap in gaps(answer)),
        same_slot=waited.slot == abandoned.slot,
    )


def _accepted(clients: ThreadPoolExecutor, url: str, prompt: str, **asked: Any) -> Future[Answer | Refusal]:
    """Ask from a thread of its own; returns when the server has said yes."""
    said_yes = Event()
    future = clients.submit(ask, url, prompt, accepted=said_yes.set, **asked)
    future.add_done_callback(lambda _: said_yes.set())  # a failure must not keep us waiting
    said_yes.wait(LIMIT)
    return future
