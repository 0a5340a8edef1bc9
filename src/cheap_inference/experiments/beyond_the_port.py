"""Measurements of the section beyond-the-port: our own server, seen by clients through loopback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..engine import Check, check_tokens
from ..models.load import LoadedModel
from ..quantity import Quantity
from ..serving.client import Answer, ask
from ..serving.live_batch import Ticket
from ..serving.service import CompletionService, Endpoint
from .port_clients import HungUp, Refused, crowd_and_one_more, gaps, hang_up
from .served_model import crowd_prompts, served_model
from .serving import batch_noise

#: Tokens of the request that warms the server up: the first call of anything is slow.
WARM_UP_TOKENS = 2
#: Lines of a stream that the page shows, from its start and from its end.
SHOWN_LINES = 2


@dataclass(frozen=True)
class Alone:
    """One request that has the server to itself. Seconds; the gap is between two events."""

    prompt_tokens: int
    time_to_first_token: float
    gap: Quantity


@dataclass(frozen=True)
class Seen:
    """One request of the crowd, in seconds by the client's watch; `queued` and `prefill` by the server's.

    All is counted from the moment when the whole crowd was there; an arrival is an event's. `queued` lasts
    until a slot is free, `prefill` from then to the first token: the prompts of others that got a slot in
    the same moment may stand before it. `gap` is the median time between two events, None with one event.
    """

    prompt_tokens: int
    events: int
    finish_reason: str
    queued: float
    prefill: float
    time_to_first_token: float
    gap: Quantity | None
    arrivals: tuple[float, ...]


@dataclass(frozen=True)
class Crowd:
    """Requests sent one right after another, as many as there are slots and places in the queue, to a loop
    that is held until all are there.

    In seconds: `step` a decode step of the engine, `gap` the time between two events of a stream,
    `delivery` the time from a first token's making to its arrival. `tokens_per_second` counts all streams
    together. `identical` and `excused` count requests as in the section continuous-batching; `whole` those
    whose text is that of the engine's tokens. `lines` are the first and the last of the first stream.
    """

    seen: tuple[Seen, ...]
    step: Quantity
    gap: Quantity
    delivery: Quantity
    tokens_per_second: float
    identical: int
    excused: int
    whole: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Watched:
    """All that was seen from outside, and what it was seen of; `capacity` counts the tokens a slot holds."""

    slots: int
    queue_places: int
    answer_tokens: int
    capacity: int
    alone: Alone
    crowd: Crowd
    refused: Refused
    hung_up: HungUp


def watch_from_outside(
    lm: LoadedModel, endpoint: Endpoint, *, slots: int, queue_places: int, answer_tokens: int
) -> Watched:
    """Start a server around `endpoint`, ask it what the page tells, and stop it, whatever happens."""
    settings = {"slots": slots, "queue_places": queue_places, "answer_tokens": answer_tokens}
    with served_model(lm, endpoint, **settings) as (url, service):
        prompts = crowd_prompts(lm.tokenizer, slots + queue_places)
        ask(url, prompts[0], max_tokens=WARM_UP_TOKENS)
        alone = _alone(url, service, prompts[0], answer_tokens)
        tickets, steps = len(service.tickets), service.batch.engine.decode_seconds
        steps.clear()
        taken: list[float] = []
        answers, refused, start = crowd_and_one_more(
            url, service, prompts, max_tokens=answer_tokens, crowd_done=lambda: taken.extend(steps)
        )
        pairs = list(zip(answers, service.tickets[tickets:], strict=False))  # the late one comes after them
        crowd = _crowd(lm, service, pairs, taken, start)
        left = hang_up(url, service, prompts[0], max_tokens=answer_tokens)
    return Watched(
        **settings, capacity=service.batch.capacity, alone=alone, crowd=crowd, refused=refused, hung_up=left
    )


def _alone(url: str, service: CompletionService, prompt: str, answer_tokens: int) -> Alone:
    answer = ask(url, prompt, max_tokens=answer_tokens)
    return Alone(
        prompt_tokens=service.tickets[-1].request.prompt_tokens,
        time_to_first_token=answer.arrivals[0] - answer.sent,
        gap=Quantity.of_samples(gaps(answer), unit="s"),
    )


def _crowd(
    lm: LoadedModel,
    service: CompletionService,
    pairs: Sequence[tuple[Answer, Ticket]],
    steps: Sequence[float],
    start: float,
) -> Crowd:
    answers, tickets = zip(*pairs, strict=True)
    end = max(answer.arrivals[-1] for answer in answers)
    delivery = [answer.arrivals[0] - ticket.first_token for answer, ticket in pairs]
    identical, excused = _own_tokens(lm, service, tickets)
    return Crowd(
        seen=tuple(_seen(answer, ticket, start) for answer, ticket in pairs),
        step=Quantity.of_samples(steps, unit="s"),
        gap=Quantity.of_samples([gap for answer in answers for gap in gaps(answer)], unit="s"),
        delivery=Quantity.of_samples(delivery, unit="s"),
        tokens_per_second=sum(ticket.made for ticket in tickets) / (end - start),
        identical=identical,
        excused=excused,
        whole=sum(answer.text == _text(service, ticket) for answer, ticket in pairs),
        lines=(*answers[0].lines[:SHOWN_LINES], *answers[0].lines[-SHOWN_LINES:]),
    )


def _own_tokens(lm: LoadedModel, service: CompletionService, tickets: Sequence[Ticket]) -> tuple[int, int]:
    """Requests that got the tokens they get alone, and those that first differ where two logits tie."""
    engine, indices = service.batch.engine, [ticket.request.index for ticket in tickets]
    checks: list[Check] = [check_tokens(lm, engine.prompts[i], engine.tokens[i]) for i in indices]
    different = [check for check in checks if check.first_difference is not None]
    noise = batch_noise(lm, [engine.prompts[i] for i in indices]) if different else 0.0
    return len(checks) - len(different), sum(check.margin < 2 * noise for check in different)


def _text(service: CompletionService, ticket: Ticket) -> str:
    """What the engine's tokens say, without a closing end of text."""
    tokens = service.batch.engine.tokens[ticket.request.index]
    tokens = tokens[:-1] if ticket.finish_reason == "stop" else tokens
    return service.tokenizer.decode(tokens, skip_special_tokens=True)


def _seen(answer: Answer, ticket: Ticket, start: float) -> Seen:
    between = gaps(answer)
    return Seen(
        prompt_tokens=ticket.request.prompt_tokens,
        events=len(answer.arrivals),
        finish_reason=answer.finish_reason,
        queued=ticket.admitted - start,
        prefill=ticket.first_token - ticket.admitted,
        time_to_first_token=answer.arrivals[0] - start,
        gap=Quantity.of_samples(between, unit="s") if between else None,
        arrivals=tuple(arrival - start for arrival in answer.arrivals),
    )
