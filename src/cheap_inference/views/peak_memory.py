"""Tables, figures and sentences of the section peak-memory."""

from __future__ import annotations

from types import SimpleNamespace

from matplotlib.figure import Figure

from ..claims import claims_of
from ..render.display import Display, sentence
from ..render.figure import COLOURS, figure, localise
from ..render.table import Column, table
from ..render.words import Words

MEBIBYTE = 2**20


def _headline(record: SimpleNamespace) -> SimpleNamespace:
    return next(row for row in record.peaks.rows if row.new_tokens == record.peaks.headline)


def answer(record: SimpleNamespace, words: Words) -> Display:
    """Which loop needs more, and what decides it."""
    row = _headline(record)
    every = words.gettext(
        "After {tokens} new tokens the plain loop without the cache needs **{ratio} as much** memory above the "
        "weights as the loop with it: {without} against {with_cache}."
    ).format(
        tokens=words.number(row.new_tokens),
        ratio=words.times(row.ratio_all, 1),
        without=words.bytes(row.all_logits.peak_bytes),
        with_cache=words.bytes(row.with_cache.peak_bytes),
    )
    return sentence(f"{every} {_without_surplus_logits(row, words)}")


def _without_surplus_logits(row: SimpleNamespace, words: Words) -> str:
    if row.ratio_last < 1:
        text = words.gettext(
            "Nearly all of that is logits nobody reads. Without them it needs {peak}, **less** than the cached loop, "
            "which holds its cache."
        )
    else:
        text = words.gettext(
            "Nearly all of that is logits nobody reads. Without them it needs {peak}, {ratio} what the cached loop does."
        )
    return text.format(peak=words.bytes(row.last_logits.peak_bytes), ratio=words.times(row.ratio_last, 1))


def identity(record: SimpleNamespace, words: Words) -> Display:
    """Same tokens out?"""
    if record.peaks.identical:
        return sentence(
            words.gettext("The first {n} tokens of both loops are the same.").format(
                n=words.number(record.peaks.compared_tokens)
            )
        )
    return sentence(words.gettext("The two loops do **not** write the same tokens, which they should."))


def split_table(record: SimpleNamespace, words: Words) -> Display:
    """What the peak of each loop consists of, at the headline length."""
    row = _headline(record)
    columns = (
        Column("loop", words.gettext("Loop")),
        *(
            Column(key, heading, unit="MiB", digits=2, scale=1 / MEBIBYTE, varies=True)
            for key, heading in (
                ("peak_bytes", words.gettext("Peak")),
                ("logits_bytes", words.gettext("Logits")),
                ("attention_bytes", words.gettext("Scores")),
                ("cache_bytes", words.gettext("Cache")),
                ("rest_bytes", words.gettext("Rest")),
            )
        ),
    )
    rows = [
        (
            label,
            split.peak_bytes,
            split.logits_bytes,
            split.attention_bytes,
            split.cache_bytes,
            split.rest_bytes,
        )
        for label, split in _loops(row, words)
    ]
    caption = words.gettext("What is live at the peak, after {tokens} new tokens").format(
        tokens=words.number(row.new_tokens)
    )
    return table("split", columns, rows, words, caption=caption, marked=[0])


def _loops(row: SimpleNamespace, words: Words) -> tuple[tuple[str, SimpleNamespace], ...]:
    return (
        (words.gettext("without the cache, all logits"), row.all_logits),
        (words.gettext("without the cache, last logits"), row.last_logits),
        (words.gettext("with the cache"), row.with_cache),
    )


