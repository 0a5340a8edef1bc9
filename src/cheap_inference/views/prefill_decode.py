"""Tables, figures and sentences of the section prefill-decode."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..quantity import Quantity
from ..render.display import Display, sentence
from ..render.figure import COLOURS, INK, figure, localise
from ..render.table import Column, table
from ..render.words import Words

#: Milliseconds per token that the chapter reports for its own model and machine.
CHAPTER_PROMPT_TOKEN, CHAPTER_DECODED_TOKEN = 25.6, 166.5
MILLISECONDS = 1000
MEBIBYTE = 2**20


def answer(record: SimpleNamespace, words: Words) -> Display:
    """The section's question in one measured sentence."""
    found = record.phases.ratio
    if found.low > 1:
        text = words.gettext(
            "A token of the answer took **{ratio}** as long as a token of the prompt (middle half of the repeats: "
            "{low} to {high}): {decoded} ms against {prompt} ms."
        )
    elif found.high < 1:
        text = words.gettext(
            "A token of the answer took **less** time than a token of the prompt here: {ratio} of it (middle half of "
            "the repeats: {low} to {high}), {decoded} ms against {prompt} ms."
        )
    else:
        text = words.gettext(
            "The two kinds of token could **not** be told apart here: the ratio of their times ran from {low} to "
            "{high} (median {ratio}), with {decoded} ms for a token of the answer and {prompt} ms for one of the prompt."
        )
    return sentence(
        text.format(
            ratio=words.times(found.value),
            low=words.times(found.low),
            high=words.times(found.high),
            decoded=words.number(record.phases.decoded_token.value),
            prompt=words.number(record.phases.prompt_token.value),
        )
    )


def phases_table(record: SimpleNamespace, words: Words) -> Display:
    """Both phases of the request: tokens, time, time a token, tokens a second."""
    found = record.phases
    columns = (
        Column("phase", words.gettext("Phase")),
        Column("tokens", words.gettext("Tokens")),
        Column("ms", words.gettext("Time"), unit="ms", varies=True),
        Column("ms_per_token", words.gettext("Per token"), unit="ms", varies=True),
        Column("chapter_ms_per_token", words.gettext("Chapter, per token"), unit="ms", digits=1),
        Column("tokens_per_second", words.gettext("Rate"), unit=words.gettext("tokens/s"), varies=True),
    )
    rows = (
        (
            words.gettext("prefill"),
            found.prompt_tokens,
            found.first_token,
            found.prompt_token,
            CHAPTER_PROMPT_TOKEN,
            found.prompt_tokens_per_second,
        ),
        (
            words.gettext("decode"),
            found.steps,
            found.decode,
            found.decoded_token,
            CHAPTER_DECODED_TOKEN,
            found.tokens_per_second,
        ),
    )
    caption = words.gettext("One request on one clock, split into its two phases")
    return table("phases", columns, rows, words, caption=caption, marked=[1])


def timeline(record: SimpleNamespace, words: Words) -> Display:
    """One request from left to right: the prefill, then a bar for every decode step."""
    found = record.phases
    stamps = [stamp / MILLISECONDS for stamp in found.stamps]
    first = words.gettext("prefill: {n} tokens, first token after {seconds} s (TTFT)").format(
        n=words.number(found.prompt_tokens), seconds=words.number(stamps[0])
    )
    rest = words.gettext("decode: {n} tokens one by one, {rate} tokens/s").format(
        n=words.number(found.steps), rate=words.number(found.tokens_per_second.value)
    )
    title = words.gettext("{prompt} tokens read in {reading} s, {steps} written in {writing} s").format(
        prompt=words.number(found.prompt_tokens),
        reading=words.number(stamps[0]),
        steps=words.number(found.steps),
        writing=words.number(found.decode.value / MILLISECONDS),
    )

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        steps = [(start, end - start) for start, end in pairwise(stamps)]
        axes.broken_barh([(0, stamps[0])], (0, 1), color=COLOURS["prefill"])
        axes.broken_barh(steps, (0, 1), facecolor=COLOURS["decode"], edgecolor="white", linewidth=0.7)
        axes.plot(stamps, [1.14] * len(stamps), "|", color=COLOURS["reference"], markersize=5)
        # A label each side of the bar: however long the words and short the phase, they cannot meet.
        axes.text(0, 1.32, first, va="bottom")
        axes.text(stamps[-1], -0.14, rest, color=COLOURS["decode"], ha="right", va="top")
        axes.set_ylim(-0.75, 1.9)
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines["left"].set_visible(False)
        axes.set_title(title)
        axes.set_xlabel(words.gettext("seconds since the request; a tick is a token"))
        localise(axes, words, y=False)

    alt = words.gettext(
        "Timeline of one request. A first bar is the prefill of the whole prompt; after it come the decode steps, "
        "each a bar of its own that ends with one new token."
    )
    return figure("timeline", draw, words, alt=alt, size=(5.2, 2.4))


