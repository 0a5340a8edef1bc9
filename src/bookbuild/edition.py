"""One language's pages, as the folder that jupyter-book reads."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import nbformat
import yaml

from cheap_inference import records
from cheap_inference.render.words import Words

from .configuration import configuration
from .contents import Contents
from .elsewhere import elsewhere
from .files import emptied
from .glossary import GLOSSARY, in_order
from .layout import Layout
from .links import relink
from .notebook_page import page_of, site_source
from .origin import origin_of
from .outputs import tables
from .publication import Publication
from .sections import section_ids
from .stage import write_notebook
from .translation.apply import Translator
from .translation.theme import write_theme_catalogues

THEME_PARTS = ("_static", "_templates")


@dataclass(frozen=True)
class Edition:
    """What the pages of one language are made of.

    Attributes:
        locales: all languages of the site, for the switcher.
        run_id: the folder of the records that the pages show.
        generated: HTML by name; a line `<!-- name -->` in a page is replaced by it.
    """

    contents: Contents
    locale: str
    locales: tuple[str, ...]
    run_id: str
    generated: dict[str, str]
    publication: Publication


def stage_edition(layout: Layout, edition: Edition) -> None:
    """Fill the folder that jupyter-book reads."""
    folder = emptied(layout.stage(edition.locale))
    for part in THEME_PARTS:
        shutil.copytree(layout.pages / part, folder / part)
    translator = Translator(layout, edition.locale)
    for page in edition.contents.pages:
        _stage_page(layout.pages / f"{page}.md", folder, edition, translator)
    for slug in edition.contents.sections:
        _stage_section(layout, slug, folder, edition)
    theme_words = None
    if translator.has_catalogue:
        theme_words = folder / "locale"
        write_theme_catalogues(theme_words, edition.locale, translator.labels())
    config = configuration(
        layout.root / "_config.yml",
        Words(edition.locale),
        locales=edition.locales,
        anchors=anchors_of(layout, edition.contents),
        repository=edition.publication.repository,
        colab=colab_links(edition),
        theme_words=theme_words,
    )
    for name, content in (("_config.yml", config), ("_toc.yml", edition.contents.toc)):
        (folder / name).write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")


def colab_links(edition: Edition) -> dict[str, str]:
    """Addresses that open the sections' notebooks of this language in Colab; none where Colab could not."""
    links = {
        slug: edition.publication.colab(f"notebooks/{edition.locale}/{slug}.ipynb")
        for slug in edition.contents.sections
    }
    return {slug: link for slug, link in links.items() if link}


def anchors_of(layout: Layout, contents: Contents) -> dict[str, list[str]]:
    """The anchors of every page's headings, made from the English sources."""
    paths = [layout.sources / f"{slug}.md" for slug in contents.sections]
    paths += [layout.pages / f"{page}.md" for page in contents.pages]
    return {path.stem: section_ids(path.read_text(encoding="utf-8")) for path in paths}


def _stage_page(source: Path, folder: Path, edition: Edition, translator: Translator) -> None:
    text = translator.markdown(source.read_text(encoding="utf-8"))
    if source.stem == GLOSSARY:
        text = in_order(text, edition.locale)
    text = relink(text, lambda page: site_source(page, edition.contents))
    (folder / source.name).write_text(filled(text, edition.generated), encoding="utf-8")


def filled(text: str, generated: dict[str, str]) -> str:
    """The text of a page with the generated parts in their places."""
    for name, html in generated.items():
        # An empty line would end the HTML block and let Markdown read the rest.
        lines = [line for line in html.splitlines() if line.strip()]
        text = text.replace(f"<!-- {name} -->", "\n".join(lines))
    return text


def _stage_section(layout: Layout, slug: str, folder: Path, edition: Edition) -> None:
    executed = nbformat.read(layout.executed(edition.locale) / f"{slug}.ipynb", as_version=4)
    record = records.read(records.path_of(layout.records, edition.run_id, slug))
    words = Words(edition.locale)
    closing = [
        elsewhere(layout, slug, edition.run_id, words),
        origin_of(record, tables(slug, executed), words),
    ]
    origin = "\n".join(filter(None, closing))
    write_notebook(folder / f"{slug}.ipynb", page_of(slug, executed, edition.contents, origin=origin))
