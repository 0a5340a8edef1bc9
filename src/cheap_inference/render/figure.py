"""Figures: one style, one colour for an idea through the whole book, PNG with alternative text."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from functools import cache
from importlib import resources

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter

from .display import Display
from .words import Words

#: Okabe and Ito's palette, which stays apart for colour-blind readers; one idea, one colour.
COLOURS = {
    "with_cache": "#0072B2",
    "without_cache": "#D55E00",
    "prefill": "#E69F00",
    "decode": "#0072B2",
    "reference": "#5A5A5A",
    "cache": "#0072B2",
    "scores": "#CC79A7",
    "logits": "#E69F00",
    "rest": "#8A8A8A",
    "floor": "#009E73",
    "overhead": "#CC79A7",
    "continuous": "#0072B2",
    "static": "#D55E00",
    "model_a": "#0072B2",
    "model_b": "#D55E00",
    "model_c": "#009E73",
    "model_d": "#CC79A7",
}
#: Points that a text keeps from the edges of its figure: a little less than the layout's own padding.
EDGE = 2.8
#: Inches. Narrow on purpose: at 350 px wide its ten-point labels are still ten pixels tall.
SIZE = (5.2, 3.5)
DOTS_PER_INCH = 220
POINTS_PER_INCH = 72
PAPER = "#FCFCFA"
INK = "#222222"
STYLE = {
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#888888",
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E3E3DF",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.titlesize": 11.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "lines.markersize": 5,
    "font.family": ["Noto Sans", "Noto Sans Devanagari", "DejaVu Sans"],
}


@cache
def _fonts() -> None:
    for package in ("fontpkg_noto_sans", "fontpkg_noto_sans_devanagari"):
        for path in resources.files(package).rglob("*.[to]tf"):
            font_manager.fontManager.addfont(str(path))


def figure(
    name: str, draw: Callable[[Figure], None], words: Words, *, alt: str, size: tuple[float, float] = SIZE
) -> Display:
    """Draw a figure and return it as PNG with its alternative text.

    `draw` fills an empty matplotlib figure. A glyph that no font has is an error.
    """
    _fonts()
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("error", message="Glyph .* missing from font")
        # The resolution of the file: texts have other widths at another.
        drawn = Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
        draw(drawn)
        break_long_texts(drawn)
        png = io.BytesIO()
        drawn.savefig(png, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return Display({"image/png": png.getvalue(), "text/plain": alt}, {"figure": name, "alt": alt})


def break_long_texts(drawn: Figure) -> None:
    """Break a text that reaches the edge into two lines: other languages need more room than English."""
    drawn.draw_without_rendering()
    for text in texts_outside(drawn):
        words = text.get_text().split(" ")
        lengths = [abs(len(" ".join(words[:n])) - len(" ".join(words[n:]))) for n in range(1, len(words))]
        if lengths and "\n" not in text.get_text():
            middle = 1 + lengths.index(min(lengths))
            text.set_text(" ".join(words[:middle]) + "\n" + " ".join(words[middle:]))


def texts_outside(drawn: Figure) -> list[Text]:
    """Texts of a drawn figure that reach its edges or go beyond them, and would look cut or be cut."""
    (width, height), edge = drawn.bbox.size, EDGE * drawn.dpi / POINTS_PER_INCH
    boxes = {text: text.get_window_extent() for text in drawn.findobj(Text) if text.get_text()}
    return [
        text
        for text, box in boxes.items()
        if text.get_visible() and min(box.x0, box.y0, width - box.x1, height - box.y1) < edge
    ]


def localise(axes: Axes, words: Words, *, x: bool = True, y: bool = True) -> None:
    """Write the ticks of an axis in the locale's number form, on log scales too."""
    formatter = FuncFormatter(lambda value, _: words.tick(value))
    for wanted, axis in ((x, axes.xaxis), (y, axes.yaxis)):
        if wanted:
            axis.set_major_formatter(formatter)
            axis.set_minor_formatter(FuncFormatter(lambda *_: ""))
