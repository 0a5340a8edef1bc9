"""Tables, figures and sentences of the section cache-size."""

from __future__ import annotations

from math import atan2, degrees
from types import SimpleNamespace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..render.display import Display, sentence
from ..render.figure import COLOURS, figure, localise
from ..render.table import Column, table
from ..render.words import Words

MEBIBYTE = 2**20
GIBIBYTE = 2**30
LINE_COLOURS = {"own": "model_a", "chapter": "model_b", "7b": "model_c"}
#: Lines whose name and crossing are written below them; those of the others stand above.
NAMED_BELOW = ("chapter",)
NAMED_AT = 2


def answer(record: SimpleNamespace, words: Words) -> Display:
    """The section's question in one counted sentence."""
    own = record.formula.rows[0]
    text = words.gettext(
        "This model keeps **{bytes} bytes** ({size}) for every token of context, in numbers of {element} bytes each."
    ).format(
        bytes=words.number(own.per_token),
        size=words.bytes(own.per_token),
        element=words.number(own.element_bytes),
    )
    return sentence(f"{text} {_agreement(record.formula.rows, words)}")


def _agreement(rows: list, words: Words) -> str:
    if all(row.agree for row in rows):
        return words.ngettext(
            "The formula, the tensors and the allocator agree to the byte for {n} shape.",
            "The formula, the tensors and the allocator agree to the byte for all {n} shapes.",
            len(rows),
        ).format(n=words.number(len(rows)))
    wrong = [_shape_words(words)[row.name] for row in rows if not row.agree]
    return words.gettext("The three counts do **not** agree for: {shapes}.").format(
        shapes=words.listed(wrong)
    )


def _shape_words(words: Words) -> dict[str, str]:
    return {
        "own": words.gettext("this model"),
        "chapter": words.gettext("the chapter's"),
        "multi-head": words.gettext("this model, a key-value head for each query head"),
        "one-kv-head": words.gettext("this model, one key-value head"),
        "own-head-dim": words.gettext("a head dimension of its own"),
    }


def formula_table(record: SimpleNamespace, words: Words) -> Display:
    """The three counts of five shapes."""
    columns = (
        Column("shape", words.gettext("Shape")),
        Column("factors", words.gettext("Factors")),
        Column("per_token", words.gettext("Per token"), unit=words.gettext("bytes")),
        Column("formula", words.gettext("Formula"), unit=words.gettext("bytes")),
        Column("tensors", words.gettext("Tensors"), unit=words.gettext("bytes")),
        Column("allocator", words.gettext("Allocator"), unit=words.gettext("bytes")),
    )
    rows = [
        (_shape_words(words)[row.name], _factors(row), row.per_token, row.formula, row.tensors, row.allocator)
        for row in record.formula.rows
    ]
    caption = words.gettext("A cache of {tokens} tokens, counted in three ways").format(
        tokens=words.number(record.formula.rows[0].tokens)
    )
    return table("three-ways", columns, rows, words, caption=caption, marked=[0])


def _factors(row: SimpleNamespace) -> str:
    return f"2 × {row.layers} × {row.kv_heads} × {row.head_dim} × {row.element_bytes}"


