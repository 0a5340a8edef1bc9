"""The formula's tables and figure in the section speculative: expected, corrected, and where the two break even."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure

from .. import speculative as arithmetic
from ..render.display import Display, sentence
from ..render.figure import COLOURS, INK, PAPER, figure, localise
from ..render.table import Column, table
from ..render.words import Words
from .schemes import STYLES, scheme_name

#: The chapter's low and high corner: acceptance rate and the table row that the text speaks of.
MARKED = 0.3
#: Slower than plain decoding in the colour of "without", faster in that of "with".
SLOW_TO_FAST = LinearSegmentedColormap.from_list(
    "speedup", [COLOURS["without_cache"], PAPER, COLOURS["with_cache"]]
)
GRID = 101
#: The map's largest cost of a guess, in steps.
DEAREST = 1.25


def formula_table(record: SimpleNamespace, words: Words) -> Display:
    """Tokens a round and the speedup of the chapter's settings, a check taken as one step."""
    formula = record.formula
    tokens = [
        Column(
            f"tokens_{count}",
            words.gettext("Tokens a round, γ = {guesses}").format(guesses=words.number(count)),
            digits=2,
        )
        for count in formula.guesses
    ]
    speedups = [
        Column(f"speedup_{count}_{cost}", _setting(count, cost, words), unit="×", digits=2)
        for count, cost in formula.settings
    ]
    columns = (Column("acceptance", words.gettext("α"), digits=1), *tokens, *speedups)
    rows = [(row.acceptance, *row.tokens, *row.speedups) for row in formula.rows]
    marked = [i for i, row in enumerate(formula.rows) if row.acceptance == MARKED]
    caption = words.gettext("Expected tokens and speedup if a check costs one step (c: a guess, in steps)")
    return table("formula", columns, rows, words, caption=caption, marked=marked)


def _setting(count: int, cost: float, words: Words) -> str:
    return words.gettext("Speedup, γ = {guesses}, c = {cost}").format(
        guesses=words.number(count), cost=words.tick(cost)
    )


def cost_table(record: SimpleNamespace, words: Words) -> Display:
    """What a guess and a check cost here."""
    costs = record.costs
    name = scheme_name(record.drafts.main, words)
    rows: list[tuple] = [
        (words.gettext("a guess of the draft, {name}").format(name=name), costs.draft_cost),
        (words.gettext("a look-up"), costs.look_up_cost),
    ]
    rows += [
        (
            words.ngettext("a pass over {n} position", "a pass over {n} positions", check.positions).format(
                n=words.number(check.positions)
            ),
            check.cost,
        )
        for check in costs.checks
        if check.positions > 1
    ]
    columns = (
        Column("what", words.gettext("What")),
        Column("cost", words.gettext("Cost"), unit=words.gettext("steps"), varies=True),
    )
    caption = words.gettext("Costs in plain steps of the target, {tokens} tokens cached").format(
        tokens=words.number(costs.cached_tokens)
    )
    return table("costs", columns, rows, words, caption=caption)


def checks(record: SimpleNamespace, words: Words) -> Display:
    """What a check costs, and whether a short one may cost more than a long one."""
    guesses, checks = record.drafts.guesses, record.costs.checks[1:]
    main = next(one for one in checks if one.positions == guesses + 1)
    text = words.gettext("Checking {guesses} guesses costs **{cost} steps** here.").format(
        guesses=words.number(guesses), cost=words.number(main.cost.value, 1)
    )
    dear = [
        one.positions for one in checks if one.positions < main.positions and one.cost.low > main.cost.high
    ]
    if dear:
        more = words.gettext(
            "A shorter pass can cost more than a longer one, as over {positions} positions here: for products of so "
            "few rows the library has no kernel of its own."
        )
        text = f"{text} {more.format(positions=words.gettext(', ').join(map(words.number, dear)))}"
    return sentence(text)


def corrected_table(record: SimpleNamespace, words: Words) -> Display:
    """The formula's speedups beside those with the measured cost of a check."""
    checks = {check.positions: check.cost.value for check in record.costs.checks}
    settings = [tuple(one) for one in record.formula.settings[-1:]] + [(4, 0.1)]
    settings.sort()
    columns = [Column("acceptance", words.gettext("α"), digits=1)]
    for count, cost in settings:
        columns += [
            Column(f"formula_{count}", _setting(count, cost, words), unit="×", digits=2),
            Column(
                f"corrected_{count}",
                words.gettext("… with the measured check"),
                unit="×",
                digits=2,
                varies=True,
            ),
        ]
    rows = []
    for row in record.formula.rows:
        cells = [row.acceptance]
        for count, cost in settings:
            for check in (1.0, checks[count + 1]):
                cells.append(
                    arithmetic.expected_speedup(row.acceptance, count, draft_cost=cost, check_cost=check)
                )
        rows.append(tuple(cells))
    caption = words.gettext("The same speedups when a check costs what it costs here")
    return table("corrected", columns, rows, words, caption=caption, marked=[len(rows) - 1])


