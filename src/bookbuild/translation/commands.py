"""The arguments of `scripts/translations.py`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cheap_inference.errors import UserError
from cheap_inference.settings import LOCALES, SOURCE_LOCALE

from ..errors import BuildError
from ..languages import translated
from ..layout import Layout
from .catalogues import read_folder, updated, write_catalogue
from .check import problems_of
from .domains import DOMAINS
from .passages import passage_problems, write_passages


def main(root: Path, argv: list[str] | None = None) -> int:
    """Extract, update, check or take the passages; return the command's exit status."""
    parser = argparse.ArgumentParser(description="Catalogues of the book's translations.", allow_abbrev=False)
    parser.add_argument(
        "command",
        choices=("extract", "update", "check", "passages"),
        help="write templates; renew catalogues; find faults; take the passages of languages from the prose",
    )
    parser.add_argument("--locale", nargs="+", choices=[code for code in LOCALES if code != SOURCE_LOCALE])
    parser.add_argument("--file", help="check one catalogue alone, by name, such as kv-cache")
    arguments = parser.parse_args(argv)
    layout = Layout(root)
    locales = arguments.locale or [code for code in translated(layout) if code != SOURCE_LOCALE]
    try:
        if arguments.command == "extract":
            return extract(layout)
        if arguments.command == "update":
            return update(layout, locales)
        if arguments.command == "passages":
            return passages(layout)
        return check(layout, locales, arguments.file)
    except (BuildError, UserError) as error:
        print(error, file=sys.stderr)
        return 1


def extract(layout: Layout) -> int:
    """Write empty catalogues to `_build/translations`: what a new language begins with."""
    for domain in DOMAINS:
        folder = layout.build / "translations" / domain.name
        for name, catalogue in updated(domain.template(layout), {}, SOURCE_LOCALE).items():
            write_catalogue(folder / f"{name}.pot", catalogue)
        print(folder)
    return 0


def update(layout: Layout, locales: list[str]) -> int:
    """Bring the catalogues of the languages in line with the sources, and drop files without messages."""
    for locale in locales:
        for domain in DOMAINS:
            folder = domain.folder(layout, locale)
            catalogues = updated(domain.template(layout), read_folder(folder, locale), locale)
            for name, catalogue in catalogues.items():
                write_catalogue(folder / f"{name}.po", catalogue)
            for path in folder.glob("*.po"):
                if path.stem not in catalogues:
                    path.unlink()
    return 0


def check(layout: Layout, locales: list[str], only: str | None) -> int:
    """Print every problem; 1 if there is one."""
    problems = [line for locale in locales for line in problems_of(layout, locale, only=only)]
    if only is None:
        problems += passage_problems(layout)
    for line in problems:
        print(line, file=sys.stderr)
    print(f"{len(problems)} problems in {', '.join(locales) or 'no language'}")
    return 1 if problems else 0


def passages(layout: Layout) -> int:
    """Write the passages of all languages into the package."""
    print(write_passages(layout))
    return 0
