"""Tables, figures and sentences of the section kv-cache."""

from __future__ import annotations

from types import SimpleNamespace

from matplotlib.figure import Figure

from ..render.display import Display, sentence
from ..render.figure import COLOURS, figure, localise
from ..render.table import Column, table
from ..render.words import Words


def answer(record: SimpleNamespace, words: Words) -> Display:
    """The section's question in one measured sentence."""
    return sentence(f"{_speed(record.loops, words)} {_same_tokens(record.loops, words)}")


def _speed(loops: SimpleNamespace, words: Words) -> str:
    speedup = loops.speedup
    if speedup.low > 1:
        text = words.gettext(
            "With the cache, {tokens} new tokens came out **{ratio} faster** "
            "(middle half of the repeats: {low} to {high})."
        )
    elif speedup.high < 1:
        text = words.gettext(
            "With the cache, {tokens} new tokens took **longer**: the loop without it needed {ratio} the time "
            "(middle half of the repeats: {low} to {high})."
        )
    else:
        text = words.gettext(
            "For {tokens} new tokens the two loops showed **no difference beyond the noise** "
            "(ratios from {low} to {high})."
        )
    return text.format(
        tokens=words.number(loops.new_tokens),
        ratio=words.times(speedup.value),
        low=words.times(speedup.low),
        high=words.times(speedup.high),
    )


def _same_tokens(loops: SimpleNamespace, words: Words) -> str:
    if loops.identical:
        return words.gettext("Both loops chose the same tokens, one by one.")
    return words.gettext("The two loops did **not** choose the same tokens, which they should.")


def identity(record: SimpleNamespace, words: Words) -> Display:
    """Are the tokens equal?"""
    return sentence(_same_tokens(record.loops, words))


def margin(record: SimpleNamespace, words: Words) -> Display:
    """By how much was the closest choice decided, and how much does rounding move?"""
    text = words.gettext(
        "The closest of the {tokens} choices was decided by {margin} between the best and the second-best "
        "logit. Feeding the prompt token by token, where products of other shapes round differently, moved "
        "a logit by {noise} at most."
    ).format(
        tokens=words.number(record.loops.new_tokens),
        margin=words.number(record.loops.smallest_margin, 2),
        noise=words.number(record.loops.logit_noise, 6),
    )
    return sentence(text)


def speed_table(record: SimpleNamespace, words: Words) -> Display:
    """Positions and times of both loops."""
    loops = record.loops
    columns = (
        Column("loop", words.gettext("Loop")),
        Column("passes", words.gettext("Passes")),
        Column("positions", words.gettext("Positions")),
        Column("ms_per_token", words.gettext("Per new token"), unit="ms", varies=True),
        Column("ms_per_position", words.gettext("Per position"), unit="ms", varies=True),
    )
    rows = (
        (
            words.gettext("without the cache"),
            loops.passes,
            loops.positions_without,
            loops.token_without,
            loops.position_without,
        ),
        (
            words.gettext("with the cache"),
            loops.passes,
            loops.positions_with,
            loops.token_with,
            loops.position_with,
        ),
    )
    return table(
        "loops", columns, rows, words, caption=words.gettext("The same tokens, two loops"), marked=[1]
    )


def why_not_more(record: SimpleNamespace, words: Words) -> Display:
    """Why the gap in time is smaller than the gap in positions."""
    loops = record.loops
    text = words.gettext(
        "Without the cache the model works through {many} positions, with it through {few}: {positions} as many. "
        "The clock shows {ratio}, because a position inside a long pass cost {cheap} ms here, and a position "
        "fed alone cost {dear} ms."
    ).format(
        many=words.number(loops.positions_without),
        few=words.number(loops.positions_with),
        positions=words.times(loops.positions_without / loops.positions_with, 0),
        ratio=words.times(loops.speedup.value),
        cheap=words.number(loops.position_without.value),
        dear=words.number(loops.position_with.value),
    )
    return sentence(text)


def noise(record: SimpleNamespace, words: Words) -> Display:
    """How far apart two runs of the same loop are."""
    again = record.loops.noise
    text = words.gettext(
        "The noise of this comparison: the cached loop against itself, in the same alternation, gave ratios from "
        "{low} to {high}."
    ).format(low=words.number(again.low, 2), high=words.number(again.high, 2))
    return sentence(text)


def head_table(record: SimpleNamespace, words: Words) -> Display:
    """One head, one step, both ways."""
    columns = (
        Column("context", words.gettext("Context"), unit=words.gettext("tokens")),
        Column("ms_without", words.gettext("All rows"), unit="ms", varies=True),
        Column("ms_with", words.gettext("One row"), unit="ms", varies=True),
        Column("ratio", words.gettext("Ratio"), varies=True),
        Column("bytes_without", words.gettext("All scores"), unit=words.gettext("bytes")),
        Column("bytes_with", words.gettext("One row of scores"), unit=words.gettext("bytes")),
    )
    rows = [
        (
            row.context,
            row.step_without.value,
            row.step_with.value,
            row.ratio,
            row.scores_without_bytes,
            row.scores_with_bytes,
        )
        for row in record.head.rows
    ]
    caption = words.gettext("One attention head, one generation step")
    return table("head", columns, rows, words, caption=caption, marked=[4])