def head_dimension(record: SimpleNamespace, words: Words) -> Display:
    """What dividing hidden size by heads would have said of the last shape."""
    row = next(row for row in record.formula.rows if row.name == "own-head-dim")
    text = words.gettext(
        "The last shape names a head dimension of {named}, where hidden size divided by heads gives {divided}. With "
        "the quotient in its place the formula would count {wrong} bytes a token; the tensors hold {right}."
    ).format(
        named=words.number(row.head_dim),
        divided=words.number(row.divided_dim),
        wrong=words.number(row.per_token * row.divided_dim // row.head_dim),
        right=words.number(row.tensors // row.tokens),
    )
    return sentence(text)


def chapter(record: SimpleNamespace, words: Words) -> Display:
    """The chapter's numbers from a real cache of its shape."""
    found = record.chapter
    text = words.gettext(
        "The chapter's shape keeps {per_token} bytes a token in 16 bits. A real cache of {tokens} tokens is {tensors} "
        "tensors of shape {shape}, {bytes} bytes together."
    ).format(
        per_token=words.number(found.per_token),
        tokens=words.number(found.tokens),
        tensors=words.number(found.tensors),
        shape="({})".format(", ".join(str(size) for size in found.tensor_shape)),
        bytes=words.number(found.bytes),
    )
    return sentence(text)


def sliding(record: SimpleNamespace, words: Words) -> Display:
    """What a sliding-window layer has kept once the text is longer than its window."""
    found = record.formula.sliding
    text = words.gettext(
        "After {tokens} tokens a layer with a window of {window} kept {kept} positions, and a layer without a window "
        "{all}. The tensors of the two hold {tensors} bytes, the formula with that limit says {formula}."
    ).format(
        tokens=words.number(found.tokens),
        window=words.number(found.window),
        kept=words.number(found.kept_sliding),
        all=words.number(found.kept_full),
        tensors=words.number(found.tensors),
        formula=words.number(found.formula),
    )
    return sentence(text)


def users_table(record: SimpleNamespace, words: Words) -> Display:
    """Users times tokens, and the cache of them all."""
    found = record.users
    columns = (
        Column("users", words.gettext("Users")),
        Column("tokens_each", words.gettext("Tokens each")),
        Column("resident", words.gettext("Tokens in all")),
        Column("chapter_bytes", words.gettext("Chapter's shape"), unit="MiB", digits=0, scale=1 / MEBIBYTE),
        Column("own_bytes", words.gettext("This model"), unit="MiB", digits=0, scale=1 / MEBIBYTE),
    )
    rows = [(row.users, row.tokens, row.resident, row.chapter_bytes, row.own_bytes) for row in found.rows]
    marked = [index for index, row in enumerate(found.rows) if row.resident == found.resident_tokens]
    caption = words.gettext("The cache of many users, both models in 16 bits")
    return table("users", columns, rows, words, caption=caption, marked=marked)


def crowd(record: SimpleNamespace, words: Words) -> Display:
    """Which crowds keep the same total."""
    found = record.users
    same = [row for row in found.rows if row.resident == found.resident_tokens]
    text = words.gettext(
        "{crowds}: each of them keeps {resident} tokens, and each takes {size} in the chapter's shape."
    ).format(
        crowds=words.listed(f"{words.number(row.users)} × {words.number(row.tokens)}" for row in same),
        resident=words.number(found.resident_tokens),
        size=words.bytes(found.same_total_bytes),
    )
    return sentence(text)


def crossings(record: SimpleNamespace, words: Words) -> Display:
    """After how many tokens each model's cache outweighs its weights."""
    found = [_crossing(line, words) for line in record.curves.lines]
    return sentence(" ".join(found))


def _crossing(line: SimpleNamespace, words: Words) -> str:
    if line.crossing is None:
        text = words.gettext(
            "{title}: every layer has a window, so the cache stops growing below the weights."
        )
        return text.format(title=line.title)
    return words.gettext(
        "{title}: {weights} of weights, outweighed by the cache from {tokens} tokens on."
    ).format(title=line.title, weights=words.bytes(line.weight_bytes), tokens=words.number(line.crossing))


def growth_figure(record: SimpleNamespace, words: Words) -> Display:
    """Cache bytes against resident tokens, each model's weights as a mark, the crossings labelled."""
    found = record.curves

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        for line in found.lines:
            _draw_line(axes, found.tokens, line, words)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlim(found.tokens[0], found.tokens[-1] * 1.1)
        axes.set_ylim(top=max(max(line.cache) for line in found.lines) / GIBIBYTE * 3)
        axes.set_title(_growth_title(found.lines[0], words))
        axes.set_xlabel(words.gettext("tokens kept, of all users together (log scale)"))
        axes.set_ylabel(words.gettext("cache in 16 bits, GiB (log scale)"))
        axes.set_xticks(found.tokens[::2])
        localise(axes, words)

    alt = words.gettext(
        "Log-log chart of cache size against the tokens kept, one straight line a model. Dashed levels mark each "
        "model's weights; a dot with the number of tokens shows where the cache passes them."
    )
    return figure("growth", draw, words, alt=alt, size=(5.2, 4.2))


def _growth_title(line: SimpleNamespace, words: Words) -> str:
    if line.crossing is None:
        return words.gettext("A window keeps the cache below the weights")
    return words.gettext("From {tokens} tokens on, the cache outweighs the model").format(
        tokens=words.number(line.crossing)
    )


def _draw_line(axes: Axes, tokens: list[int], line: SimpleNamespace, words: Words) -> None:
    colour = COLOURS[LINE_COLOURS[line.name]]
    sizes = [size / GIBIBYTE for size in line.cache]
    weights = line.weight_bytes / GIBIBYTE
    axes.plot(tokens, sizes, color=colour)
    below = line.name in NAMED_BELOW
    away = 0.8 if below else 1.25  # a factor, since the axis is logarithmic
    (x, x_next), (y, y_next) = tokens[NAMED_AT : NAMED_AT + 2], sizes[NAMED_AT : NAMED_AT + 2]
    axes.text(
        x,
        y * away,
        words.gettext("7B class") if line.name == "7b" else line.title,
        rotation=degrees(atan2((y_next - y) * away, x_next - x)),
        rotation_mode="anchor",
        transform_rotates_text=True,
        va="top" if below else "bottom",
        color=colour,
    )
    axes.plot([tokens[0], line.crossing or tokens[-1]], [weights, weights], "--", color=colour, linewidth=1.2)
    text = words.gettext("weights {size}").format(size=words.bytes(line.weight_bytes))
    axes.annotate(
        text,
        (tokens[0], weights),
        xytext=(4, 3),
        textcoords="offset points",
        va="bottom",
        fontsize=9,
        color=colour,
    )
    if line.crossing is not None:
        axes.plot(line.crossing, weights, "o", color=colour)
        _label(axes, (line.crossing, weights), words.number(line.crossing), colour, below=below)


def _label(axes: Axes, point: tuple[float, float], label: str, colour: str, *, below: bool) -> None:
    """Below a point of a rising line and to its right, or above and to its left: clear of the line."""
    axes.annotate(
        label,
        point,
        xytext=(7, -4) if below else (-4, 2),
        textcoords="offset points",
        ha="left" if below else "right",
        va="top" if below else "bottom",
        fontsize=9,
        color=colour,
    )
