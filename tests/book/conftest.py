"""A book of one small section, in a folder of its own: what the build is tested on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bookbuild.contents import read_contents
from bookbuild.layout import Layout
from bookbuild.translation.catalogues import updated, write_catalogue
from bookbuild.translation.domains import DOMAINS
from tests.book.book_site import BOOK, NARROW, served

FAKE = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# Counting is cheap

Does a count cost anything? See [the words](../book/glossary.md#words).

```{code-cell}
:tags: [parameters]

model = "auto"
device = "auto"
locale = "auto"
rows = 3
```

```{code-cell}
from cheap_inference.quantity import Quantity
from cheap_inference.render.display import Display, sentence
from cheap_inference.render.table import Column, table
from cheap_inference.section import open_section
from cheap_inference.settings import between

page = open_section("fake", model=model, device=device, locale=locale, rows=between(1, rows, 9))
```

```{code-cell}
count = page.measure("count", lambda: {"rows": list(range(rows)), "time": Quantity(1234.5, "ms", 1.0, 2.0, 3)})
```

```{code-cell}
:tags: [lead, nbval-ignore-output]

sentence(f"It took {page.words.number(count.time.value, 1)} ms.")
```

## Each row is one more

The sum is $\\sum_i i$.

```{code-cell}
columns = [Column("row", "Row"), Column("time", "Time", unit="ms", varies=True)]
table("rows", columns, [(row, count.time) for row in count.rows], page.words, caption="Rows", marked=[1])
```
"""


def make_project(tmp_path: Path) -> Layout:
    """A checkout with one notebook, two pages and the real theme."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "fake.md").write_text(FAKE, encoding="utf-8")
    shutil.copytree(BOOK.root / "book", tmp_path / "book", ignore=shutil.ignore_patterns("*.md", "locale"))
    (tmp_path / "book" / "index.md").write_text(
        "# A book\n\nOf [one section](../notebooks/fake.md).\n", encoding="utf-8"
    )
    (tmp_path / "book" / "glossary.md").write_text("# Glossary\n\n## Words\n\nNone.\n", encoding="utf-8")
    shutil.copyfile(BOOK.root / "_config.yml", tmp_path / "_config.yml")
    (tmp_path / "_toc.yml").write_text(
        "format: jb-book\nroot: index\nparts:\n- chapters:\n  - file: fake\n- chapters:\n  - file: glossary\n",
        encoding="utf-8",
    )
    return Layout(tmp_path)


def translate_project(layout: Layout, locale: str, known: dict[str, str]) -> None:
    """Give the small book complete catalogues: the known translations, and marked English for all else."""
    for domain in DOMAINS:
        for name, catalogue in updated(domain.template(layout), {}, locale).items():
            for entry in catalogue:
                if isinstance(entry.id, tuple):
                    entry.string = tuple([entry.id[1]] * catalogue.num_plurals)
                elif entry.id:
                    entry.string = known.get(entry.id, f"{entry.id} ({locale})")
            write_catalogue(domain.folder(layout, locale) / f"{name}.po", catalogue)


@pytest.fixture(scope="session")
def translate():
    """How a test translates the small book."""
    return translate_project


@pytest.fixture
def project(tmp_path: Path) -> Layout:
    """A small book to change at will."""
    return make_project(tmp_path)


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A small book that the tests of a module share."""
    return make_project(tmp_path_factory.mktemp("book"))


@pytest.fixture
def contents(project: Layout):
    """The contents of the small book."""
    return read_contents(project.root)


@pytest.fixture(scope="session")
def repository() -> Layout:
    """This checkout."""
    return BOOK


@pytest.fixture(scope="module")
def book_url():
    """The address of the book's own site, in all languages."""
    assert (BOOK.site / "index.html").exists(), "build the book first: make book"
    with served(BOOK.site) as url:
        yield url


@pytest.fixture(scope="module")  # Playwright's event loop runs as long as it: no other could start
def browser():
    """The system's Chromium, or the one that Playwright has downloaded."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def tab(browser):
    """The one tab of a reader who goes from page to page: what the pages share is loaded once."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture
def page(tab):
    """The reader's tab, empty, narrow and dark."""
    tab.goto("about:blank")
    tab.set_viewport_size(NARROW)
    tab.emulate_media(color_scheme="dark")
    return tab
