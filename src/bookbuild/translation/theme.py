"""Words of the site's theme, in catalogues that Sphinx and its themes read.

The themes have no catalogue for some of the book's languages, and write a few labels into their
templates in English. All of them are translated with the book, in the catalogue file "theme".
"""

from __future__ import annotations

import html
import io
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo

THEME = "theme"
#: The catalogues that Sphinx, its themes and their scripts ask.
SPHINX_CATALOGUES = ("sphinx", "booktheme")
#: Labels that stand in templates as they are, and the attribute that holds them.
FIXED_LABELS = {
    "Main": "aria-label",
    "Page": "aria-label",
    "Toggle primary sidebar": "title",
    "Toggle secondary sidebar": "title",
    "Toggle hidden content": "aria-label",
}
#: Labels of the copy button's script, by the keys that it has for them.
COPY_LABELS = {
    "copy": "Copy",
    "copy_to_clipboard": "Copy to clipboard",
    "copy_success": "Copied!",
    "copy_failure": "Failed to copy",
}
SEARCH_LABELS = (
    "Search Results",
    "Searching",
    "Preparing search...",
    "Search finished, found ${resultCount} page(s) matching the search query.",
    "Your search did not match any documents. Please make sure that all words are spelled correctly and "
    "that you've selected enough categories.",
    "Hide Search Matches",
)
#: Everything of the themes that a reader meets, as it stands in their sources.
THEME_STRINGS = (
    "Skip to main content",
    "Back to top",
    "Search",
    "Contents",
    "On this page",
    "Section Navigation",
    "Site navigation",
    "previous page",
    "previous",
    "next page",
    "next",
    "Color mode",
    "Light",
    "Dark",
    "System Settings",
    "Version warning",
    "Source repository",
    "Link to this heading",
    "Error",
    "Please activate JavaScript to enable the search functionality.",
    *SEARCH_LABELS,
    *FIXED_LABELS,
    *COPY_LABELS.values(),
)


def write_theme_catalogues(folder: Path, locale: str, labels: Mapping[str, str]) -> None:
    """Write compiled catalogues, and the one of the search page's script, for Sphinx's `locale_dirs`."""
    place = folder / locale / "LC_MESSAGES"
    place.mkdir(parents=True)
    catalogue = Catalog(locale=locale)
    for text, label in labels.items():
        catalogue.add(text, label)
    for name in SPHINX_CATALOGUES:
        compiled = io.BytesIO()
        write_mo(compiled, catalogue)
        (place / f"{name}.mo").write_bytes(compiled.getvalue())
    (place / "sphinx.js").write_text(search_script(locale, labels), encoding="utf-8")


def search_script(locale: str, labels: Mapping[str, str]) -> str:
    """Sphinx's own translations for scripts, with the book's in their places."""
    own = resources.files("sphinx") / "locale" / locale / "LC_MESSAGES" / "sphinx.js"
    text = own.read_text(encoding="utf-8")
    known = json.loads(text[text.index("{") : text.rindex("}") + 1])
    known["messages"] |= labels
    return f"Documentation.addTranslations({json.dumps(known, ensure_ascii=False)});"


def translate_fixed_labels(folder: Path, locale: str, labels: Mapping[str, str]) -> None:
    """Replace the labels that templates and scripts have in English, in built pages."""
    for page in folder.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        for label, attribute in FIXED_LABELS.items():
            text = text.replace(f'{attribute}="{label}"', f'{attribute}="{html.escape(labels[label])}"')
        page.write_text(text, encoding="utf-8")
    script = folder / "_static" / "copybutton.js"
    words = json.dumps({key: labels[label] for key, label in COPY_LABELS.items()}, ensure_ascii=False)
    text = script.read_text(encoding="utf-8")
    mark = "let locale = 'en'"
    if mark not in text:
        raise ValueError(f"{script.name} has changed: it no longer says {mark!r}.")
    script.write_text(text.replace(mark, f"messages[{locale!r}] = {words};\n{mark}", 1), encoding="utf-8")
