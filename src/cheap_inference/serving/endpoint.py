"""The streaming endpoint that the closing page teaches: one Server-Sent Event a token, or 429 at once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from .live_batch import Ticket
from .service import CompletionService


async def completions(request: Request) -> Response:
    """Answer a request for a completion; 429 with Retry-After (RFC 6585, RFC 9110) where the server is full."""
    service = request.app.state.service
    ticket = service.submit(await request.json())
    if ticket is None:
        wait = {"Retry-After": str(service.retry_after())}
        return JSONResponse({"error": {"type": "overloaded"}}, 429, wait)
    return StreamingResponse(events(service, ticket), media_type="text/event-stream")


async def events(service: CompletionService, ticket: Ticket) -> AsyncIterator[str]:
    """The answer as Server-Sent Events: "data: ", JSON and an empty line each."""
    try:
        async for text, reason in service.pieces(ticket):
            choice = {"index": 0, "text": text, "finish_reason": reason}
            yield f"data: {json.dumps({'object': 'text_completion', 'choices': [choice]})}\n\n"
        yield "data: [DONE]\n\n"
    finally:
        service.leave(ticket)