def prefill_figure(record: SimpleNamespace, words: Words) -> Display:
    """Milliseconds per prompt token against the length of the prompt, beside one decode step."""
    rows = record.prefill
    step = record.phases.decoded_token.value

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        _band(axes, [row.tokens for row in rows], [row.per_token for row in rows], COLOURS["prefill"])
        axes.axhline(step, color=COLOURS["decode"])
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_ylim(top=2.2 * max(step, *(row.per_token.high for row in rows)))
        _label(axes, (rows[-1].tokens, step), words.gettext("one decode step"), COLOURS["decode"], above=True)
        early = (rows[1].tokens, rows[1].per_token.high)
        _label(axes, early, words.gettext("a prompt token"), INK, above=True, side="left")
        axes.set_title(_prefill_title(rows, words))
        axes.set_xlabel(words.gettext("tokens in the prompt (log scale)"))
        axes.set_ylabel(words.gettext("milliseconds a token (log scale)"))
        axes.set_xticks([row.tokens for row in rows])
        localise(axes, words)

    alt = words.gettext(
        "Log-log chart of the prefill's time per token against the length of the prompt, with the spread, and a "
        "level line at the time of one decode step."
    )
    return figure("prefill", draw, words, alt=alt)


def _prefill_title(rows: list, words: Words) -> str:
    if rows[-1].per_token.high < rows[0].per_token.low:
        return words.gettext("In a longer prompt each token costs less")
    return words.gettext("A longer prompt makes its tokens no cheaper")


def prefill_fall(record: SimpleNamespace, words: Words) -> Display:
    """From where to where the time per prompt token moved."""
    short, long = record.prefill[0], record.prefill[-1]
    best = min(record.prefill, key=lambda row: row.per_token.value)
    text = words.gettext(
        "A token cost {dear} ms in a prompt of {short} tokens and {cheap} ms in one of {long}; the lowest price, "
        "{lowest} ms, was paid at {best}."
    ).format(
        dear=words.number(short.per_token.value),
        short=words.number(short.tokens),
        cheap=words.number(long.per_token.value),
        long=words.number(long.tokens),
        lowest=words.number(best.per_token.value),
        best=words.number(best.tokens),
    )
    return sentence(text)


def chapter_share(record: SimpleNamespace, words: Words) -> Display:
    """Cache bytes over weight bytes: the chapter's model and this one."""
    found = record.decode
    text = words.gettext(
        "At {context} tokens a step of the chapter's model reads {chapter} as many bytes of cache as of weights; "
        "a step of this model reads {own}."
    ).format(
        context=words.number(found.claimed_context),
        chapter=words.percent(found.share_chapter, 1),
        own=words.percent(found.share, 1),
    )
    return sentence(text)


