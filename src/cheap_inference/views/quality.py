"""Tables, figures and sentences of the section quality."""

from __future__ import annotations

from types import SimpleNamespace

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from ..render.display import Display, sentence
from ..render.figure import COLOURS, INK, figure, localise
from ..render.table import Column, table
from ..render.words import Words
from .schemes import MANY, STYLES, by_scheme, perplexity_shown, scheme_name

PERCENT = 100
#: Where the name of a scheme stands beside its mark, in points to the right and up.
LABELS = {
    "int8-tensor": (-1, -10),
    "int8-row": (1, -5),
    "int8-group128": (2, 12),
    "int4-tensor": (-8, 2),
    "int4-row": (8, 4),
    "int4-group128": (-9, 0),
    "nf4-group64": (8, 4),
}
#: The perplexity axis ends at so many times the reference; what lies beyond is drawn at its end.
FIGURE_SPAN = 2.6


def answer(record: SimpleNamespace, words: Words) -> Display:
    """The section's question in measured sentences."""
    rows = record.scores.rows
    reference, int8, int4 = (by_scheme(rows, name) for name in ("float", "int8-row", "int4-tensor"))
    first = words.gettext(
        "INT8 per row has a perplexity of {int8} where full precision has {reference}: {verdict} on this text."
    ).format(
        int8=words.number(int8.score.perplexity, 1),
        reference=words.number(reference.score.perplexity, 1),
        verdict=_verdict(int8, words),
    )
    worst = perplexity_shown(int4.score.perplexity)
    guessing = record.scores.setup.vocabulary
    if int4.score.perplexity > guessing:
        second = words.gettext(
            "INT4 per tensor has a perplexity of {perplexity}, **worse than guessing** uniformly over the {vocabulary} tokens of the vocabulary."
        )
    else:
        second = words.gettext(
            "INT4 per tensor has a perplexity of {perplexity}; guessing uniformly over the vocabulary would give {vocabulary}."
        )
    second = second.format(perplexity=words.number(worst), vocabulary=words.number(guessing))
    return sentence(f"{first} {second}")


def _verdict(row: SimpleNamespace, words: Words) -> str:
    if not row.distinguishable:
        return words.gettext("**not distinguishable**")
    if row.difference.value > 0:
        return words.gettext("**worse, beyond the uncertainty**")
    return words.gettext("**better, beyond the uncertainty**")


def setup(record: SimpleNamespace, words: Words) -> Display:
    """What the numbers were measured on."""
    found = record.scores.setup
    first = (
        words.gettext("The tokenizer adds a first token of its own, and every token of the text is scored.")
        if found.first_token_added
        else words.gettext("The tokenizer adds no first token, so the first token of the text is not scored.")
    )
    text = words.gettext(
        "Text: the first {tokens} tokens ({bytes} bytes) of the evaluation range; SHA-256 of the corpus {digest}…; "
        "windows of {window} tokens, moved by {stride}. {first} Agreement: {prompts} prompts × {continued} tokens. "
        "Bootstrap: {resamples} resamples of blocks of {block} tokens, seed {seed}."
    ).format(
        tokens=words.number(found.tokens),
        bytes=words.number(found.bytes),
        digest=found.corpus_sha256[:12],
        window=words.number(found.window),
        stride=words.number(found.stride),
        first=first,
        prompts=words.number(found.prompts),
        continued=words.number(found.continued_tokens),
        resamples=words.number(found.resamples),
        block=words.number(found.block_length),
        seed=str(found.seed),
    )
    return sentence(text)


def score_table(record: SimpleNamespace, words: Words) -> Display:
    """All schemes on all three instruments."""
    scores = record.scores
    columns = (
        Column("scheme", words.gettext("Scheme")),
        Column("perplexity", words.gettext("Perplexity")),
        Column("bits_per_byte", words.gettext("Bits per byte"), digits=2),
        Column(
            "agreed", words.gettext("Same choice, of {n}").format(n=scores.rows[0].score.positions), digits=0
        ),
        Column("correct", words.gettext("Questions, of {n}").format(n=scores.setup.questions), digits=0),
    )
    rows = [
        (
            scheme_name(row.scheme, words),
            perplexity_shown(row.score.perplexity),
            row.bits_per_byte,
            row.score.agreed.value if row.scheme == "float" else row.score.agreed,
            row.marks[0].correct,
        )
        for row in scores.rows
    ]
    caption = words.gettext("Three instruments (95 % intervals: prompts resampled, and Wilson's)")
    return table("scores", columns, rows, words, caption=caption, marked=[2])