def break_even_figure(record: SimpleNamespace, words: Words) -> Display:
    """Speedup over acceptance rate and draft cost, with the lines of break-even and the drafts measured here."""
    guesses = record.drafts.guesses
    check = next(one.cost.value for one in record.costs.checks if one.positions == guesses + 1)

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        acceptance, cost = np.linspace(0, 1, GRID), np.linspace(0, DEAREST, GRID)
        speedups = _tokens(acceptance, guesses) / (guesses * cost[:, None] + check)  # [GRID, GRID]
        image = axes.pcolormesh(
            acceptance,
            cost,
            speedups,
            cmap=SLOW_TO_FAST,
            norm=TwoSlopeNorm(1, vmin=0, vmax=max(2.0, float(speedups.max()))),
            shading="gouraud",
            rasterized=True,
        )
        bar = drawn.colorbar(image, ax=axes)
        bar.set_label(words.gettext("speedup with the measured check, ×"))
        localise(bar.ax, words)
        _line(axes, guesses, check, "-", words.gettext("break-even, as measured"))
        _line(axes, guesses, 1.0, "--", words.gettext("break-even, by the formula"))
        _draft(axes, record, words)
        axes.legend(loc="upper left")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, DEAREST)
        axes.set_xlabel(words.gettext("acceptance rate α"))
        axes.set_ylabel(words.gettext("cost of a guess c, in steps"))
        axes.set_title(words.gettext("Guesses pay only if they are good and cheap"))
        axes.grid(False)
        localise(axes, words)

    alt = words.gettext(
        "Map of the speedup over the acceptance rate and the cost of a guess. It is above one in the lower right, "
        "where guesses are good and cheap. Two break-even lines cross the map; the one with the measured cost of a "
        "check leaves a smaller region than the formula's. The rounded copy lies above both lines."
    )
    return figure("break-even", draw, words, alt=alt, size=(5.2, 4.0))


def _line(axes: Axes, guesses: int, check: float, style: str, label: str) -> None:
    """Where the speedup is 1 if a check costs so much."""
    acceptance = np.linspace(0, 1, GRID)
    cost = (_tokens(acceptance, guesses) - check) / guesses
    axes.plot(acceptance[cost >= 0], cost[cost >= 0], style, color=INK, lw=1.5, label=label)


def _tokens(acceptance: np.ndarray, guesses: int) -> np.ndarray:
    return sum(acceptance**power for power in range(guesses + 1))


def _draft(axes: Axes, record: SimpleNamespace, words: Words) -> None:
    """The draft that was timed, where it lies on the map; at the upper edge if it is dearer still."""
    drafts, cost = record.drafts, record.costs.draft_cost.value
    colour, marker = STYLES[drafts.main]
    point = (drafts.main_acceptance, min(cost, DEAREST))
    axes.plot(*point, marker if cost <= DEAREST else "^", color=colour, ms=8, mec=INK, clip_on=False)
    axes.annotate(
        scheme_name(drafts.main, words),
        point,
        xytext=(0, -9),
        textcoords="offset points",
        ha="center",
        va="top",
        fontsize=8.5,
    )


def break_even(record: SimpleNamespace, words: Words) -> Display:
    """From which acceptance rate on a free guess and one of the rounded copy pay."""
    guesses, costs = record.drafts.guesses, record.costs
    check = next(one.cost.value for one in costs.checks if one.positions == guesses + 1)
    free, copied = (
        arithmetic.break_even(guesses, draft_cost=cost, check_cost=check)
        for cost in (costs.look_up_cost.value, costs.draft_cost.value)
    )
    first = (
        words.gettext("With the check as dear as measured, even free guesses never pay.")
        if free is None
        else words.gettext(
            "With the check as dear as measured, looked-up guesses pay from an acceptance rate of {share} on."
        ).format(share=words.percent(free))
    )
    second = (
        words.gettext("At the price of the rounded copy's guesses no acceptance rate is enough.")
        if copied is None
        else words.gettext("The rounded copy's guesses would pay from {share} on.").format(
            share=words.percent(copied)
        )
    )
    return sentence(f"{first} {second}")
