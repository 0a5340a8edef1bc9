"""Tables, figures and sentences of the section batching."""

from __future__ import annotations

from types import SimpleNamespace

from matplotlib.figure import Figure

from ..quantity import Quantity
from ..render.display import Display, sentence
from ..render.figure import COLOURS, figure, localise
from ..render.table import Column, table
from ..render.words import Words
from .fuller_csv import with_csv

#: The chapter's points: batch size, throughput and wait relative to one request. Its "almost double" wait
#: from 16 to 32 is not a number, so that point is left out.
CHAPTER_POINT = (16, 6.0, 2.67)
GIGA = 1e9
#: Rows that a page shows; the CSV has all.
MOST_ROWS = 8
#: A rarer place of the knee would be printed as 0 %.
LEAST_SHARE = 0.005


def answer(record: SimpleNamespace, words: Words) -> Display:
    """How much more comes out of the largest batch, and what each request pays for it."""
    rows = _measured(record)
    text = words.gettext(
        "A step for {size} requests took **{wait} the time** of a step for one, and gave **{gain} the tokens per second**. "
    ).format(
        size=words.number(rows[-1].batch_size),
        wait=words.times(rows[-1].wait_ratio.value),
        gain=words.times(rows[-1].throughput_ratio.value),
    )
    return sentence(f"{text}{_knee(record.sweep, words)}")


def _measured(record: SimpleNamespace) -> list[SimpleNamespace]:
    return [row for row in record.sweep.rows if row.step is not None]


def _knee(sweep: SimpleNamespace, words: Words) -> str:
    if sweep.knee is None:
        return words.gettext(
            "Up to {largest} requests the last doubling still bought 20 % more tokens: the knee lies beyond."
        ).format(largest=words.number(sweep.largest))
    return words.gettext(
        "After {knee} requests no doubling bought 20 % more tokens: there lies the knee."
    ).format(knee=words.number(sweep.knee))


def sweep_table(record: SimpleNamespace, words: Words) -> Display:
    """Step time, throughput and both ratios by batch size."""
    columns = (
        Column("batch_size", words.gettext("Requests")),
        Column("cache_mib", words.gettext("Cache"), unit="MiB", scale=2**-20),
        Column("step_ms", words.gettext("Step"), unit="ms", varies=True),
        Column("tokens_per_second", words.gettext("Throughput"), unit=words.gettext("tokens/s"), varies=True),
        Column("throughput_ratio", words.gettext("Throughput, to one"), digits=2, varies=True),
        Column("wait_ratio", words.gettext("Wait, to one"), digits=2, varies=True),
    )
    rows = [_sweep_cells(row) for row in record.sweep.rows]
    caption = words.gettext(
        "One decode step, each request with {tokens} cached tokens; – where the batch does not fit into memory"
    ).format(tokens=words.number(record.sweep.cached_tokens))
    shown = [0, *range(max(1, len(rows) + 1 - MOST_ROWS), len(rows))]  # the first and the last ones
    knee = [place for place, i in enumerate(shown) if record.sweep.rows[i].batch_size == record.sweep.knee]
    short = table("batches", columns, [rows[i] for i in shown], words, caption=caption, marked=knee)
    return with_csv(short, columns, rows)


def _sweep_cells(row: SimpleNamespace) -> tuple:
    if row.step is None:
        return (row.batch_size, row.cache_bytes, None, None, None, None)
    return (
        row.batch_size,
        row.cache_bytes,
        row.step.value,
        row.throughput.value,
        row.throughput_ratio,
        row.wait_ratio,
    )


def knee(record: SimpleNamespace, words: Words) -> Display:
    """How sure the place of the knee is."""
    placed = [_placed(item, words) for item in record.sweep.knee_shares if item.share >= LEAST_SHARE]
    text = words.gettext(
        "How sure is the knee? The rounds of the measurement, drawn again many times with replacement, put it "
        "{places} of the draws."
    ).format(places=words.gettext(", ").join(placed))
    return sentence(text)


def _placed(item: SimpleNamespace, words: Words) -> str:
    share = words.percent(item.share)
    if item.batch_size is None:
        return words.gettext("beyond the largest batch in {share}").format(share=share)
    return words.gettext("at {size} in {share}").format(size=words.number(item.batch_size), share=share)


