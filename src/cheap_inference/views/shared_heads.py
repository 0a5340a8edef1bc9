"""Tables, figures and sentences of the section shared-heads."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

from matplotlib.figure import Figure

from ..quantity import Quantity
from ..render.display import Display, sentence
from ..render.figure import COLOURS, figure, localise
from ..render.table import Column, table
from ..render.words import Words

GIB = 2**30
#: How far a logarithmic axis goes on to the right for the names of the lines.
LABEL_ROOM = 4.5


def answer(record: SimpleNamespace, words: Words) -> Display:
    """What sharing saves, in the chapter's shape."""
    found = record.caches
    used = next(row for row in found.chapter if row.kv_heads == found.chapter_kv_heads)
    text = words.gettext(
        "In the chapter's model, {heads} query heads share {kv_heads} key-value heads, and a token takes {few} of "
        "cache. With a key-value head for each query head it would take {many}: **{ratio} as much**."
    ).format(
        heads=words.number(found.chapter_heads),
        kv_heads=words.number(found.chapter_kv_heads),
        few=words.bytes(used.bytes_per_token),
        many=words.bytes(found.multi_head_bytes),
        ratio=words.times(found.chapter_fold, 0),
    )
    return sentence(text)


def cache_table(record: SimpleNamespace, words: Words) -> Display:
    """Bytes a token of real caches, by number of key-value heads, for both shapes."""
    found = record.caches
    columns = (
        Column("shape", words.gettext("Shape")),
        Column("kv_heads", words.gettext("Key-value heads")),
        Column("queries_a_head", words.gettext("Queries sharing one")),
        Column("bytes_per_token", words.gettext("Cache per token"), unit=words.gettext("bytes")),
        Column("fold", words.gettext("Times smaller"), digits=0),
    )
    shapes = [(words.gettext("the chapter's"), found.chapter, found.chapter_heads, found.chapter_kv_heads)]
    if found.own != found.chapter:
        shapes.append((words.gettext("this model's"), found.own, found.own_heads, found.own_kv_heads))
    rows, marked = [], []
    for name, counted, heads, used in shapes:
        for row in counted:
            if row.kv_heads == used:
                marked.append(len(rows))
            rows.append((name, row.kv_heads, heads // row.kv_heads, row.bytes_per_token, row.fold))
    caption = words.gettext(
        "Caches really built, fp16; marked: the number of heads that the model was trained with"
    )
    return table("caches", columns, rows, words, caption=caption, marked=marked)


def products_table(record: SimpleNamespace, words: Words) -> Display:
    """Multiply-accumulates of one token, by number of key-value heads."""
    columns = (
        Column("kv_heads", words.gettext("Key-value heads")),
        Column("score_macs", words.gettext("Scores and sums")),
        Column("projection_macs", words.gettext("Projections")),
        Column("saved_macs", words.gettext("Saved")),
        Column("saved_percent", words.gettext("Share saved"), unit="%", digits=1, scale=100),
    )
    rows = [
        (row.kv_heads, row.score_macs, row.projection_macs, row.saved_macs, row.saved_share)
        for row in record.products.rows
    ]
    caption = words.gettext(
        "Multiply-accumulates of one token in the chapter's shape, after {context} cached tokens"
    ).format(context=words.number(record.products.context))
    marked = [i for i, row in enumerate(record.products.rows) if row.saved_macs == record.products.saved_macs]
    return table("products", columns, rows, words, caption=caption, marked=marked)


def products(record: SimpleNamespace, words: Words) -> Display:
    """Sharing buys little arithmetic."""
    found = record.products
    text = words.gettext(
        "Sharing leaves the products of scores and weighted sums as they are, to the last one. The key and value "
        "projections shrink by {saved} multiply-accumulates a token, {share} of the multi-head projections. The "
        "cache shrinks by a factor of {ratio}."
    ).format(
        saved=words.number(found.saved_macs),
        share=words.percent(found.saved_share, 1),
        ratio=words.number(record.caches.chapter_fold, 0),
    )
    return sentence(text)


def time_table(record: SimpleNamespace, words: Words) -> Display:
    """Time of attention alone and of a whole step at each head count."""
    times = record.times
    columns = (
        Column("kv_heads", words.gettext("Key-value heads")),
        Column("cache_mib", words.gettext("Cache"), unit="MiB", scale=2**-20),
        Column("attention_ms", words.gettext("Attention"), unit="ms", varies=True),
        Column("attention_ratio", words.gettext("to multi-head"), digits=2, varies=True),
        Column("step_ms", words.gettext("Whole step"), unit="ms", varies=True),
        Column("step_ratio", words.gettext("to multi-head"), digits=2, varies=True),
        Column("bytes_ratio", words.gettext("Bytes predict"), digits=2),
    )
    rows = [
        (
            row.kv_heads,
            row.cache_bytes,
            row.attention.value,
            row.attention_ratio,
            row.step.value,
            row.step_ratio,
            row.floor_ratio,
        )
        for row in times.rows
    ]
    caption = words.gettext(
        "One new token after {context}, this model's shape with random weights, at each number of key-value heads"
    ).format(context=words.number(times.context))
    marked = [i for i, row in enumerate(times.rows) if row.kv_heads == times.kv_heads]
    return table("times", columns, rows, words, caption=caption, marked=marked)


def time(record: SimpleNamespace, words: Words) -> Display:
    """What the smaller cache did to the clock."""
    shared = _shared_row(record.times)
    text = words.gettext(
        "With {kv_heads} key-value heads in place of {heads}, attention {attention}, and the whole step {step}. "
        "Counting the bytes of weights and cache alone, the step should take {floor} of the multi-head time. The "
        "noise: multi-head attention against itself gave ratios from {low} to {high}."
    ).format(
        kv_heads=words.number(shared.kv_heads),
        heads=words.number(record.times.heads),
        attention=_took(shared.attention_ratio, words),
        step=_took(shared.step_ratio, words),
        floor=words.percent(shared.floor_ratio),
        low=words.number(record.times.noise.low, 2),
        high=words.number(record.times.noise.high, 2),
    )
    return sentence(text)


def _shared_row(times: SimpleNamespace) -> SimpleNamespace:
    """The row of the model's own number of heads, or the fewest where it is multi-head itself."""
    own = (row for row in times.rows if row.kv_heads == times.kv_heads < times.heads)
    return next(own, times.rows[-1])


def _took(ratio: Quantity, words: Words) -> str:
    if ratio.high < 1:
        text = words.gettext("took {share} of the time")
    elif ratio.low > 1:
        text = words.gettext("took longer, {share} of the time")
    else:
        text = words.gettext("showed no difference beyond the noise ({share} of the time)")
    return text.format(share=words.percent(ratio.value))


def time_figure(record: SimpleNamespace, words: Words) -> Display:
    """Cache, attention and step at each head count, relative to multi-head."""
    rows = record.times.rows

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        places = range(len(rows))
        series = (
            ("step_ratio", "decode", words.gettext("time of the\nwhole step")),
            ("attention_ratio", "scores", words.gettext("time of\nattention alone")),
        )
        sizes = [row.cache_bytes / rows[0].cache_bytes for row in rows]
        axes.plot(places, sizes, "s--", color=COLOURS["reference"])
        heights = apart([sizes[-1], *(getattr(rows[-1], field).value for field, _, _ in series)], gap=0.18)
        _name_end(axes, places[-1], heights[0], words.gettext("bytes\nof the cache"), COLOURS["reference"])
        for (field, colour, label), height in zip(series, heights[1:], strict=True):
            ratios = [getattr(row, field) for row in rows]
            values = [ratio.value for ratio in ratios]
            spread = [[r.value - r.low for r in ratios], [r.high - r.value for r in ratios]]
            axes.errorbar(places, values, yerr=spread, fmt="o-", color=COLOURS[colour], capsize=3)
            _name_end(axes, places[-1], height, label, COLOURS[colour])
        axes.set_xticks(list(places), [words.number(row.kv_heads) for row in rows])
        axes.set_xlim(-0.2, 1.5 * (len(rows) - 1))
        axes.set_ylim(0, 1.15)
        in_order = sizes[-1] < rows[-1].attention_ratio.value < rows[-1].step_ratio.value
        axes.set_title(
            words.gettext("The cache shrinks most, the step least")
            if in_order
            else words.gettext("Fewer key-value heads: bytes and time")
        )
        axes.set_xlabel(words.gettext("key-value heads"))
        axes.set_ylabel(words.gettext("relative to multi-head"))
        localise(axes, words, x=False)

    alt = words.gettext(
        "Chart over the number of key-value heads: the bytes of the cache, the time of attention and the time of a "
        "whole decode step, each relative to multi-head."
    )
    return figure("head-times", draw, words, alt=alt)


def apart(values: list[float], *, gap: float) -> list[float]:
    """Heights for the names of lines that end at `values`: in the same order, `gap` or more between two."""
    heights = list(values)
    for below, above in pairwise(sorted(range(len(values)), key=values.__getitem__)):
        heights[above] = max(heights[above], heights[below] + gap)
    return heights


def _name_end(axes, x: float, y: float, label: str, colour: str) -> None:
    """Name a line where it ends."""
    axes.annotate(label, (x, y), xytext=(8, 0), textcoords="offset points", va="center", color=colour)


def seven_table(record: SimpleNamespace, words: Words) -> Display:
    """One user's cache in a 7B-class model over contexts."""
    found = record.seven
    columns = (
        Column("context", words.gettext("Context"), unit=words.gettext("tokens")),
        Column("multi_head", words.gettext("32 heads"), unit="GiB", scale=1 / GIB, digits=3),
        Column("grouped", words.gettext("8 heads"), unit="GiB", scale=1 / GIB, digits=3),
        Column("multi_query", words.gettext("1 head"), unit="GiB", scale=1 / GIB, digits=3),
        Column("grouped_percent", words.gettext("8 heads, of the weights"), unit="%", scale=100, digits=1),
    )
    rows = [
        (row.context, row.multi_head, row.grouped, row.multi_query, row.grouped_share) for row in found.rows
    ]
    caption = words.gettext("One user's cache in a 7B-class model: 32 layers, head dimension 128, fp16")
    return table("seven-billion", columns, rows, words, caption=caption, marked=[len(rows) - 1])


def seven(record: SimpleNamespace, words: Words) -> Display:
    """Where one user's cache outweighs the model."""
    found = record.seven
    text = words.gettext(
        "With 8 key-value heads a token takes {per_token}. From {crossing} tokens on, one user's cache is larger "
        "than the {weights} of weights; at {context} tokens it takes {cache}."
    ).format(
        per_token=words.bytes(found.bytes_per_token),
        crossing=words.number(found.crossing),
        weights=words.bytes(found.weight_bytes),
        context=words.number(found.rows[-1].context),
        cache=words.bytes(found.longest_cache_bytes),
    )
    return sentence(text)


def seven_figure(record: SimpleNamespace, words: Words) -> Display:
    """One user's cache against the context, with 32, 8 and 1 key-value heads, and the weights."""
    found = record.seven
    contexts = [row.context for row in found.rows]

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        lines = (
            ("multi_head", "model_b", words.gettext("32 heads:\nmulti-head")),
            ("grouped", "model_a", words.gettext("8 heads:\ngrouped")),
            ("multi_query", "model_c", words.gettext("1 head:\nmulti-query")),
        )
        for field, colour, label in lines:
            sizes = [getattr(row, field) / GIB for row in found.rows]
            axes.loglog(contexts, sizes, "o-", base=2, color=COLOURS[colour])
            _name_end(axes, contexts[-1], sizes[-1], label, COLOURS[colour])
        weights = found.weight_bytes / GIB
        axes.plot([contexts[0], contexts[-1]], [weights, weights], "--", color=COLOURS["reference"])
        axes.annotate(
            words.gettext("weights of the model"),
            (contexts[0], weights),
            xytext=(0, 5),
            textcoords="offset points",
            va="bottom",
            color=COLOURS["reference"],
        )
        axes.set_title(words.gettext("One user's cache can outgrow the model"))
        axes.set_xlabel(words.gettext("context in tokens (log scale)"))
        axes.set_ylabel(words.gettext("{unit} (log scale)").format(unit=words.unit("GiB")))
        axes.set_xticks(contexts)
        axes.tick_params(axis="x", rotation=30)
        axes.set_xlim(contexts[0] / 1.3, contexts[-1] * LABEL_ROOM)
        axes.set_yticks([1 / 16, 1 / 4, 1, 4, 16, 64])
        localise(axes, words)

    alt = words.gettext(
        "Log-log chart of one user's cache in a 7B-class model against the context, with 32, 8 and 1 key-value "
        "heads: three parallel rising lines. The dashed line of the weights is crossed by 32 heads early and by 8 "
        "heads near the longest context; with 1 head the cache stays far below."
    )
    return figure("seven-billion", draw, words, alt=alt, size=(5.2, 4.2))
