"""The book's own part of Sphinx: anchors that all languages share, search, and words of the theme."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.locale import translators
from sphinx.transforms import SphinxTransform

from .search_language import SearchHindi, SearchPolish

#: Between two cells, and before the unit under a heading.
BORDER = re.compile(r"(</t[dh]>(?=<t[dh])|<br>(?=<))")


class SharedAnchors(SphinxTransform):
    """Gives the headings of a page the anchors of `section_ids`, before anything refers to them."""

    default_priority = 860  # links inside a page are resolved at 879

    def apply(self, **_: object) -> None:
        """Rename the sections of the page, and the names that links find them by."""
        wanted = self.config.section_ids.get(self.env.docname)
        if wanted is None:
            return
        sections = list(self.document.findall(nodes.section))
        if len(sections) != len(wanted):
            raise ExtensionError(
                f"{self.env.docname} has {len(sections)} headings, and {len(wanted)} in English."
            )
        slugs = {}
        for section, anchor in zip(sections, wanted, strict=True):
            for old in section["ids"]:
                self.document.ids.pop(old, None)
            section["ids"] = [anchor]
            self.document.ids[anchor] = section
            for name in section["names"]:
                self.document.nameids[name] = anchor
            slugs[anchor] = (section.line, anchor, section.next_node(nodes.title).astext())
        # MyST looks anchors of links up here, in this page and from others.
        self.document.myst_slugs = self.env.metadata[self.env.docname]["myst_slugs"] = slugs


def part_words(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put spaces where cells and lines of generated tables meet: the search index drops tags and joins words."""
    for raw in doctree.findall(nodes.raw):
        if "html" in raw.get("format", ""):
            text = BORDER.sub(r"\1 ", raw.astext())
            raw.children = [nodes.Text(text)]


def put_own_labels_first(app: Sphinx) -> None:
    """Let the book's labels win over the theme's: of two catalogues the one that was loaded first is asked."""
    if not app.config.locale_dirs:
        return
    key = ("general", "booktheme")
    theme = translators.pop(key, None)
    for folder in app.config.locale_dirs:
        app.add_message_catalog(key[1], folder)
    if theme:
        translators[key].add_fallback(theme)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register everything; called by Sphinx."""
    app.add_config_value("section_ids", {}, "env")
    app.add_transform(SharedAnchors)
    app.add_search_language(SearchPolish)
    app.add_search_language(SearchHindi)
    put_own_labels_first(app)
    app.connect("doctree-resolved", part_words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
