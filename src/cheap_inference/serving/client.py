"""A client that looks at its watch: it reads a stream of completions and notes when each event came."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, sleep

import httpx2

from ..errors import UserError
from .service import PATH

DONE = "[DONE]"
EVENT = "data: "
#: Seconds without a byte after which a client gives up.
PATIENCE_SECONDS = 60
TOO_MANY_REQUESTS = 429


@dataclass(frozen=True)
class Answer:
    """A stream as it was seen. Times are `perf_counter` seconds.

    Attributes:
        lines: what came over the wire, without the empty lines between events.
        finish_reason: None where the client hung up before the end.
        arrivals: when each event with a token, or with the end of text, came.
    """

    text: str
    finish_reason: str | None
    lines: tuple[str, ...]
    sent: float
    arrivals: tuple[float, ...]


@dataclass(frozen=True)
class Refusal:
    """Status 429: the seconds that the server asks to wait, and those that the refusal took."""

    retry_after: int
    seconds: float


def ask(
    url: str,
    prompt: str,
    *,
    max_tokens: int,
    hang_up_after: int | None = None,
    accepted: Callable[[], object] = lambda: None,
) -> Answer | Refusal:
    """Ask for one completion; `accepted` is called when the server has said yes, before any token.

    Raises:
        UserError: the server says that the request is wrong, or its stream ends without a reason.
    """
    sent = perf_counter()
    asked = {"prompt": prompt, "max_tokens": max_tokens, "stream": True}
    with httpx2.stream(
        "POST",
        url + PATH,
        json=asked,
        timeout=PATIENCE_SECONDS,
        trust_env=False,  # no proxy stands between a process and itself
    ) as response:
        if response.status_code == TOO_MANY_REQUESTS:
            return Refusal(int(response.headers["Retry-After"]), perf_counter() - sent)
        if response.is_error:
            raise UserError(f"The server answered {response.status_code}: {response.read().decode()}")
        accepted()
        return _read(response, sent, hang_up_after)


def _read(response: httpx2.Response, sent: float, hang_up_after: int | None) -> Answer:
    lines, arrivals, text, reason = [], [], "", None
    for line in filter(None, response.iter_lines()):
        now = perf_counter()
        lines.append(line)
        if line == EVENT + DONE:
            break
        choice = json.loads(line.removeprefix(EVENT))["choices"][0]
        text, reason = text + choice["text"], choice["finish_reason"]
        arrivals.append(now)
        if len(arrivals) == hang_up_after:
            break
    if reason is None and len(arrivals) != hang_up_after:
        raise UserError("The stream ended without a finish_reason: the server failed on the way.")
    return Answer(text, reason, tuple(lines), sent, tuple(arrivals))


def ask_patiently(url: str, prompt: str, *, max_tokens: int, tries: int) -> tuple[Answer, list[Refusal]]:
    """Ask, wait as long as the server says, and ask again; the answer and the refusals before it.

    Raises:
        UserError: the last of `tries` was refused too.
    """
    refusals = []
    while len(refusals) < tries:
        found = ask(url, prompt, max_tokens=max_tokens)
        if isinstance(found, Answer):
            return found, refusals
        refusals.append(found)
        sleep(found.retry_after)
    raise UserError(f"The server refused {tries} times: ask for shorter answers or give it more slots.")
