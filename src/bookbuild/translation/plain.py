"""A unit of Markdown as the words that are read."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

from cheap_inference.render.markup import parts
from cheap_inference.render.typography import ANY_SPACE

from ..errors import BuildError

#: Inline Markdown that holds words, and the marks around them.
WORDS = ("text", "code_inline", "softbreak")
MARKS = ("em_open", "em_close", "strong_open", "strong_close", "link_open", "link_close")
#: Parts of a text that have words in them.
READABLE = {"code", "target"}


def plain_text(markdown: str) -> str:
    """A paragraph without its marks: a link is its text, emphasis and code are their words, spaces are plain ones.

    The spaces that typesetting makes unbreakable only keep a line together. No reader sees them and nobody
    types them into a prompt, but a tokenizer would charge a language for each.

    Raises:
        BuildError: the paragraph has more in it than words.
    """
    tokens = MarkdownIt().parseInline(markdown)[0].children
    strange = {kind for kind, _ in parts(markdown)} - READABLE
    if strange or any(token.type not in WORDS + MARKS for token in tokens):
        raise BuildError(
            f"“{markdown[:60]}…” has more than words in it, such as mathematics, HTML or an image"
        )
    words = (" " if token.type == "softbreak" else token.content for token in tokens if token.type in WORDS)
    return re.sub(ANY_SPACE, " ", "".join(words))
