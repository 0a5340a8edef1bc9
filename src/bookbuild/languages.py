"""Which languages a build is in."""

from __future__ import annotations

from babel import Locale

from cheap_inference.settings import LOCALES, SOURCE_LOCALE

from .layout import Layout


def translated(layout: Layout) -> tuple[str, ...]:
    """The language of the sources and every language with a catalogue, in the book's order."""
    return tuple(
        locale for locale in LOCALES if locale == SOURCE_LOCALE or (layout.translations / locale).is_dir()
    )


def own_name(locale: str) -> str:
    """A language's name in that language, capitalised as at the start of a line."""
    name = Locale.parse(locale).get_display_name(locale) or locale
    return name[0].upper() + name[1:]
