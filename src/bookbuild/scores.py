"""The scoreboard over every record there is: this machine's and the committed ones."""

from __future__ import annotations

import dataclasses
import re

from cheap_inference import claims, records, scoreboard
from cheap_inference.render.words import Words
from cheap_inference.views.scoreboard import scoreboard_html

from .contents import Contents
from .layout import Layout

#: A generated link to a section's page.
SECTION_LINK = re.compile(r'<a href="(?P<slug>[\w-]+)\.html">(?P<text>.*?)</a>')


def scoreboard_of(layout: Layout) -> dict:
    """The scoreboard of all runs, as `scoreboard.json` keeps it."""
    paths = [
        path for root in (layout.committed_records, layout.records) for path in sorted(root.glob("*/*.json"))
    ]
    known = filter(None, map(records.read, paths))
    return scoreboard.build([dataclasses.asdict(record) for record in known], claims.load())


def scoreboard_part(board: dict, contents: Contents, words: Words) -> str:
    """The scoreboard as HTML, with links to the sections that this site has."""
    return with_known_links(scoreboard_html(board, words), contents)


def with_known_links(html: str, contents: Contents) -> str:
    """HTML without the links to sections that this site has not; their text stays."""

    def link(found: re.Match) -> str:
        return found[0] if found["slug"] in contents.sections else found["text"]

    return SECTION_LINK.sub(link, html)
