"""The drift page's part: the recorded nights as HTML, with links to the sections that this site has."""

from __future__ import annotations

from cheap_inference import history
from cheap_inference.render.words import Words
from cheap_inference.views.drift import drift_html

from .contents import Contents
from .layout import Layout
from .scores import with_known_links


def drift_part(layout: Layout, contents: Contents, words: Words) -> str:
    """What the drift page shows of the history.

    Raises:
        UserError: the history holds a line that is no entry.
    """
    return with_known_links(drift_html(history.read(layout.history), words), contents)
