"""How the weight formats are called, coloured and marked on every page that compares them."""

from __future__ import annotations

from ..render.words import Words

#: Okabe and Ito's colours again: INT8 in light blue, INT4 from red (coarse) to blue (fine), NF4 green.
STYLES = {
    "float": ("#5A5A5A", "D"),
    "int8-tensor": ("#56B4E9", "s"),
    "int8-row": ("#56B4E9", "^"),
    "int8-group128": ("#56B4E9", "o"),
    "int4-tensor": ("#D55E00", "s"),
    "int4-row": ("#E69F00", "^"),
    "int4-group128": ("#0072B2", "o"),
    "nf4-group64": ("#009E73", "o"),
}
#: From here on a perplexity says "broken" and its digits say nothing.
MANY = 1000


def scheme_name(scheme: str, words: Words) -> str:
    """A scheme in words."""
    return {
        "float": words.gettext("full precision"),
        "int8-tensor": words.gettext("INT8 per tensor"),
        "int8-row": words.gettext("INT8 per row"),
        "int8-group128": words.gettext("INT8, groups of 128"),
        "int4-tensor": words.gettext("INT4 per tensor"),
        "int4-row": words.gettext("INT4 per row"),
        "int4-group128": words.gettext("INT4, groups of 128"),
        "nf4-group64": words.gettext("NF4, blocks of 64"),
    }[scheme]


def by_scheme(rows: list, scheme: str) -> object:
    """The row of one scheme."""
    return next(row for row in rows if row.scheme == scheme)


def perplexity_shown(value: float) -> float | int:
    """A perplexity as it is shown: two digits from a thousand on, since no reader can use more."""
    if value < MANY:
        return value
    step = 10 ** (len(str(int(value))) - 2)
    return round(value / step) * step
