"""Prose in a reader's language: notebooks and pages with their units translated and typeset."""

from __future__ import annotations

import unicodedata

from cheap_inference.render.typography import typeset
from cheap_inference.settings import SOURCE_LOCALE

from ..errors import BuildError
from ..layout import Layout
from .catalogues import is_translated, read_folder
from .prose import translated
from .theme import THEME_STRINGS


class Translator:
    """Translates the book's Markdown into one language; code, links and mathematics pass through.

    A language without any catalogue leaves the English text, so that its numbers can be looked at.
    """

    def __init__(self, layout: Layout, locale: str):
        self.locale = locale
        catalogues = read_folder(layout.translations / locale, locale)
        self._entries = {
            entry.id: entry.string
            for catalogue in catalogues.values()
            for entry in catalogue
            if entry.id and is_translated(entry)
        }
        self.has_catalogue = locale != SOURCE_LOCALE and bool(catalogues)

    def markdown(self, text: str) -> str:
        """A Markdown text in the language.

        Raises:
            BuildError: a unit has no translation, or one in doubt.
        """
        return translated(text, self.unit) if self.has_catalogue else text

    def unit(self, text: str) -> str:
        """One unit in the language, with the spaces of its typography.

        Raises:
            BuildError: it has no translation.
        """
        if not self.has_catalogue:
            return text
        if text not in self._entries:
            raise BuildError(
                f"No translation into {self.locale!r} of “{text[:80]}”: run scripts/translations.py update."
            )
        return typeset(unicodedata.normalize("NFC", self._entries[text]), self.locale, source=text)

    def labels(self) -> dict[str, str]:
        """The words of the site's theme, by their English."""
        return {text: self.unit(text) for text in THEME_STRINGS}
