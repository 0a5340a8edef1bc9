"""Labels inside figures: none meets another or leaves its axes, in any language."""

from itertools import combinations
from types import SimpleNamespace

import pytest
from matplotlib.text import Text

from cheap_inference import fits
from cheap_inference.experiments import fits as fits_experiment
from cheap_inference.quantity import Quantity
from cheap_inference.render import figure as module
from cheap_inference.render.words import Words
from cheap_inference.settings import LOCALES
from cheap_inference.views import batching, continuous_batching, weight_quantization
from cheap_inference.views import fits as fits_view


def ratio(value):
    return Quantity(value, "ratio", 0.95 * value, 1.05 * value, 5)


def trade(words):
    waits, gains = (1, 1.8, 1.7, 1.7, 2.0, 2.7, 4.1, 6.7), (1, 1.1, 2.4, 4.9, 8, 12, 15.5, 19)
    rows = [
        SimpleNamespace(batch_size=2**power, step=1, wait_ratio=ratio(wait), throughput_ratio=ratio(gain))
        for power, (wait, gain) in enumerate(zip(waits, gains, strict=True))
    ]
    return batching.trade_figure(SimpleNamespace(sweep=SimpleNamespace(rows=rows, knee=64)), words)


def gain(words):
    table = {0.2: (1, 2, 2), 0.6: (1.5, 5.7, 6), 1: (2, 6, 7.9), 1.25: (2.1, 5, 8.6), 1.5: (2.1, 4.6, 8.8)}
    table[None] = (2.1, 2.5, 10.4)
    names = ("throughput", "latency", "latency_two_clocks")
    rows = [
        SimpleNamespace(load=load, **dict(zip(names, map(ratio, found), strict=True)))
        for load, found in table.items()
    ]
    record = SimpleNamespace(loads=SimpleNamespace(rows=rows), engine=SimpleNamespace(slots=8))
    return continuous_batching.gain_figure(record, words)


def memory(words):
    tables = fits_experiment.chapter_tables(fits.fit)
    return fits_view.memory_figure(SimpleNamespace(tables=tables), words)


def error(words):
    found = {
        "int8-tensor": (8.0, 0.029, 0.12),
        "int8-row": (8.02, 0.0085, 0.012),
        "int8-group128": (8.125, 0.0069, 0.0087),
        "int4-tensor": (4.0, 0.49, 1.0),
        "int4-row": (4.02, 0.154, 0.21),
        "int4-group128": (4.125, 0.125, 0.16),
        "nf4-group64": (4.25, 0.094, 0.1),
    }
    names = ("bits_per_weight", "mean", "worst")
    rows = [
        SimpleNamespace(scheme=scheme, **dict(zip(names, values, strict=True)))
        for scheme, values in found.items()
    ]
    return weight_quantization.error_figure(SimpleNamespace(errors=SimpleNamespace(rows=rows)), words)


def shown(drawn):
    """The boxes of titles, of what is written inside the axes and of the ticks below them."""
    for axes in drawn.axes:
        for text in [axes._left_title, *axes.texts, *axes.get_xticklabels()]:
            if text.get_text().strip() and text.get_visible():
                yield text, text.get_window_extent()


def meeting(drawn):
    return [
        (one.get_text(), other.get_text())
        for (one, a), (other, b) in combinations(shown(drawn), 2)
        if min(a.x1, b.x1) > max(a.x0, b.x0) and min(a.y1, b.y1) > max(a.y0, b.y0)
    ]


def beyond_axes(drawn):
    found = []
    for axes in drawn.axes:
        frame = axes.get_window_extent()
        for text in axes.texts:
            box = text.get_window_extent()
            if box.x1 > frame.x1 or box.y0 < frame.y0 or box.y1 > frame.y1:
                found.append(text.get_text())
    return found


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("draw", [trade, gain, memory, error])
def test_labels_stand_clear(draw, locale, monkeypatch):
    drawings = []
    monkeypatch.setattr(module, "break_long_texts", drawings.append)
    draw(Words(locale))
    (drawn,) = drawings
    assert meeting(drawn) == []
    assert beyond_axes(drawn) == []


def test_the_check_sees_what_meets(monkeypatch):
    drawings = []
    monkeypatch.setattr(module, "break_long_texts", drawings.append)
    memory(Words("en"))
    (drawn,) = drawings
    (axes,) = drawn.axes
    first = next(text for text in axes.texts if isinstance(text, Text))
    axes.text(*first.get_position(), first.get_text())
    drawn.draw_without_rendering()
    assert meeting(drawn)