def decode_table(record: SimpleNamespace, words: Words) -> Display:
    """The step over each context: measured, predicted, and the two parts that touch the cache."""
    columns = (
        Column("context", words.gettext("Cached"), unit=words.gettext("tokens")),
        Column("share", words.gettext("Cache / weights"), unit="%", digits=1, scale=100),
        Column("predicted", words.gettext("Ratio by bytes"), digits=2),
        Column("ratio", words.gettext("Ratio measured"), digits=2, varies=True),
        Column("ms", words.gettext("Step"), unit="ms", digits=1, varies=True),
        Column("attend_ms", words.gettext("Attention alone"), unit="ms", digits=1, varies=True),
        Column("append_ms", words.gettext("Appending alone"), unit="ms", digits=1, varies=True),
    )
    rows = [
        (
            row.context,
            row.share,
            row.predicted,
            row.ratio,
            row.step.value,
            row.attend.value,
            row.append.value,
        )
        for row in record.decode.rows
    ]
    caption = words.gettext("One decode step over a cache of exactly so many tokens")
    marked = [
        index for index, row in enumerate(record.decode.rows) if row.context == record.decode.claimed_context
    ]
    return table("decode", columns, rows, words, caption=caption, marked=marked)


def slope(record: SimpleNamespace, words: Words) -> Display:
    """Does the step grow with the context as its bytes do? At the claim's context, and at the longest."""
    found = record.decode
    claimed = next(row for row in found.rows if row.context == found.claimed_context)
    shortest, longest = found.rows[0], found.rows[-1]
    sentences = [_compared(row, shortest.context, words) for row in (claimed, longest)]
    parts = words.gettext(
        "Measured alone, attention over {context} tokens took {attend} ms and appending one token to them {append} "
        "ms; the whole step took {extra} ms longer than over {shortest}."
    ).format(
        context=words.number(longest.context),
        attend=words.number(longest.attend.value),
        append=words.number(longest.append.value),
        extra=words.number(longest.step.value - shortest.step.value),
        shortest=words.number(shortest.context),
    )
    return sentence(" ".join([*sentences, parts]))


def _compared(row: SimpleNamespace, shortest: int, words: Words) -> str:
    if row.ratio.low > row.predicted:
        text = words.gettext(
            "Over {context} tokens the step took {ratio} the time it takes over {shortest} (middle half: {low} to "
            "{high}), **more** than the {predicted} that the bytes predict."
        )
    elif row.ratio.high < row.predicted:
        text = words.gettext(
            "Over {context} tokens the step took {ratio} the time it takes over {shortest} (middle half: {low} to "
            "{high}), **less** than the {predicted} that the bytes predict."
        )
    else:
        text = words.gettext(
            "Over {context} tokens the step took {ratio} the time it takes over {shortest} (middle half: {low} to "
            "{high}), which **agrees** with the {predicted} that the bytes predict."
        )
    return text.format(
        context=words.number(row.context),
        shortest=words.number(shortest),
        ratio=words.times(row.ratio.value, 2),
        low=words.times(row.ratio.low, 2),
        high=words.times(row.ratio.high, 2),
        predicted=words.times(row.predicted, 2),
    )


def decode_figure(record: SimpleNamespace, words: Words) -> Display:
    """The step against the context, measured with its spread, and as the bytes alone predict it."""
    rows = record.decode.rows
    contexts, claimed = [row.context for row in rows], record.decode.claimed_context
    predicted = [rows[0].step.value * row.predicted for row in rows]

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        _band(axes, contexts, [row.step for row in rows], COLOURS["decode"])
        axes.plot(contexts, predicted, "--", color=COLOURS["reference"])
        axes.set_xscale("log", base=2)
        axes.set_ylim(0, 1.12 * max(*predicted, *(row.step.high for row in rows)))
        names = [
            (rows[-1].step.value, words.gettext("measured"), COLOURS["decode"]),
            (predicted[-1], words.gettext("if only bytes counted"), COLOURS["reference"]),
        ]
        (_, *low), (_, *high) = sorted(names)
        under, over = contexts.index(claimed), -2  # clear of both lines and of the band
        _label(axes, (contexts[-1], min(predicted[under], rows[under].step.low)), *low, above=False)
        _label(axes, (contexts[over], max(predicted[over], rows[over].step.high)), *high, above=True)
        axes.set_title(_decode_title(rows[-1], words))
        axes.set_xlabel(words.gettext("tokens in the cache (log scale)"))
        axes.set_ylabel(words.gettext("milliseconds a step"))
        axes.set_xticks([n for n in contexts if n <= claimed or n == contexts[-1]])
        localise(axes, words)

    alt = words.gettext(
        "Chart of one decode step's time against the tokens in the cache, on a logarithmic axis of tokens, with the "
        "spread; a dashed line shows the growth that the bytes read would predict."
    )
    return figure("decode", draw, words, alt=alt)


