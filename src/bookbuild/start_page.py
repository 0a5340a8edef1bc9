"""The page at the root of the site: on to the reader's language, or a choice where there is no script."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from string import Template

from .languages import own_name


def start_page(template: Path, titles: dict[str, str]) -> str:
    """The page as HTML, with a link to every language of the site; `titles` are the book's, by language."""
    links = "\n".join(
        f'<li><a href="{code}/index.html" lang="{code}" hreflang="{code}">'
        f"{escape(own_name(code))}<br><small>{escape(title)}</small></a></li>"
        for code, title in titles.items()
    )
    first = next(iter(titles))
    text = template.read_text(encoding="utf-8")
    return Template(text).substitute(
        title=escape(titles[first]), links=links, locales=json.dumps(list(titles)), first=first
    )