def head_products_table(record: SimpleNamespace, words: Words) -> Display:
    """Multiply-accumulates of one head, summed from a cold start."""
    caption = words.gettext("Multiply-accumulates of one attention head, from the first token to the last")
    return _products_table("head-products", record.products.head_rows, words, caption=caption)


def model_products_table(record: SimpleNamespace, words: Words) -> Display:
    """Multiply-accumulates of the whole model, summed from a cold start."""
    caption = words.gettext("Multiply-accumulates of the whole model, output head left out")
    return _products_table("model-products", record.products.model_rows, words, caption=caption)


def _products_table(name: str, rows: list, words: Words, *, caption: str) -> Display:
    columns = (
        Column("tokens", words.gettext("Tokens")),
        Column("macs_with", words.gettext("With the cache")),
        Column("macs_without", words.gettext("Without it")),
        Column("ratio", words.gettext("Ratio"), digits=1),
    )
    cells = [(row.tokens, row.with_cache, row.without_cache, row.ratio) for row in rows]
    return table(name, columns, cells, words, caption=caption)


def crossing(record: SimpleNamespace, words: Words) -> Display:
    """Where attention overtakes the linear layers, and the check of the count."""
    products = record.products
    text = words.gettext(
        "In this model attention costs as much as all projections together from {crossing} tokens on. The count is "
        "checked: a counter that watches a real pass over {positions} positions saw {watched} "
        "multiply-accumulates, the formula says {formula}."
    ).format(
        crossing=words.number(products.crossing_tokens),
        positions=words.number(products.counted_positions),
        watched=words.number(products.counted_by_watching),
        formula=words.number(products.counted_by_formula),
    )
    return sentence(text)


def cost_figure(record: SimpleNamespace, words: Words) -> Display:
    """Cost of a step, and summed, against the number of tokens: both loops, log-log."""
    curve = record.products.curve

    def draw(drawn: Figure) -> None:
        step, total = drawn.subplots(2, 1, sharex=True)
        _cost_panel(
            step,
            curve,
            "step",
            words,
            title=words.gettext("One step: flat for long, or growing from the start"),
        )
        _cost_panel(
            total, curve, "sum", words, title=words.gettext("Summed up: the gap opens with every token")
        )
        total.set_xlabel(words.gettext("tokens so far (log scale)"))
        localise(total, words, y=False)

    alt = words.gettext(
        "Two log-log charts of multiply-accumulates against the number of tokens, per step and summed. Without the "
        "cache both rise steeply from the first tokens; with it a step stays almost flat until attention takes over."
    )
    return figure("cost", draw, words, alt=alt, size=(5.2, 5.4))


def _cost_panel(axes, curve: list, prefix: str, words: Words, *, title: str) -> None:
    tokens = [row.tokens for row in curve]
    lines = (
        ("without", "without_cache", words.gettext("without the cache")),
        ("with", "with_cache", words.gettext("with the cache")),
    )
    for name, colour, label in lines:
        values = [getattr(row, f"{prefix}_{name}") for row in curve]
        axes.loglog(tokens, values, color=COLOURS[colour])
        below = (name, prefix) == ("with", "sum")
        axes.annotate(
            label,
            (tokens[7], values[7]),
            xytext=(8, -8) if below else (-8, 8),
            textcoords="offset points",
            ha="left" if below else "right",
            va="top" if below else "bottom",
            color=COLOURS[colour],
        )
    axes.set_title(title)
    axes.set_ylabel(words.gettext("MACs (log scale)"))


def head_figure(record: SimpleNamespace, words: Words) -> Display:
    """Measured time of one head's step against the context, both ways, with the spread."""

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        lines = (
            ("step_without", "without_cache", words.gettext("all rows again")),
            ("step_with", "with_cache", words.gettext("one row")),
        )
        for field, colour, label in lines:
            _timed_line(axes, record.head.rows, field, COLOURS[colour], label)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_title(words.gettext("One new row of scores, or the whole square again"))
        axes.set_xlabel(words.gettext("context in tokens (log scale)"))
        axes.set_ylabel(words.gettext("milliseconds a step (log scale)"))
        axes.set_xticks([row.context for row in record.head.rows])
        localise(axes, words)

    alt = words.gettext(
        "Log-log chart of the time of one attention head's step against the context. Computing all rows grows with "
        "the square of the context, computing one row far more slowly."
    )
    return figure("head", draw, words, alt=alt)


def _timed_line(axes, rows: list, field: str, colour: str, label: str) -> None:
    contexts = [row.context for row in rows]
    times = [getattr(row, field) for row in rows]
    axes.plot(contexts, [time.value for time in times], "o-", color=colour)
    axes.fill_between(
        contexts, [time.low for time in times], [time.high for time in times], color=colour, alpha=0.25, lw=0
    )
    axes.annotate(
        label,
        (contexts[-2], times[-2].value),
        xytext=(-6, 8),
        textcoords="offset points",
        ha="right",
        va="bottom",
        color=colour,
    )


def score_memory(record: SimpleNamespace, words: Words) -> Display:
    """What attention allocates, written out and fused."""
    found = record.fused
    text = words.gettext(
        "Written out, attention over {context} positions makes an allocation of {explicit}, the whole matrix of "
        "scores. The fused kernel's largest allocation for the same result was {fused}."
    ).format(
        context=words.number(found.context),
        explicit=words.bytes(found.explicit_bytes),
        fused=words.bytes(found.fused_bytes),
    )
    return sentence(text)