def free_setting(record: SimpleNamespace, words: Words) -> Display:
    """Does any size beat a smaller one in both numbers?"""
    better = record.sweep.faster_and_shorter
    if not better:
        return sentence(
            words.gettext(
                "No batch size beat a smaller one in throughput and in waiting time together: along the curve, one "
                "is paid for with the other."
            )
        )
    text = words.ngettext(
        "One batch size beat a smaller one in throughput **and** in waiting time: {sizes}. That says more about the "
        "smaller one, which is slow for its size on this machine, than about batching.",
        "{n} batch sizes beat a smaller one in throughput **and** in waiting time: {sizes}. That says more about the "
        "smaller ones, which are slow for their size on this machine, than about batching.",
        len(better),
    ).format(n=words.number(len(better)), sizes=words.gettext(", ").join(map(words.number, better)))
    return sentence(text)


def trade_figure(record: SimpleNamespace, words: Words) -> Display:
    """Throughput against waiting time, both relative to one request, the batch size along the curve."""
    rows = _measured(record)

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        waits, gains = ([getattr(row, name) for row in rows] for name in ("wait_ratio", "throughput_ratio"))
        axes.errorbar(
            [wait.value for wait in waits],
            [gain.value for gain in gains],
            xerr=_spread(waits),
            yerr=_spread(gains),
            fmt="o-",
            color=COLOURS["decode"],
            elinewidth=1,
        )
        for row in rows:
            last = row is rows[-1]
            size = words.quantity(row.batch_size, "requests" if last else "")
            axes.annotate(
                size,
                (row.wait_ratio.value, row.throughput_ratio.value),
                xytext=(0, 9) if last else (-6, 6),
                textcoords="offset points",
                ha="center" if last else "right",
                va="bottom",
                color=COLOURS["decode"],
            )
        size, gain, wait = CHAPTER_POINT
        axes.plot(wait, gain, "D", color=COLOURS["reference"], markerfacecolor="none", zorder=1)
        axes.annotate(
            words.gettext("the chapter: {size} requests").format(size=words.number(size)),
            (wait, gain),
            xytext=(0.6, 0.3),
            textcoords="axes fraction",
            color=COLOURS["reference"],
            arrowprops={
                "arrowstyle": "-",
                "relpos": (0, 1),
                "color": COLOURS["reference"],
                "lw": 0.8,
                "shrinkB": 4,
            },
        )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        # Room for the last point's label, which is the widest, beside and above it.
        axes.set_xlim(0.7, 1.5 * max(wait, *(row.wait_ratio.high for row in rows)))
        axes.set_ylim(top=1.7 * max(gain, *(row.throughput_ratio.high for row in rows)))
        axes.set_title(_trade_title(record.sweep, words))
        axes.set_xlabel(words.gettext("wait for a token, one request = 1 (log scale)"))
        axes.set_ylabel(words.gettext("tokens a second, one = 1 (log scale)"))
        localise(axes, words)

    alt = words.gettext(
        "Curve of throughput against the time a request waits for its token, both relative to a single request, "
        "with the batch size written along it. It rises steeply at first and bends towards the right."
    )
    return figure("trade", draw, words, alt=alt)


def _trade_title(sweep: SimpleNamespace, words: Words) -> str:
    if sweep.knee is None:
        return words.gettext("Every doubling still paid")
    return words.gettext("Up to {knee} requests, throughput is cheap").format(knee=words.number(sweep.knee))


def _spread(quantities: list[Quantity]) -> list[list[float]]:
    return [[q.value - q.low for q in quantities], [q.high - q.value for q in quantities]]


def bound(record: SimpleNamespace, words: Words) -> Display:
    """What the largest batch gets out of the machine, beside what the machine can do."""
    rows, sweep = _measured(record), record.sweep
    one, most = rows[0], rows[-1]
    text = words.gettext(
        "The machine's measured peak is {peak} × 10⁹ multiply-accumulates a second. One request used {one} of it, "
        "{size} requests used {most}. Over the same sizes the rate at which weights and cache are read went from "
        "{read_one} to {read_most} of the measured {bandwidth} × 10⁹ bytes a second. "
    ).format(
        peak=words.number(sweep.peak.value / GIGA),
        one=words.percent(one.matrix_share.value, 1),
        size=words.number(most.batch_size),
        most=words.percent(most.matrix_share.value),
        read_one=words.percent(one.read_share.value),
        read_most=words.percent(most.read_share.value),
        bandwidth=words.number(sweep.bandwidth.value / GIGA),
    )
    return sentence(f"{text}{_bound_verdict(most.matrix_share, words)}")


