"""Search in languages that Sphinx does not know: whole words, in the index and in the browser.

Sphinx splits Devanagari at its vowel signs, which are marks and no letters, and it would stem Polish
as if it were English. Here a word is a run of letters, marks and digits; endings are left on, since the
search page finds parts of words by itself. Both sides compare composed characters (NFC).
"""

from __future__ import annotations

import re
import unicodedata

from sphinx.search import SearchLanguage

#: Letters and digits, the signs of Devanagari (no danda), and the joiners inside its words.
WORD = re.compile(r"[\w\u0900-\u0963\u0966-\u097f\u200c\u200d]+")


class WholeWords(SearchLanguage):
    """Words as they are written."""

    js_splitter_code = r"""
var splitQuery = (query) => query.normalize("NFC").match(/[\p{L}\p{M}\p{N}_\u200c\u200d]+/gu) ?? [];
"""

    def split(self, input: str) -> list[str]:
        """The words of a text."""
        return WORD.findall(unicodedata.normalize("NFC", input))


class SearchPolish(WholeWords):
    """Polish."""

    lang = "pl"
    language_name = "Polish"


class SearchHindi(WholeWords):
    """Hindi, with the English words that its technical prose is full of."""

    lang = "hi"
    language_name = "Hindi"
