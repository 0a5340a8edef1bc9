"""Everything in a checkout that has to be translated: prose of notebooks and pages, strings of the code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from cheap_inference.claims import section_titles

from ..contents import read_contents
from ..layout import Layout
from ..stage import read_source
from . import prose, strings
from .messages import COMMON, Message, Template, distributed
from .theme import THEME, THEME_STRINGS


def prose_template(layout: Layout) -> Template:
    """Messages of all pages, by page; what several pages say alike is in the common file."""
    contents = read_contents(layout.root)
    pages = {slug: _notebook(layout.sources / f"{slug}.md") for slug in contents.sections}
    pages |= {page: _page(layout.pages / f"{page}.md") for page in contents.pages}
    theme = {THEME: [Message(text, note="a label of the site") for text in THEME_STRINGS]}
    return distributed(pages) | theme


def strings_template(layout: Layout) -> Template:
    """Messages of the code, by section; what no section has to itself is in the common file."""
    of_claims = strings.of_claims()
    places: dict[str, list[Message]] = {slug: [] for slug in section_titles()}
    common = strings.of_configuration(
        (layout.root / "_config.yml").read_text(encoding="utf-8"),
        (layout.root / "_toc.yml").read_text(encoding="utf-8"),
    )
    common += of_claims.pop("")
    for path in code_files(layout):
        place = places.get(section_of(path.stem, places), common) if path.parent.name == "views" else common
        place += strings.of_python(path.read_text(encoding="utf-8"), module=path.stem)
    for slug, messages in of_claims.items():
        places[slug] += messages
    return distributed({COMMON: common} | places)


def section_of(module: str, slugs: Iterable[str]) -> str | None:
    """The section that a module is named after, alone or with a word of its own behind (`x_y_figures`)."""
    name = module.replace("_", "-") + "-"
    return max((slug for slug in slugs if name.startswith(f"{slug}-")), key=len, default=None)


def code_files(layout: Layout) -> Iterator[Path]:
    """Modules that may speak to readers, in a fixed order."""
    for package in ("cheap_inference", "bookbuild"):
        yield from sorted((layout.root / "src" / package).rglob("*.py"))


def _notebook(path: Path) -> list[Message]:
    cells = [cell.source for cell in read_source(path).cells if cell.cell_type == "markdown"]
    return [Message(text, note=kind) for cell in cells for text, kind in prose.units(cell)]


def _page(path: Path) -> list[Message]:
    return [Message(text, note=kind) for text, kind in prose.units(path.read_text(encoding="utf-8"))]