def difference_table(record: SimpleNamespace, words: Words) -> Display:
    """Differences to full precision, token by token."""
    columns = (
        Column("scheme", words.gettext("Scheme")),
        Column("difference", words.gettext("Perplexity minus reference"), digits=2),
        Column("distinguishable", words.gettext("Distinguishable")),
        Column("divergence", words.gettext("KL a token"), unit=words.gettext("nats")),
        Column("flips", words.gettext("Top choice changed"), unit="%", digits=1, scale=PERCENT),
    )
    rows = [
        (
            scheme_name(row.scheme, words),
            row.difference if row.difference.value < MANY else None,
            row.distinguishable,
            row.divergence,
            row.flips,
        )
        for row in record.scores.rows[1:]
    ]
    caption = words.gettext(
        "Paired with the reference on the same tokens (95 % intervals; a dash: above {many})"
    ).format(many=words.number(MANY))
    return table("differences", columns, rows, words, caption=caption, marked=[1])


def instruments_figure(record: SimpleNamespace, words: Words) -> Display:
    """Weight error to perplexity to agreement, over all schemes."""
    scores = record.scores

    def draw(drawn: Figure) -> None:
        top, bottom = drawn.subplots(2, 1, sharex=True)
        _perplexities(top, scores, words)
        _agreements(bottom, scores, words)

    alt = words.gettext(
        "Two charts over the mean weight error, log scale. Above, perplexity stays at the reference while the error "
        "is about a hundredth, rises at a tenth, and leaves the chart for the scheme with the largest error. Below, "
        "agreement with the reference falls with the error, from nearly all positions down."
    )
    return figure("instruments", draw, words, alt=alt, size=(5.2, 5.6))


def _perplexities(axes: Axes, scores: SimpleNamespace, words: Words) -> None:
    reference = scores.rows[0].score.perplexity
    top = reference * FIGURE_SPAN
    for row in scores.rows[1:]:
        colour, marker = STYLES[row.scheme]
        value = row.score.perplexity
        axes.plot(
            row.weight_error,
            min(value, top),
            marker if value <= top else "^",
            color=colour,
            ms=7,
            clip_on=False,
        )
        if value > top:
            text = words.gettext("{perplexity} ↑\n(guessing: {vocabulary})").format(
                perplexity=words.number(perplexity_shown(value)),
                vocabulary=words.number(scores.setup.vocabulary),
            )
            _note(axes, text, (row.weight_error, top), (-10, -2), colour)
    axes.axhline(reference, color=COLOURS["reference"], lw=1)
    _note(axes, words.gettext("full precision"), (0.7, reference), (-2, 8), COLOURS["reference"])
    axes.set_yscale("log")
    axes.set_ylim(reference * 0.9, top)
    axes.set_yticks([reference * factor for factor in (1, 1.5, 2)])
    axes.set_ylabel(words.gettext("perplexity (log scale)"))
    axes.set_title(words.gettext("A weight error of a tenth costs quality …"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: words.number(value, 0)))


def _agreements(axes: Axes, scores: SimpleNamespace, words: Words) -> None:
    positions = scores.rows[0].score.positions
    for row in scores.rows[1:]:
        (colour, marker), agreed = STYLES[row.scheme], row.score.agreed
        axes.plot([row.weight_error] * 2, [agreed.low, agreed.high], color=colour, lw=1.5, alpha=0.6)
        axes.plot(row.weight_error, agreed.value, marker, color=colour, ms=7)
        _note(axes, scheme_name(row.scheme, words), (row.weight_error, agreed.value), LABELS[row.scheme], INK)
    axes.axhline(positions, color=COLOURS["reference"], lw=1)
    axes.set_ylim(-0.04 * positions, positions * 1.16)
    axes.set_xscale("log")
    axes.set_xlim(0.0055, 0.7)
    axes.set_xticks([0.01, 0.03, 0.1, 0.3])
    axes.set_ylabel(words.gettext("same choice, of {n}").format(n=positions))
    axes.set_xlabel(words.gettext("mean error of the weights (log scale)"))
    axes.set_title(words.gettext("… and changes the choice of the next token"))
    localise(axes, words)


def _note(axes: Axes, text: str, point: tuple[float, float], offset: tuple[int, int], colour: str) -> None:
    axes.annotate(
        text,
        point,
        xytext=offset,
        textcoords="offset points",
        ha="left" if offset[0] >= 0 else "right",
        va="center" if offset[1] > -2 else "top",
        fontsize=8.5,
        color=colour,
    )


def yardstick(record: SimpleNamespace, words: Words) -> Display:
    """The four-bit schemes in order, and how far apart the ends are."""
    four = [row for row in record.scores.rows if row.scheme.startswith(("int4", "nf4"))]
    ranked = sorted(four, key=lambda row: row.score.perplexity)
    text = words.gettext(
        "From best to worst at four bits: {names}. The last has {span} times the perplexity of the first, and "
        "{guess} times that of guessing."
    ).format(
        names=_listed(ranked, words),
        span=words.number(perplexity_shown(ranked[-1].score.perplexity / ranked[0].score.perplexity)),
        guess=words.number(ranked[-1].score.perplexity / record.scores.setup.vocabulary, 0),
    )
    return sentence(text)


