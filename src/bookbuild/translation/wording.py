"""English that was left in a translation."""

from __future__ import annotations

import re

from cheap_inference.render.markup import words_only

#: More words than this may not be the same in both languages ("prefill and decode" may).
SAME_AT_MOST = 3
#: A run of so many words in a row, the same as in English, is a sentence that was left.
RUN = 6
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
#: Titles of papers in italics, quotations and names stay as they are.
TITLE = re.compile(r"(?<!\*)\*[^*]+\*(?!\*)|“[^”]*”|\"[^\"]*\"|«[^»]*»|„[^”]*”")
#: An entry of a list of papers: a title and a year.
REFERENCE = re.compile(r"\*[^*]+\*.*\b(?:18|19|20)\d\d\b", re.DOTALL)


def problems(source: str, translation: str) -> list[str]:
    """What of the English text stands in the translation unchanged."""
    if REFERENCE.search(source):
        return []
    words = WORD.findall(words_only(source))
    if source == translation:
        return ["still the English text"] if len(words) > SAME_AT_MOST else []
    there = f" {' '.join(WORD.findall(TITLE.sub(' ', words_only(translation))))} "
    for start in range(len(words) - RUN + 1):
        run = " ".join(words[start : start + RUN])
        if f" {run} " in there:
            return [f"English left in it: “{run} …”"]
    return []