def _bound_verdict(share: Quantity, words: Words) -> str:
    if share.low > 0.5:
        return words.gettext("More than half of the peak: the large step is **compute-bound**.")
    if share.high < 0.5:
        return words.gettext(
            "Less than half of the peak: that the large step is compute-bound is **not shown here**."
        )
    return words.gettext(
        "Half of the peak lies within the spread: compute-bound or not, **the noise hides it**."
    )


def bound_figure(record: SimpleNamespace, words: Words) -> Display:
    """Shares of the peak product rate and of the read bandwidth over batch sizes."""
    rows = _measured(record)
    sizes = [row.batch_size for row in rows]

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        lines = (
            ("matrix_share", "model_b", words.gettext("products, of the\npeak rate"), rows[-1], "right", 10),
            ("read_share", "floor", words.gettext("bytes read, of the\nbandwidth"), rows[0], "left", 10),
        )
        for field, colour, label, at, side, above in lines:
            shares = [getattr(row, field) for row in rows]
            axes.plot(sizes, [100 * share.value for share in shares], "o-", color=COLOURS[colour])
            axes.fill_between(
                sizes,
                [100 * share.low for share in shares],
                [100 * share.high for share in shares],
                color=COLOURS[colour],
                alpha=0.25,
                lw=0,
            )
            axes.annotate(
                label,
                (at.batch_size, 100 * getattr(at, field).value),
                xytext=(0, above),
                textcoords="offset points",
                ha=side,
                va="bottom",
                color=COLOURS[colour],
            )
        axes.set_xscale("log", base=2)
        axes.set_ylim(0, 100)
        axes.set_title(words.gettext("From reading weights to multiplying"))
        axes.set_xlabel(words.gettext("requests in the batch (log scale)"))
        axes.set_ylabel(words.gettext("% of what the machine can do"))
        axes.set_xticks(sizes)
        localise(axes, words)

    alt = words.gettext(
        "Two lines over the batch size, in percent of what the machine was measured to do: the rate of products "
        "rises with the batch, the rate at which weights and cache are read falls."
    )
    return figure("bound", draw, words, alt=alt)


def answers_table(record: SimpleNamespace, words: Words) -> Display:
    """Prompts alone against the same prompts in batches."""
    columns = (
        Column("dtype", words.gettext("Numbers")),
        Column("batch_size", words.gettext("Requests")),
        Column("changed", words.gettext("Answers changed")),
        Column("first_difference", words.gettext("Equal tokens before"), varies=True),
        Column("margin", words.gettext("Margin there"), unit="logit", digits=3, varies=True),
    )
    rows = [
        (row.dtype, row.batch_size, row.changed, row.first_difference, row.margin)
        for row in record.answers.rows
    ]
    caption = words.gettext(
        "{prompts} prompts of {prompt_tokens} tokens, {new_tokens} greedy tokens each: in a batch against alone"
    ).format(
        prompts=words.number(record.answers.prompts),
        prompt_tokens=words.number(record.answers.prompt_tokens),
        new_tokens=words.number(record.answers.new_tokens),
    )
    return table("answers", columns, rows, words, caption=caption)


def answers(record: SimpleNamespace, words: Words) -> Display:
    """Did the neighbours change anything?"""
    changed = [row for row in record.answers.rows if row.changed]
    full = (
        words.gettext("In fp32 no request's tokens depended on its neighbours.")
        if record.answers.same_in_fp32
        else words.gettext("Even in fp32 some tokens depended on the neighbours.")
    )
    if not changed:
        return sentence(full + " " + words.gettext("Neither did they with the 16-bit numbers tried here."))
    first = min(changed, key=lambda row: row.first_difference)
    text = words.gettext(
        "In {dtype} {changed} of {prompts} answers changed, the first after {equal} equal tokens, where {margin}."
    ).format(
        dtype=first.dtype,
        changed=words.number(first.changed),
        prompts=words.number(record.answers.prompts),
        equal=words.number(first.first_difference),
        margin=_margin(first.margin, words),
    )
    return sentence(f"{full} {text}")


def _margin(margin: float, words: Words) -> str:
    if margin == 0:
        return words.gettext("the two best logits were equal")
    return words.gettext("the two best logits were {margin} apart").format(margin=words.number(margin))
