"""The page at the root of the site: on to the reader's language, or a choice where there is no script."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from string import Template

from .languages import own_name


def start_page(template: Path, locales: tuple[str, ...], *, title: str) -> str:
    """The page as HTML, with a link to every language of the site."""
    links = "\n".join(
        f'<li><a href="{code}/index.html" lang="{code}" hreflang="{code}">{escape(own_name(code))}</a></li>'
        for code in locales
    )
    text = template.read_text(encoding="utf-8")
    return Template(text).substitute(
        title=escape(title), links=links, locales=json.dumps(locales), first=locales[0]
    )
