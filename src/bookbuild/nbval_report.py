"""What nbval found, out of the JUnit file that pytest writes: the section, the cell and the difference."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from .night_report import Failure

COLOURS = re.compile(r"(\x1b|#x1B|\\x1b)\[[0-9;]*m")


def comparison_failures(junit: Path) -> list[Failure]:
    """A failure for every cell whose outputs are not those of `reference/`.

    A cell that could not be compared, since one before it failed, is left out: it adds nothing.
    """
    if not junit.exists():
        return [Failure("compare", "", "The comparison ended before it could say anything.")]
    cases = ElementTree.parse(junit).getroot().iter("testcase")
    return [failure for case in cases if (failure := _failure_of(case)) is not None]


def _failure_of(case: ElementTree.Element) -> Failure | None:
    found = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
    if found is None:
        return None
    text = COLOURS.sub("", found.text or found.get("message", "")).strip()
    return Failure("compare", _section(case), f"{case.get('name')}\n{text}")


def _section(case: ElementTree.Element) -> str:
    """The notebook's name: nbval puts its path where pytest puts a test's module."""
    place = (case.get("file") or case.get("classname") or "").replace("\\", "/")
    name = re.sub(r"\.ipynb.*$", "", place)
    return re.split(r"[/.]", name)[-1]
