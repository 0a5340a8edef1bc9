"""Anchors of headings, made from the English text."""

from __future__ import annotations

from bookbuild.sections import section_ids


def test_every_heading_has_an_anchor_of_its_own():
    text = '# A title\n\n## "Greedy" may not be greedy\n\n```python\n# no heading\n```\n\n## Verdicts\n\n### Verdicts\n'
    assert section_ids(text) == ["a-title", "greedy-may-not-be-greedy", "verdicts", "verdicts--2"]
