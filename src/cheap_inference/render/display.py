"""What a view returns: one rich output with plain text beside it and data for the build.

Notebooks show the richest form. The metadata travels with an executed notebook, where the build finds
the CSV of a table and the alternative text of a figure; a reader never sees it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

METADATA = "cheap_inference"


@dataclass(frozen=True)
class Display:
    """An output: representations by MIME type and metadata for the build."""

    data: dict
    metadata: dict = field(default_factory=dict)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> tuple[dict, dict]:
        return self.data, {METADATA: self.metadata} if self.metadata else {}


def sentence(text: str) -> Display:
    """One or more generated sentences, as Markdown."""
    return Display({"text/markdown": text, "text/plain": text.replace("**", "")})
