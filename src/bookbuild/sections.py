"""Anchors of a page's headings: the same in every language, made from the English headings."""

from __future__ import annotations

import re

from docutils.nodes import make_id

HEADING = re.compile(r"^#{1,6} +(?P<text>.+?)\s*#*$", re.MULTILINE)
FENCED = re.compile(r"^(```+|~~~+).*?^\1\s*$", re.MULTILINE | re.DOTALL)


def section_ids(markdown: str) -> list[str]:
    """An anchor for every heading of an English text, in order, no two alike."""
    ids: list[str] = []
    for heading in HEADING.finditer(FENCED.sub("", markdown)):
        plain = make_id(heading["text"]) or "section"
        number = 1 + sum(known == plain or known.startswith(f"{plain}--") for known in ids)
        ids.append(plain if number == 1 else f"{plain}--{number}")
    return ids
