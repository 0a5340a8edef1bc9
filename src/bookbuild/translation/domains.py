"""The two sets of catalogues: the prose, and the strings in the code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..layout import Layout
from .messages import Template
from .sources import prose_template, strings_template


@dataclass(frozen=True)
class Domain:
    """One set of catalogue files: the prose, or the strings in the code.

    Attributes:
        folder: of a language's files, from the layout and the language.
        template: everything that has to be translated.
        markdown: whether the messages are Markdown.
    """

    name: str
    folder: Callable[[Layout, str], Path]
    template: Callable[[Layout], Template]
    markdown: bool


DOMAINS = (
    Domain("prose", lambda layout, locale: layout.translations / locale, prose_template, True),
    Domain("strings", lambda layout, locale: layout.strings / locale, strings_template, False),
)