def length_table(record: SimpleNamespace, words: Words) -> Display:
    """How the peaks and their ratios move with the length."""
    peak = {"unit": "MiB", "digits": 2, "scale": 1 / MEBIBYTE, "varies": True}
    columns = (
        Column("new_tokens", words.gettext("New tokens")),
        Column("all_logits_bytes", words.gettext("Without, all logits"), **peak),
        Column("last_logits_bytes", words.gettext("Without, last logits"), **peak),
        Column("with_cache_bytes", words.gettext("With the cache"), **peak),
        Column("ratio_all", words.gettext("Ratio, all logits"), digits=2, varies=True),
        Column("ratio_last", words.gettext("Ratio, last logits"), digits=2, varies=True),
    )
    rows = [
        (
            row.new_tokens,
            row.all_logits.peak_bytes,
            row.last_logits.peak_bytes,
            row.with_cache.peak_bytes,
            row.ratio_all,
            row.ratio_last,
        )
        for row in record.peaks.rows
    ]
    marked = [index for index, row in enumerate(record.peaks.rows) if row.new_tokens == record.peaks.headline]
    caption = words.gettext("Peak above the resident weights, by the length of the answer")
    return table("lengths", columns, rows, words, caption=caption, marked=marked)


def chapter_ratio(record: SimpleNamespace, words: Words) -> Display:
    """Which way of counting comes nearest to the chapter's ratio."""
    row = record.chapter
    ways = (
        (row.ratio_all, words.gettext("all logits without the cache, and only the last ones with it")),
        (row.ratio_plain, words.gettext("all logits in every pass of both loops, the prefill included")),
        (row.ratio_last, words.gettext("only the last logits in both loops")),
    )
    claim = next(claim for claim in claims_of("peak-memory") if claim.id == "peak-memory.less-with-cache")
    nearest = min(ways, key=lambda way: abs(way[0] - claim.chapter_value))
    text = words.gettext(
        "The chapter's shape in 16 bits gives three ratios: {ratio_all} with {all}; {ratio_plain} with {plain}; "
        "{ratio_last} with {last}. The chapter's {chapter} lies nearest to {nearest}, which suggests that this is how "
        "its loops called the model: with {way}."
    ).format(
        ratio_all=words.times(row.ratio_all, 1),
        ratio_plain=words.times(row.ratio_plain, 1),
        ratio_last=words.times(row.ratio_last, 1),
        all=ways[0][1],
        plain=ways[1][1],
        last=ways[2][1],
        chapter=words.tick(claim.chapter_value),
        nearest=words.times(nearest[0], 1),
        way=nearest[1],
    )
    return sentence(text)


def peak_figure(record: SimpleNamespace, words: Words) -> Display:
    """Peak against the number of new tokens, three loops."""
    rows = record.peaks.rows
    tokens = [row.new_tokens for row in rows]
    lines = (
        ("all_logits", COLOURS["without_cache"], "-", words.gettext("without, all logits")),
        ("with_cache", COLOURS["with_cache"], "-", words.gettext("with the cache")),
        ("last_logits", COLOURS["without_cache"], "--", words.gettext("without, last logits")),
    )

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        for field, colour, style, label in lines:
            peaks = [getattr(row, field).peak_bytes / MEBIBYTE for row in rows]
            axes.plot(tokens, peaks, "o", linestyle=style, color=colour)
            below = field == "last_logits"
            axes.annotate(
                label,
                (tokens[2], peaks[2]),
                xytext=(4, -10) if below else (-4, 8),
                textcoords="offset points",
                ha="left" if below else "right",
                va="top" if below else "bottom",
                color=colour,
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(tokens)
        axes.set_ylim(top=axes.get_ylim()[1] * 1.6)
        axes.set_title(words.gettext("Unread logits, not the missing cache, make the peak"))
        axes.set_xlabel(words.gettext("new tokens (log scale)"))
        axes.set_ylabel(words.gettext("peak above the weights, MiB (log scale)"))
        localise(axes, words)

    alt = words.gettext(
        "Log-log chart of peak memory above the weights against the number of new tokens. The loop without the cache "
        "that computes all logits lies highest; computing the last logits only brings it down many times over."
    )
    return figure("peaks", draw, words, alt=alt)