def _decode_title(longest: SimpleNamespace, words: Words) -> str:
    if longest.ratio.low <= 1:
        return words.gettext("The context is lost in the noise of a step")
    if longest.ratio.low > longest.predicted:
        return words.gettext("A long context costs more than its bytes")
    if longest.ratio.high < longest.predicted:
        return words.gettext("A long context costs less than its bytes")
    return words.gettext("A long context costs what its bytes say")


def turn_table(record: SimpleNamespace, words: Words) -> Display:
    """Time to the first token of the second turn, both ways."""
    columns = (
        Column("history", words.gettext("History"), unit=words.gettext("tokens")),
        Column("recomputed_ms", words.gettext("Recomputed"), unit="ms", varies=True),
        Column("reused_ms", words.gettext("Reused"), unit="ms", varies=True),
        Column("ratio", words.gettext("Ratio"), digits=1, varies=True),
        Column("cache_bytes", words.gettext("Cache kept"), unit="MiB", digits=1, scale=1 / MEBIBYTE),
    )
    rows = [
        (row.history, row.recomputed, row.reused, row.ratio.value, row.cache_bytes)
        for row in record.turn.rows
    ]
    caption = words.gettext(
        "Time to first token of a message of {tokens} tokens, by what came before"
    ).format(tokens=words.number(record.turn.message_tokens))
    return table("turn", columns, rows, words, caption=caption, marked=[len(rows) - 1])


def turn(record: SimpleNamespace, words: Words) -> Display:
    """What keeping the cache saved at the longest history, and whether it changed the token."""
    rows = record.turn.rows
    longest = rows[-1]
    if longest.ratio.low > 1:
        text = words.gettext(
            "After {history} tokens of history the first token came **{ratio} sooner** with the cache kept "
            "(spread {low} to {high})."
        )
    else:
        text = words.gettext(
            "After {history} tokens of history keeping the cache brought **no** measurable gain here: {ratio} "
            "(spread {low} to {high})."
        )
    gain = text.format(
        history=words.number(longest.history),
        ratio=words.times(longest.ratio.value),
        low=words.times(longest.ratio.low),
        high=words.times(longest.ratio.high),
    )
    return sentence(f"{gain} {_same_first_tokens(rows, words)}")


def _same_first_tokens(rows: list, words: Words) -> str:
    if not any(row.logit_difference for row in rows):
        return words.gettext("Both ways gave the same logits every time, to the last bit.")
    if all(row.same_token for row in rows):
        text = words.gettext(
            "Both ways gave the same first token every time; no logit moved by more than {moved}."
        )
    else:
        text = words.gettext(
            "The two ways did **not** give the same first token every time; the largest change of a logit was {moved}."
        )
    return text.format(moved=words.number(max(row.logit_difference for row in rows), 6))


def _band(axes: Axes, x: list, times: list[Quantity], colour: str) -> None:
    """A line through the medians, and the middle half as a band around it."""
    axes.plot(x, [time.value for time in times], "o-", color=colour)
    axes.fill_between(
        x, [time.low for time in times], [time.high for time in times], color=colour, alpha=0.3, lw=0
    )


def _label(
    axes: Axes, point: tuple[float, float], label: str, colour: str, *, above: bool, side: str = "right"
) -> None:
    """A label above or below a point, `side` of the text at the point."""
    axes.annotate(
        label,
        point,
        xytext=(0, 7 if above else -9),
        textcoords="offset points",
        ha=side,
        va="bottom" if above else "top",
        color=colour,
    )
