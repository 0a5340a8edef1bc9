"""What binds a pass, in the section prefill-decode: the machine's rates, the causes of a pass, both phases side by side."""

from __future__ import annotations

from types import SimpleNamespace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..render.display import Display, sentence
from ..render.figure import COLOURS, INK, figure, localise
from ..render.table import Column, table
from ..render.words import Words


def machine(record: SimpleNamespace, words: Words) -> Display:
    """What this machine reaches, in the three rates that matter here."""
    found = record.bounds
    text = words.gettext(
        "This machine reads memory at {bandwidth} a second. The library's matrix–vector product reads this model's "
        "matrices at {matvec} a second. A large matrix product does {macs} billion multiply-accumulates a second."
    ).format(
        bandwidth=words.bytes(found.read_bandwidth.value),
        matvec=words.bytes(found.matvec_bandwidth.value),
        macs=words.number(found.throughput.value / 1e9),
    )
    return sentence(text)


def _share_words(words: Words) -> dict[str, str]:
    return {
        "floor": words.gettext("weights read at full bandwidth"),
        "compute": words.gettext("products at full throughput"),
        "kernel": words.gettext("the products' actual time beyond that"),
        "overhead": words.gettext("dispatch of the operators"),
        "rest": words.gettext("the rest"),
    }


def budget_table(record: SimpleNamespace, words: Words) -> Display:
    """Where the milliseconds of both phases went."""
    budgets = (record.bounds.prefill, record.bounds.decode)
    columns = (
        Column("share", words.gettext("Share of the pass")),
        Column("prefill_ms", words.gettext("Prefill"), unit="ms", digits=1, varies=True),
        Column("decode_ms", words.gettext("Decode step"), unit="ms", digits=1, varies=True),
    )
    rows = [
        (label, *(getattr(budget, name) for budget in budgets)) for name, label in _share_words(words).items()
    ]
    rows.append((words.gettext("measured"), *(budget.measured for budget in budgets)))
    caption = words.gettext("Reading and multiplying overlap, so only the longer of the first two counts")
    return table("budget", columns, rows, words, caption=caption, marked=[len(rows) - 1])


def bound_words(names: list[str], words: Words) -> str:
    """A verdict of `largest_shares`: one name, or two that could not be told apart."""
    known = {
        "memory": words.gettext("memory-bound"),
        "compute": words.gettext("compute-bound"),
        "kernel": words.gettext("kernel-bound"),
        "overhead": words.gettext("overhead-bound"),
    }
    if len(names) == 1:
        return known[names[0]]
    return words.gettext("undecided between {one} and {other}").format(
        one=known[names[0]], other=known[names[1]]
    )


def verdict(record: SimpleNamespace, words: Words) -> Display:
    """What binds the decode step, and how much the probes leave unexplained."""
    step = record.bounds.decode
    cause = words.gettext("The decode step is **{bound}** here. Its {step} ms divide into {parts}.").format(
        bound=bound_words(step.bound, words),
        step=words.number(step.measured.value),
        parts=words.gettext(", ").join(
            words.gettext("{label} ({ms} ms)").format(label=label, ms=words.number(getattr(step, name)))
            for name, label in list(_share_words(words).items())[:4]
            if name != _hidden(step)
        ),
    )
    if step.rest < 0:
        rest = words.gettext(
            "Together that is {ms} ms **more** than the step took: the parts overlap, or a probe was disturbed."
        )
    else:
        rest = words.gettext("The probes leave {ms} ms unexplained, {share} of the step.")
    rest = rest.format(
        ms=words.number(abs(step.rest)), share=words.percent(abs(step.rest) / step.measured.value)
    )
    return sentence(f"{cause} {rest}")


def _hidden(budget: SimpleNamespace) -> str:
    """The shorter of reading and multiplying: it is done while the other goes on."""
    return "compute" if budget.floor >= budget.compute else "floor"


def step_figure(record: SimpleNamespace, words: Words) -> Display:
    """The decode step as a stack of its causes, each starting where the one above ends."""
    step = record.bounds.decode
    colours = {"floor": "floor", "compute": "prefill", "kernel": "without_cache", "overhead": "overhead"}
    labels = {name: label for name, label in _share_words(words).items() if name != _hidden(step)}
    title = words.gettext("One decode step: two shares too close to call")
    if len(step.bound) == 1:
        title = words.gettext("One decode step: {bound}").format(bound=bound_words(step.bound, words))

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        start = 0.0
        for row, (name, label) in enumerate(labels.items()):
            width = getattr(step, name)
            _stacked_bar(axes, row, start, width, COLOURS[colours.get(name, "rest")], label, words)
            start += width
        row = len(labels)
        _stacked_bar(axes, row, 0, step.measured.value, COLOURS["decode"], words.gettext("measured"), words)
        axes.hlines(row + 0.2, step.measured.low, step.measured.high, color=INK, linewidth=1.5)
        axes.set_xlim(right=1.05 * max(start, step.measured.high))
        axes.set_ylim(row + 0.5, -0.6)  # from the top down, with room for the first label under the title
        axes.set_yticks([])
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.set_title(title)
        axes.set_xlabel(words.gettext("milliseconds"))
        localise(axes, words, y=False)

    alt = words.gettext(
        "Horizontal stacked bars of one decode step: reading the weights at full bandwidth, what the matrix products "
        "take beyond that, dispatch and the rest, each starting where the one above ends; the last bar is the "
        "measured step with its spread."
    )
    return figure("step", draw, words, alt=alt, size=(5.2, 3.6))


def _stacked_bar(
    axes: Axes, row: int, start: float, width: float, colour: str, label: str, words: Words
) -> None:
    """A bar with its label and value above it: there the words have the whole width to themselves."""
    axes.barh(row + 0.2, width, left=start, height=0.42, color=colour)
    text = words.gettext("{label}: {ms} ms").format(label=label, ms=words.number(width, 1))
    axes.text(0, row - 0.06, text, va="bottom", ha="left", fontsize=9)


def sides_table(record: SimpleNamespace, words: Words) -> Display:
    """The two phases side by side: product, arithmetic per byte, what binds, what a user calls it."""
    found = record.bounds
    columns = (
        Column("property", words.gettext("What differs")),
        Column("prefill", words.gettext("Prefill"), varies=True),
        Column("decode", words.gettext("Decode"), varies=True),
    )
    budgets = (found.prefill, found.decode)
    rows = (
        (words.gettext("shape of a product"), *(_product(found, budget) for budget in budgets)),
        (words.gettext("MACs per byte of weights read"), *(budget.macs_per_byte for budget in budgets)),
        (words.gettext("what binds here"), *(bound_words(budget.bound, words) for budget in budgets)),
        (
            words.gettext("what a user calls it"),
            words.gettext("time to first token (TTFT)"),
            words.gettext("tokens per second"),
        ),
    )
    return table(
        "sides", columns, rows, words, caption=words.gettext("The same weights, two phases"), marked=[1]
    )


def _product(found: SimpleNamespace, budget: SimpleNamespace) -> str:
    rows, columns = found.product_rows, found.product_columns
    return f"[{budget.positions}, {rows}] × [{rows}, {columns}]"
