"""The table of contents: which pages the book has and in what order. Read from `_toc.yml` only."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from .errors import BuildError


@dataclass(frozen=True)
class Contents:
    """The book's pages, in reading order.

    Attributes:
        toc: the parsed `_toc.yml`.
        sections: pages that are notebooks.
        pages: all the others.
        left_out: sections that the book has and this build has not.
    """

    toc: dict
    sections: tuple[str, ...]
    pages: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def only(self, sections: tuple[str, ...]) -> Contents:
        """The same contents with these sections alone, and every page that is no notebook."""
        toc = copy.deepcopy(self.toc)
        kept = set(sections) | set(self.pages)
        for part in toc.get("parts", [toc]):
            part["chapters"] = [chapter for chapter in part["chapters"] if chapter["file"] in kept]
        if "parts" in toc:
            toc["parts"] = [part for part in toc["parts"] if part["chapters"]]
        chosen = tuple(slug for slug in self.sections if slug in kept)
        left_out = tuple(slug for slug in self.sections if slug not in kept)
        return Contents(toc, chosen, self.pages, left_out)


def read_contents(root: Path) -> Contents:
    """Read `_toc.yml` under `root`; a page is a section where `notebooks/` has a file of its name.

    Raises:
        BuildError: a page has no file.
    """
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    names = list(_files(toc))
    sections = tuple(name for name in names if (root / "notebooks" / f"{name}.md").exists())
    pages = tuple(name for name in names if name not in sections)
    for page in pages:
        if not (root / "book" / f"{page}.md").exists():
            raise BuildError(f"_toc.yml names {page}, but neither notebooks/ nor book/ has a {page}.md.")
    return Contents(toc, sections, pages)


def _files(toc: dict) -> Iterator[str]:
    yield toc["root"]
    for part in toc.get("parts", [toc]):
        yield from (chapter["file"] for chapter in part["chapters"])
