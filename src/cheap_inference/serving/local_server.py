"""A web application on a free loopback port for the length of a `with` block, and not a moment longer."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from time import monotonic, sleep
from typing import Any

import uvicorn

from ..errors import UserError

LOOPBACK = "127.0.0.1"
#: Seconds for the app to start, for open streams to end by themselves, and for the thread to end after that.
START_SECONDS, GRACE_SECONDS, STOP_SECONDS = 10, 1, 10


@contextmanager
def local_server(app: Any) -> Iterator[str]:
    """Serve an ASGI app from a thread of this process; gives its address, such as http://127.0.0.1:40001.

    However the block is left, open streams are cut, the thread has ended and the port is free afterwards.

    Raises:
        UserError: the app did not start, or would not stop.
    """
    with socket.create_server((LOOPBACK, 0)) as listener:
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="on",
            log_config=None,  # the logging of a notebook is its reader's
            log_level="critical",
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        server = uvicorn.Server(config)
        thread = Thread(target=_run, args=(server, listener), name="local-server", daemon=True)
        thread.start()
        try:
            _wait_until_started(server, thread)
            yield f"http://{LOOPBACK}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(GRACE_SECONDS + STOP_SECONDS)
        if thread.is_alive():
            raise UserError("The local server did not stop: restart the kernel.")


def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    with suppress(SystemExit):  # how uvicorn leaves where the app does not start
        server.run([listener])


def _wait_until_started(server: uvicorn.Server, thread: Thread) -> None:
    deadline = monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or monotonic() > deadline:
            raise UserError(
                "The local server did not start: see whether other software blocks loopback ports."
            )
        sleep(0.005)
