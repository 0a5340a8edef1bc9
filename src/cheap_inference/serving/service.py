"""From a completion request in JSON to pieces of text: tokens in, tokens out, and the app around an endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..errors import UserError
from .live_batch import FinishReason, LiveBatch, Ticket

Endpoint = Callable[[Request], Awaitable[Response]]
PATH = "/v1/completions"
#: What a byte-level tokenizer decodes half a character to.
UNFINISHED = "\N{REPLACEMENT CHARACTER}"


class CompletionService:
    """Text completions of one model, served by a batch.

    Attributes:
        tickets: every request that was accepted, in order.
    """

    def __init__(self, batch: LiveBatch, tokenizer: Any):
        self.batch, self.tokenizer = batch, tokenizer
        self.tickets: list[Ticket] = []

    def submit(self, asked: Any) -> Ticket | None:
        """Take in a request, `{"prompt": text, "max_tokens": number}`; None where the server is full.

        Raises:
            UserError: one of the two is missing or senseless, or too long for a slot.
        """
        prompt, max_tokens = _checked(asked)
        ticket = self.batch.submit(self._tokens_of(prompt), max_tokens=max_tokens)
        if ticket:
            self.tickets.append(ticket)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """As `LiveBatch.leave`."""
        self.batch.leave(ticket)

    def retry_after(self) -> int:
        """As `LiveBatch.retry_after`."""
        return self.batch.retry_after()

    async def pieces(self, ticket: Ticket) -> AsyncIterator[tuple[str, FinishReason | None]]:
        """The text that each token adds. Half a character is held back until the rest of it has come."""
        tokens, sent = [], ""
        async for token, reason in ticket.items():
            tokens += [] if token is None else [token]
            text = self.tokenizer.decode(tokens, skip_special_tokens=True)
            held_back = text.endswith(UNFINISHED) and reason is None
            piece = "" if held_back else text[len(sent) :]
            sent += piece
            yield piece, reason

    def _tokens_of(self, prompt: str) -> list[int]:
        """Token ids; a prompt that brings its own start of text is given no second one."""
        start = self.tokenizer.bos_token
        begun = bool(start) and prompt.startswith(start)
        return self.tokenizer(prompt, add_special_tokens=not begun)["input_ids"]


def _checked(asked: Any) -> tuple[str, int]:
    asked = asked if isinstance(asked, Mapping) else {}
    prompt, max_tokens = asked.get("prompt"), asked.get("max_tokens")
    if not isinstance(prompt, str) or not prompt:
        raise UserError("prompt must be a text that is not empty.")
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise UserError("max_tokens must be a whole number from 1 on.")
    return prompt, max_tokens


def completion_app(endpoint: Endpoint, service: CompletionService) -> Starlette:
    """The web application: one endpoint, which finds `service` in the app's state."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        running = asyncio.create_task(service.batch.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    app = Starlette(
        routes=[Route(PATH, endpoint, methods=["POST"])],
        lifespan=lifespan,
        exception_handlers={UserError: _bad_request, ValueError: _bad_request},
    )
    app.state.service = service
    return app


async def _bad_request(_: Request, error: Exception) -> Response:
    """What the client got wrong; a ValueError is JSON that cannot be read."""
    return JSONResponse({"error": {"type": "invalid_request_error", "message": str(error)}}, 400)
