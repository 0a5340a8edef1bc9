"""A small line of values over the nights, as SVG in the colours of the page: no words, no scale but its ends."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..drift import Night, Point

WIDTH, HEIGHT = 260, 88
#: Room for the two ends of the scale, above and below the line.
TOP, BOTTOM, SIDE = 17, 19, 8
DOT, DIAMOND = 2.5, 5


def sparkline(points: Sequence[Point], nights: Sequence[Night], *, ends: tuple[str, str]) -> str:
    """Values as dots on a line, spreads as bars, moves as diamonds, and a dashed rule where something was new.

    The text beside it says what it shows, so it is hidden from screen readers.

    Args:
        ends: the lowest and the highest value of the points, in words.
    """
    place = _scale(points, len(nights))
    marks = [
        *(_rule(index, place) for index, night in enumerate(nights) if night.changes),
        *(_bar(point, place) for point in points if point.high > point.low),
        _line(points, place),
        *(_mark(point, place) for point in points),
        *_labels(ends),
    ]
    inner = "\n".join(marks)
    return f'<svg class="ci-spark" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">\n{inner}\n</svg>'


def _scale(points: Sequence[Point], nights: int):
    """Function: a night and a value as a place in the drawing."""
    low, high = min(point.low for point in points), max(point.high for point in points)

    def place(night: int, value: float) -> tuple[float, float]:
        across = night / (nights - 1) if nights > 1 else 0.5
        up = (value - low) / (high - low) if high > low else 0.5
        x = SIDE + across * (WIDTH - 2 * SIDE)
        y = HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)
        return round(x, 1), round(y, 1)

    return place


def _rule(night: int, place) -> str:
    x, _ = place(night, 0)
    return f'<line class="ci-new" x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}"/>'


def _bar(point: Point, place) -> str:
    (x, bottom), (_, top) = place(point.night, point.low), place(point.night, point.high)
    return f'<line class="ci-bar" x1="{x}" y1="{bottom}" x2="{x}" y2="{top}"/>'


def _line(points: Sequence[Point], place) -> str:
    path = " ".join("{},{}".format(*place(point.night, point.value)) for point in points)
    return f'<polyline points="{path}"/>'


def _mark(point: Point, place) -> str:
    x, y = place(point.night, point.value)
    if not point.moved:
        return f'<circle cx="{x}" cy="{y}" r="{DOT}"/>'
    corners = ((x, y - DIAMOND), (x + DIAMOND, y), (x, y + DIAMOND), (x - DIAMOND, y))
    return '<polygon class="ci-moved" points="{}"/>'.format(" ".join(f"{a:.1f},{b:.1f}" for a, b in corners))


def _labels(ends: tuple[str, str]) -> list[str]:
    low, high = ends
    lines = [(HEIGHT - 4, low)] if low == high else [(11, high), (HEIGHT - 4, low)]
    return [f'<text x="0" y="{y}">{escape(text)}</text>' for y, text in lines]
