"""Continuous batching for requests that come and go: what runs between an endpoint and the engine. No torch.

All state belongs to one event loop, so nothing needs a lock. Only a prefill or a decode step runs in a
thread of its own; slots are filled and emptied between two of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import ceil
from statistics import median
from time import perf_counter
from typing import Literal, Protocol

from ..errors import UserError
from ..scheduling import Executor, Request, admit

FinishReason = Literal["stop", "length"]
#: Decode steps whose median prices the next ones.
RECENT_STEPS = 16
#: Seconds after which a loop that is held looks again.
HELD_SECONDS = 0.001


class LiveExecutor(Executor, Protocol):
    """An executor that takes further requests: prompts and tokens made, both by the request's index."""

    prompts: list[list[int]]
    tokens: list[list[int]]


class Ticket:
    """A request that was accepted, and its tokens as they are made. Times are `perf_counter` seconds.

    Attributes:
        slot: the slot it has or had, None before.
        made: tokens made for it, an end of text included.
        admitted, first_token: when it got a slot, and when its prefill was done.
        finish_reason: "stop" at an end of text, "length" at the length asked for; None while unfinished.
    """

    def __init__(self, request: Request):
        self.request = request
        self.slot: int | None = None
        self.made = 0
        self.admitted: float | None = None
        self.first_token: float | None = None
        self.finish_reason: FinishReason | None = None
        self.left = False
        self._items: asyncio.Queue[tuple[int | None, FinishReason | None] | None] = asyncio.Queue()

    def put(self, token: int | None, reason: FinishReason | None) -> None:
        """Hand on a token, None for an end of text; the last one comes with the reason."""
        self.finish_reason = reason
        self._items.put_nowait((token, reason))

    def close(self) -> None:
        """No more tokens will come, whatever was asked for."""
        self._items.put_nowait(None)

    async def items(self) -> AsyncIterator[tuple[int | None, FinishReason | None]]:
        """What `put` was given, as it comes, until the last."""
        while (item := await self._items.get()) is not None:
            yield item
            if item[1] is not None:
                return


class LiveBatch:
    """Slots, a queue of limited length, and the loop that serves both.

    Attributes:
        held: while true, requests are taken in or refused and nothing is computed. Any thread may set it.
    """

    def __init__(
        self,
        engine: LiveExecutor,
        *,
        slots: int,
        queue_places: int,
        capacity: int,
        end_of_text: Collection[int],
    ):
        """`capacity` is the number of cache places a slot has; `end_of_text` are the tokens that end an answer."""
        self.engine, self.capacity, self.end_of_text = engine, capacity, frozenset(end_of_text)
        self.slots: list[Ticket | None] = [None] * slots
        self.waiting: deque[Ticket] = deque()
        self.step_seconds: deque[float] = deque(maxlen=RECENT_STEPS)
        self.held = False
        self._queue_places = queue_places
        self._work = asyncio.Event()
        self._open = True

    def submit(self, prompt: Sequence[int], *, max_tokens: int) -> Ticket | None:
        """Take a request in, or return None where all slots and all places in the queue are taken.

        Raises:
            UserError: the prompt and the answer would not fit a slot.
            RuntimeError: the loop has ended.
        """
        if not self._open:
            raise RuntimeError("the batch is closed")
        needed = len(prompt) + max_tokens - 1  # the token made last is never fed
        if not prompt or needed > self.capacity:
            raise UserError(
                f"Prompt and answer need {needed} places and a slot has {self.capacity}: shorten one of them."
            )
        if sum(map(bool, self.slots)) + len(self.waiting) >= len(self.slots) + self._queue_places:
            return None
        ticket = Ticket(Request(len(self.engine.prompts), max_tokens, len(prompt), perf_counter()))
        self.engine.prompts.append(list(prompt))
        self.engine.tokens.append([])
        self.waiting.append(ticket)
        self._work.set()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Nobody reads this ticket any more: its place in the queue, or soon its slot, is free."""
        ticket.left = True
        if ticket in self.waiting:
            self.waiting.remove(ticket)

    def retry_after(self) -> int:
        """Whole seconds until the first slot must be free at the present pace, and with it a place in the queue."""
        left = [ticket.request.output_tokens - ticket.made for ticket in self.slots if ticket]
        pace = median(self.step_seconds) if self.step_seconds else 0.0
        return max(1, ceil(min(left, default=0) * pace))

    async def run(self) -> None:
        """Serve until cancelled; whoever is still waiting then learns that no more will come."""
        with ThreadPoolExecutor(1, thread_name_prefix="engine") as thread:
            in_engine = partial(asyncio.get_running_loop().run_in_executor, thread)
            try:
                while True:
                    await self._work.wait()
                    if self.held:
                        await asyncio.sleep(HELD_SECONDS)
                    else:
                        await self._round(in_engine)
            finally:
                self._open = False
                for ticket in [*self.waiting, *filter(None, self.slots)]:
                    ticket.close()

    async def _round(self, in_engine: Callable) -> None:
        """Free what was left, fill what is free, make one token for everybody."""
        for ticket in filter(None, list(self.slots)):
            if ticket.left:
                self._free(ticket)
        for slot, ticket in self._admitted():
            await in_engine(self.engine.prefill, slot, ticket.request)
            self._deliver(ticket)
        if any(self.slots):
            self.step_seconds.append(await in_engine(self.engine.decode))
            for ticket in filter(None, list(self.slots)):
                self._deliver(ticket)
        elif not self.waiting:
            self._work.clear()

    def _admitted(self) -> list[tuple[int, Ticket]]:
        """Newcomers with their slots; a slot counts as taken from here on."""
        pairs = admit("continuous", self.waiting, self.slots)
        for slot, ticket in pairs:
            self.slots[slot], ticket.slot, ticket.admitted = ticket, slot, perf_counter()
        return pairs

    def _deliver(self, ticket: Ticket) -> None:
        """Hand on the newest token; after the last one the slot is free."""
        token = self.engine.tokens[ticket.request.index][-1]
        ticket.made += 1
        ticket.first_token = ticket.first_token or perf_counter()
        if token in self.end_of_text:
            ticket.put(None, "stop")
        else:
            ticket.put(token, "length" if ticket.made == ticket.request.output_tokens else None)
        if ticket.finish_reason:
            self._free(ticket)

    def _free(self, ticket: Ticket) -> None:
        self.engine.release(ticket.slot)
        self.slots[ticket.slot] = None
