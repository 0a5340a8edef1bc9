"""Where everything lies, sources and outputs. Other tools rely on these paths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """The paths of one checkout."""

    root: Path

    @property
    def sources(self) -> Path:
        """The notebooks, jupytext Markdown: `<slug>.md`."""
        return self.root / "notebooks"

    @property
    def pages(self) -> Path:
        """Pages that are no notebooks, and the parts of the theme."""
        return self.root / "book"

    @property
    def translations(self) -> Path:
        """Catalogues of the prose, one folder a language."""
        return self.pages / "locale"

    @property
    def strings(self) -> Path:
        """Catalogues of the strings in the code, one folder a language: they are installed with it."""
        return self.root / "src" / "cheap_inference" / "data" / "locale"

    @property
    def committed_records(self) -> Path:
        """Records of runs that CI cannot make."""
        return self.root / "records"

    @property
    def history(self) -> Path:
        """What every nightly run found, one line each."""
        return self.root / "history" / "nights.jsonl"

    @property
    def reference(self) -> Path:
        """Executed notebooks that a test compares with."""
        return self.root / "reference"

    @property
    def build(self) -> Path:
        """The only folder that is written to."""
        return self.root / "_build"

    @property
    def records(self) -> Path:
        """Records of this machine: `<model>-<device>/<slug>.json`."""
        return self.build / "records"

    @property
    def night(self) -> Path:
        """Reports of nightly runs."""
        return self.build / "night"

    def notebooks(self, locale: str) -> Path:
        """Notebooks without outputs, as published."""
        return self.build / "notebooks" / locale

    def executed(self, locale: str) -> Path:
        """Notebooks with outputs."""
        return self.build / "executed" / locale

    def stage(self, locale: str) -> Path:
        """What jupyter-book reads."""
        return self.build / "stage" / locale

    def html(self, locale: str) -> Path:
        """What jupyter-book writes."""
        return self.stage(locale) / "_build" / "html"

    @property
    def site(self) -> Path:
        """The finished site."""
        return self.build / "site"
