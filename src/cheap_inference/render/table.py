"""Tables: columns and raw values in, HTML for the reader and CSV for machines out."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ..quantity import Quantity
from .display import Display
from .words import Words


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        key: name in the CSV, ASCII.
        heading: what the reader sees, already in the reader's language.
        unit: unit shown under the heading; never repeated in the cells.
        digits: digits after the decimal mark; None: three significant ones.
        varies: the values differ from run to run (a timing), so a regression test masks them.
        scale: what a raw value is multiplied by for the reader (the CSV keeps it raw).
    """

    key: str
    heading: str
    unit: str = ""
    digits: int | None = None
    varies: bool = False
    scale: float = 1


def table(
    name: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[object]],
    words: Words,
    *,
    caption: str,
    marked: Sequence[int] = (),
) -> Display:
    """A table with a caption; `marked` rows are the ones that the text speaks of.

    A cell is a number, a `Quantity`, a bool, a str (already in the reader's language) or None.
    """
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"table {name}: a row has {len(row)} cells for {len(columns)} columns")
    html = _html(columns, rows, words, caption=caption, marked=set(marked))
    headings = " | ".join(column.heading for column in columns)
    plain = f"{caption}\n{headings}\n" + words.ngettext("{n} row", "{n} rows", len(rows)).format(n=len(rows))
    return Display({"text/html": html, "text/plain": plain}, {"table": name, "csv": to_csv(columns, rows)})


def _html(columns: Sequence[Column], rows: Sequence, words: Words, *, caption: str, marked: set[int]) -> str:
    numeric = [all(not isinstance(_raw(row[i]), str) for row in rows) for i in range(len(columns))]
    head = "".join(_heading(column, words, numeric[i]) for i, column in enumerate(columns))
    lines = [
        f'<div class="ci-table" role="region" tabindex="0" aria-label="{escape(caption)}"><table>',
        f"<caption>{escape(caption)}</caption>",
        f"<thead><tr>{head}</tr></thead>",
        "<tbody>",
    ]
    for index, row in enumerate(rows):
        cells = "".join(
            _cell(value, column, words, numeric=numeric[i], header=i == 0)
            for i, (value, column) in enumerate(zip(row, columns, strict=True))
        )
        lines.append(f'<tr class="marked">{cells}</tr>' if index in marked else f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</tbody>", "</table></div>"])


def _heading(column: Column, words: Words, numeric: bool) -> str:
    unit = f'<br><span class="unit">{escape(words.unit(column.unit))}</span>' if column.unit else ""
    kind = ' class="number"' if numeric else ""
    return f'<th scope="col"{kind}>{escape(column.heading)}{unit}</th>'


def _cell(value: object, column: Column, words: Words, *, numeric: bool, header: bool) -> str:
    classes = " ".join(filter(None, ("number" if numeric else "", "varies" if column.varies else "")))
    attribute = f' class="{classes}"' if classes else ""
    text = escape(_text(value, column, words)) + _spread(value, column, words)
    return f'<th scope="row"{attribute}>{text}</th>' if header else f"<td{attribute}>{text}</td>"


def _text(value: object, column: Column, words: Words) -> str:
    raw = _raw(value)
    if raw is None:
        return "–"
    if isinstance(raw, bool):
        return words.gettext("yes") if raw else words.gettext("no")
    if isinstance(raw, str):
        return raw
    scaled = raw if column.scale == 1 else raw * column.scale
    return words.number(scaled, column.digits)


def _spread(value: object, column: Column, words: Words) -> str:
    if not isinstance(value, Quantity) or value.low is None or value.n == 1:
        return ""
    ends = words.spread(value.low * column.scale, value.high * column.scale, column.digits)
    return f' <span class="spread">({escape(ends)})</span>'


def _raw(value: object) -> object:
    return value.value if isinstance(value, Quantity) else value


def to_csv(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> str:
    """The table in the C locale: raw values, and low, high and n beside every measured one."""
    spread = [
        any(isinstance(row[i], Quantity) and row[i].low is not None for row in rows)
        for i in range(len(columns))
    ]
    header = []
    for i, column in enumerate(columns):
        header += [column.key] + (
            [f"{column.key}_{end}" for end in ("low", "high", "n")] if spread[i] else []
        )
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        cells: list[object] = []
        for i, value in enumerate(row):
            cells.append(_raw(value))
            if spread[i]:
                measured = isinstance(value, Quantity)
                cells += [value.low, value.high, value.n] if measured else [None, None, None]
        writer.writerow(cells)
    return out.getvalue()