def undecided(record: SimpleNamespace, words: Words) -> Display:
    """The schemes that this text cannot tell from full precision."""
    close = [row for row in record.scores.rows[1:] if not row.distinguishable]
    if not close:
        return sentence(words.gettext("Every scheme can be told from full precision on this text."))
    text = words.gettext(
        "**Not distinguishable** from full precision on this text: {names}. They are not ranked."
    )
    return sentence(text.format(names=_listed(close, words)))


def _listed(rows: list, words: Words) -> str:
    """The names of schemes, in italics: some have commas of their own."""
    return words.listed(f"*{scheme_name(row.scheme, words)}*" for row in rows)


# --- the battery ---


def battery_table(record: SimpleNamespace, words: Words) -> Display:
    """Right answers without and with the repetition penalty."""
    columns = (
        Column("scheme", words.gettext("Scheme")),
        Column("plain", words.gettext("Greedy"), digits=0),
        Column(
            "penalty",
            words.gettext("With penalty {p}").format(p=words.number(record.scores.setup.penalties[1], 1)),
            digits=0,
        ),
        Column("changed", words.gettext("Answers that change sides")),
        Column("lost", words.gettext("Right before, wrong now")),
    )
    reference = record.scores.rows[0].marks[0].right
    rows = [
        (
            scheme_name(row.scheme, words),
            row.marks[0].correct,
            row.marks[1].correct,
            sum(one != other for one, other in zip(row.marks[0].right, row.marks[1].right, strict=True)),
            sum(before and not after for before, after in zip(reference, row.marks[0].right, strict=True)),
        )
        for row in record.scores.rows
    ]
    caption = words.gettext("Right answers of {n} (Wilson's 95 % intervals)").format(
        n=record.scores.setup.questions
    )
    return table("battery", columns, rows, words, caption=caption)


def penalty(record: SimpleNamespace, words: Words) -> Display:
    """Does the penalty change the scores, and does it change who is ahead?"""
    rows = record.scores.rows
    changed = sum(row.marks[0].correct.value != row.marks[1].correct.value for row in rows)
    text = words.ngettext(
        "The penalty changes the score of {n} row of {all}.",
        "The penalty changes the score of {n} rows of {all}.",
        changed,
    ).format(n=words.number(changed), all=words.number(len(rows)))
    nf4, group = (
        [marks.correct.value for marks in by_scheme(rows, name).marks]
        for name in ("nf4-group64", "int4-group128")
    )
    pair = words.gettext(
        "NF4 answers {nf4_plain} right without it and {nf4_penalty} with it, INT4 in groups of 128 {int4_plain} and "
        "{int4_penalty}."
    ).format(
        nf4_plain=words.number(nf4[0]),
        nf4_penalty=words.number(nf4[1]),
        int4_plain=words.number(group[0]),
        int4_penalty=words.number(group[1]),
    )
    return sentence(f"{text} {pair} {_order(nf4, group, words)}")


def _order(one: list[int], other: list[int], words: Words) -> str:
    """Whether two schemes stand in the same order without and with the penalty."""
    without, with_it = ((ahead > behind) - (ahead < behind) for ahead, behind in zip(one, other, strict=True))
    if without == with_it:
        return words.gettext("Their order is the same either way.")
    if without * with_it < 0:
        return words.gettext("They **change places**, as they did in the chapter.")
    return words.gettext("**Which of the two is ahead depends on the penalty**, as it did in the chapter.")


# --- how much text ---


def length_table(record: SimpleNamespace, words: Words) -> Display:
    """The interval's half-width against the amount of text."""
    columns = (
        Column("tokens", words.gettext("Tokens of text")),
        Column("half_width", words.gettext("Half-width of the interval"), digits=2),
        Column("measured", words.gettext("Measured")),
    )
    rows = [(row.tokens, row.half_width, row.measured) for row in record.text.rows]
    caption = words.gettext("INT8 per row minus full precision: how sharp is the difference in perplexity?")
    return table("lengths", columns, rows, words, caption=caption)


def text_needed(record: SimpleNamespace, words: Words) -> Display:
    """What it would take to resolve the chapter's difference."""
    found = record.text
    text = words.gettext(
        "On {tokens} tokens INT8 per row has {int8} against {reference}, a difference of {difference} ({low} to {high}). "
        "To tell a difference of {resolved} from nothing would take about {needed} tokens."
    ).format(
        tokens=words.number(found.tokens),
        int8=words.number(found.perplexity, 1),
        reference=words.number(found.reference, 1),
        difference=words.number(found.difference.value, 2),
        low=words.number(found.difference.low, 2),
        high=words.number(found.difference.high, 2),
        resolved=words.number(found.resolved, 2),
        needed=words.number(perplexity_shown(found.tokens_needed)),
    )
    return sentence(text)
