"""A table whose CSV holds more than a page can show: further rows or columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..render.display import Display
from ..render.table import Column, to_csv


def with_csv(shown: Display, columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> Display:
    """The table as it is shown, with these columns and rows as its CSV."""
    return dataclasses.replace(shown, metadata={**shown.metadata, "csv": to_csv(columns, rows)})
