"""This checkout and its built site: over HTTP, on the two screens that it is looked at on."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bookbuild.layout import Layout

BOOK = Layout(Path(__file__).parents[2])
NARROW = {"width": 390, "height": 900}
WIDE = {"width": 1280, "height": 900}
#: Everything outside the article that a reader sees or hears.
LABELS = """
() => [...document.querySelectorAll("*")].flatMap((node) => [
  ...["title", "aria-label", "placeholder", "data-tooltip", "data-bs-title"].map((name) => node.getAttribute(name)),
  node.closest("article") || node.children.length ? null : node.textContent,
]).filter(Boolean).map((text) => text.trim())
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A file server that keeps connections and no log."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder, as long as it is served."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
