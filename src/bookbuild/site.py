"""The finished site: every language's pages, the data behind them, and a start page."""

from __future__ import annotations

import json
import shutil
from importlib import resources
from pathlib import Path

import nbformat

from .contents import Contents
from .files import emptied
from .layout import Layout
from .outputs import tables
from .publication import Publication
from .stage import publish_notebooks
from .start_page import start_page

MATHJAX = "sphinx-mathjax-offline"
DEVANAGARI = "fontpkg_noto_sans_devanagari"
#: Files that Sphinx and the theme leave beside the pages and no page asks for.
LEFTOVERS = (".buildinfo", "objects.inv", "*webpack-macros.html")
#: Parts of MathJax that `tex-chtml.js` can ask for; the rest are other formats of output.
MATHJAX_PARTS = ("tex-chtml.js", "a11y", "adaptors", "input", "output/chtml", "sre", "ui")


def assemble_site(
    layout: Layout,
    contents: Contents,
    titles: dict[str, str],
    *,
    scoreboard: dict,
    publication: Publication,
) -> Path:
    """Put the site together in a new folder, then swap it in; return its start page.

    Args:
        titles: the book's title in every language of the site.
    """
    folder = emptied(layout.build / "site.new")
    locales = tuple(titles)
    for locale in locales:
        shutil.copytree(layout.html(locale), folder / locale, ignore=shutil.ignore_patterns(*LEFTOVERS))
        publish_notebooks(layout, contents, locale, folder / "notebooks" / locale, publication)
    copy_mathjax(folder / "_shared" / "mathjax")
    copy_font(folder / "_shared" / "fonts")
    write_tables(layout, contents, locales[0], folder / "data")
    for root in (layout.committed_records, layout.records):
        if root.is_dir():
            shutil.copytree(root, folder / "records", dirs_exist_ok=True, ignore=_only_records)
    if layout.history.exists():
        shutil.copyfile(layout.history, folder / "history.jsonl")
    (folder / "scoreboard.json").write_text(
        json.dumps(scoreboard, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )
    (folder / "index.html").write_text(start_page(layout.pages / "start_page.html", titles), encoding="utf-8")
    shutil.rmtree(layout.site, ignore_errors=True)
    folder.rename(layout.site)
    return layout.site / "index.html"


def write_tables(layout: Layout, contents: Contents, locale: str, folder: Path) -> None:
    """Write every table as CSV, `<slug>/<table>.csv`; they are the same in all languages."""
    for slug in contents.sections:
        notebook = nbformat.read(layout.executed(locale) / f"{slug}.ipynb", as_version=4)
        (folder / slug).mkdir(parents=True)
        for name, text in tables(slug, notebook).items():
            (folder / slug / f"{name}.csv").write_text(text, encoding="utf-8", newline="")


def copy_mathjax(folder: Path) -> None:
    """Copy the one MathJax that all languages share: the site asks nothing of other servers."""
    source = Path(str(resources.files(MATHJAX))) / "static" / "mathjax"
    for part in MATHJAX_PARTS:
        copy = shutil.copytree if (source / part).is_dir() else shutil.copyfile
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        copy(source / part, folder / part)


def copy_font(folder: Path) -> None:
    """Copy the font, and its licence, for browsers that have none with Devanagari."""
    source = Path(str(resources.files(DEVANAGARI)))
    folder.mkdir(parents=True)
    (font,) = source.rglob("*.ttf")
    shutil.copyfile(font, folder / "NotoSansDevanagari.ttf")
    shutil.copyfile(source / "LICENSE", folder / "LICENSE")


def _only_records(folder: str, names: list[str]) -> set[str]:
    return {
        name
        for name in names
        if not (name.endswith(".json") or Path(folder, name).is_dir()) or name[0] == "."
    }
