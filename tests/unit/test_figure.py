"""Figures: a PNG, its alternative text, and an error for a glyph that no font has."""

import struct

import pytest
from matplotlib.figure import Figure

from cheap_inference.render import figure as module
from cheap_inference.render.figure import (
    COLOURS,
    DOTS_PER_INCH,
    SIZE,
    break_long_texts,
    figure,
    localise,
    texts_outside,
)
from cheap_inference.render.words import Words


def draw(title, locale="en"):
    words = Words(locale)

    def fill(drawn):
        axes = drawn.subplots()
        axes.plot([1, 10000], [0.5, 1.5], color=COLOURS["with_cache"])
        axes.set_title(title)
        localise(axes, words)

    return figure("test", fill, words, alt="A rising line.")


def test_a_figure_is_a_png_of_the_stated_size_with_alt_text():
    shown = draw("Rising")
    width, height = struct.unpack(">II", shown.data["image/png"][16:24])
    assert (width, height) == tuple(round(side * DOTS_PER_INCH) for side in SIZE)
    assert shown.metadata == {"figure": "test", "alt": "A rising line."}
    assert shown.data["text/plain"] == "A rising line."


def test_the_same_input_gives_the_same_bytes():
    assert draw("Rising").data == draw("Rising").data


def test_devanagari_is_drawn():
    assert draw("माध्यिका अनुपात", "hi").data["image/png"]


def test_a_missing_glyph_is_an_error():
    with pytest.raises(UserWarning, match="missing from font"):
        draw("\U00013000")


def test_a_text_that_leaves_the_figure_is_broken_in_two_lines():
    drawn = Figure(figsize=SIZE, layout="constrained")
    axes = drawn.subplots()
    axes.set_title("a title that is far too long for a narrow figure " * 2, loc="left")
    axes.set_xlabel("short")
    break_long_texts(drawn)
    title = axes.get_title(loc="left")
    assert title.count("\n") == 1
    assert abs(title.index("\n") - len(title) / 2) < 10
    assert axes.get_xlabel() == "short"


def test_a_text_that_reaches_the_edge_is_outside_and_a_tick_beside_it_is_not():
    drawn = Figure(figsize=SIZE, layout="constrained")
    axes = drawn.subplots()
    near = drawn.text(1 - 2 / 72 / SIZE[0], 0.5, "two points from the edge", ha="right")
    drawn.text(1 - 4 / 72 / SIZE[0], 0.7, "four points from the edge", ha="right")
    axes.set_yticks([0.5], ["kept off by the layout"])
    drawn.draw_without_rendering()
    assert [text for text in texts_outside(drawn) if text.get_text()[0] in "tfk"] == [near]


def test_texts_are_measured_at_the_resolution_of_the_file(monkeypatch):
    seen = []
    monkeypatch.setattr(module, "break_long_texts", lambda drawn: seen.append(drawn.dpi))
    draw("Rising")
    assert seen == [DOTS_PER_INCH]
