"""Tables, figures and sentences of the section activation-outliers."""

from __future__ import annotations

from types import SimpleNamespace

from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ..quantity import Quantity
from ..render.display import Display, sentence
from ..render.figure import COLOURS, INK, figure, localise
from ..render.table import Column, table
from ..render.words import Words
from .schemes import perplexity_shown

ALL_LEVELS = 256
#: A rise in perplexity below this is called small.
SMALL_COST = 0.05
#: The chapter's figures at its layer 16: scale and levels in use, whole and without the top four dimensions.
CHAPTER_LEVELS = {
    "whole": (12.4378, 14),
    "without_dimensions": (0.5749, None),
    "without_position": (None, None),
}
#: The chapter's 896 dimensions by octave of their largest magnitude, from "below 1" on.
CHAPTER_OCTAVES = (254, 283, 226, 93, 18, 9, 7, 5, 0, 0, 0, 1)
PROMPT_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
GROUP_COLOURS = {"activations": "#D55E00", "weights": "#0072B2", "caches": "#009E73"}


def three_digits(value: float) -> float | int:
    """A magnitude as it is shown: the fourth digit changes from one processor to the next."""
    step = 10 ** (len(str(int(value))) - 3)
    return round(value / step) * step if step > 1 else value


def prompt_name(prompt: str, words: Words) -> str:
    """One of the five kinds of input."""
    return {
        "prose": words.gettext("English prose"),
        "code": words.gettext("Python code"),
        "polish": words.gettext("Polish prose"),
        "hindi": words.gettext("Hindi prose"),
        "list": words.gettext("a list"),
    }[prompt]


def technique_name(name: str, words: Words) -> str:
    """A technique in words."""
    return {
        "float": words.gettext("full precision"),
        "weights": words.gettext("INT8 weights only"),
        "per-tensor": words.gettext("+ inputs INT8 per tensor"),
        "per-token": words.gettext("+ inputs INT8 per token"),
        "mixed": words.gettext("+ inputs mixed, LLM.int8()"),
        "smooth-published": words.gettext("+ SmoothQuant, after norms"),
        "smooth-everywhere": words.gettext("+ SmoothQuant, everywhere"),
        "plain": words.gettext("INT4 groups of 128, plain"),
        "gptq-one-shot": words.gettext("GPTQ, one-shot"),
        "gptq-sequential": words.gettext("GPTQ, sequential"),
        "awq": words.gettext("AWQ"),
        "int8-token": words.gettext("cache INT8, keys per token"),
        "int8-channel": words.gettext("cache INT8, keys per channel"),
        "int4-token": words.gettext("cache INT4, keys per token"),
        "int4-channel": words.gettext("cache INT4, keys per channel"),
    }[name]


def answer(record: SimpleNamespace, words: Words) -> Display:
    """The section's question in one measured sentence."""
    stream = record.stream
    main = next(row for row in stream.prompts if row.prompt == "prose").outlier
    text = words.gettext(
        "After layer {layer}, dimension {dimension} reaches **{largest}** where the median dimension reaches "
        "{median}. One INT8 scale for that tensor leaves **{levels} of {all} levels** in use."
    ).format(
        layer=words.number(stream.layer),
        dimension=str(main.dimension),
        largest=words.number(three_digits(main.magnitude)),
        median=words.number(main.median_dimension),
        levels=words.number(stream.whole.levels),
        all=words.number(ALL_LEVELS),
    )
    return sentence(text)


# --- the stream ---


def layer_table(record: SimpleNamespace, words: Words) -> Display:
    """The outlier of the ordinary prompt over the depth."""
    columns = (
        Column("layer", words.gettext("After layer")),
        Column("largest", words.gettext("Largest magnitude")),
        Column("dimension", words.gettext("In dimension")),
        Column("position", words.gettext("At position")),
        Column("elsewhere", words.gettext("Largest elsewhere")),
        Column("median", words.gettext("Median dimension")),
    )
    rows = [
        (
            row.layer,
            three_digits(row.outlier.magnitude),
            row.outlier.dimension,
            row.outlier.position,
            three_digits(row.outlier.elsewhere),
            three_digits(row.outlier.median_dimension),
        )
        for row in record.stream.rows
    ]
    marked = [index for index, row in enumerate(record.stream.rows) if row.layer == record.stream.layer]
    caption = words.gettext(
        "Residual stream of the English prompt, {tokens} tokens; the first position is 0"
    ).format(tokens=words.number(record.stream.tokens))
    return table("layers", columns, rows, words, caption=caption, marked=marked)


def heat_figure(record: SimpleNamespace, words: Words) -> Display:
    """Layers by the dimensions with the largest magnitudes."""
    stream = record.stream

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        image = axes.imshow(stream.heat, aspect="auto", origin="lower", norm=LogNorm(vmin=1), cmap="cividis")
        axes.set_xticks(range(len(stream.heat_dimensions)), [str(one) for one in stream.heat_dimensions])
        axes.grid(visible=False)
        axes.set_xlabel(
            words.gettext("dimension (the {n} with the largest magnitudes)").format(
                n=len(stream.heat_dimensions)
            )
        )
        axes.set_ylabel(words.gettext("after layer (0: embedding)"))
        axes.set_title(words.gettext("One dimension burns from layer to layer"))
        bar = drawn.colorbar(image, ax=axes)
        bar.set_label(words.gettext("largest magnitude (log scale)"))
        localise(bar.ax, words, x=False)
        localise(axes, words, x=False)

    alt = words.gettext(
        "Heat map of the largest magnitude in the residual stream by layer and dimension, log colours. Dimension "
        "{dimension} is brightest over most of the depth, far above the other dimensions."
    ).format(dimension=stream.main_dimension)
    return figure("heat", draw, words, alt=alt, size=(5.2, 3.9))


def prompt_table(record: SimpleNamespace, words: Words) -> Display:
    """Is it the input? Five prompts at one layer."""
    columns = (
        Column("prompt", words.gettext("Prompt")),
        Column("largest", words.gettext("Largest magnitude")),
        Column("dimension", words.gettext("In dimension")),
        Column("position", words.gettext("At position")),
        Column("elsewhere", words.gettext("Largest elsewhere")),
        Column("massive", words.gettext("Positions above a tenth of it")),
    )
    rows = [
        (
            prompt_name(row.prompt, words),
            three_digits(row.outlier.magnitude),
            row.outlier.dimension,
            row.outlier.position,
            three_digits(row.outlier.elsewhere),
            row.massive_positions,
        )
        for row in record.stream.prompts
    ]
    caption = words.gettext("Five prompts of {tokens} tokens, after layer {layer}").format(
        tokens=words.number(record.stream.tokens), layer=words.number(record.stream.layer)
    )
    return table("prompts", columns, rows, words, caption=caption)


def whose(record: SimpleNamespace, words: Words) -> Display:
    """One token or all, one prompt or any."""
    stream = record.stream
    most = max(row.massive_positions for row in stream.prompts)
    positions = {row.outlier.position for row in stream.prompts}
    if stream.every_prompt:
        text = words.gettext(
            "The same dimension is the largest on all five prompts: a property of the model, not of the input."
        )
    else:
        text = words.gettext("The largest dimension is **not** the same on all five prompts.")
    if positions == {0} and most == 1:
        where = words.gettext("And it is **one position**, the first token, whatever that token is.")
    else:
        where = words.ngettext(
            "At most {n} position of a prompt comes within a factor of ten of its largest magnitude.",
            "At most {n} positions of a prompt come within a factor of ten of its largest magnitude.",
            most,
        ).format(n=words.number(most))
    return sentence(f"{text} {where}")


def position_figure(record: SimpleNamespace, words: Words) -> Display:
    """Largest magnitude at every position, all prompts."""
    stream = record.stream

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        for row, colour in zip(stream.prompts, PROMPT_COLOURS, strict=True):
            axes.semilogy(range(len(row.by_position)), row.by_position, color=colour, lw=1.3, alpha=0.9)
            axes.plot(row.outlier.position, row.outlier.magnitude, "o", color=colour, ms=6)
        main = stream.prompts[0].outlier
        axes.annotate(
            words.gettext("the first token of every prompt")
            if main.position == 0
            else words.gettext("the outliers"),
            (main.position, main.magnitude),
            xytext=(12, 0),
            textcoords="offset points",
            va="center",
            color=INK,
        )
        axes.annotate(
            words.gettext("all other tokens, five prompts"),
            (stream.tokens / 2, main.elsewhere),
            xytext=(0, 16),
            textcoords="offset points",
            ha="center",
            color=INK,
        )
        axes.set_title(words.gettext("The outlier is one position, not a habit of all"))
        axes.set_xlabel(words.gettext("position in the prompt"))
        axes.set_ylabel(words.gettext("largest magnitude (log scale)"))
        localise(axes, words)

    alt = words.gettext(
        "Largest magnitude in the residual stream at each of {tokens} positions, log scale, five prompts. A few "
        "positions, usually one, stand far above all the rest."
    ).format(tokens=stream.tokens)
    return figure("positions", draw, words, alt=alt)


def octave_figure(record: SimpleNamespace, words: Words) -> Display:
    """Histogram of the dimensions' largest magnitudes in octaves, the chapter's beside it."""
    octaves = record.stream.octaves

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        axes.bar(
            range(len(octaves)), [octave.count for octave in octaves], color=COLOURS["decode"], width=0.85
        )
        chapter = [(place, count) for place, count in enumerate(CHAPTER_OCTAVES) if count]
        axes.plot(*zip(*chapter, strict=True), "D", color=COLOURS["model_b"], ms=4.5)
        axes.annotate(
            words.gettext("◆ the chapter's model"),
            (0.98, 0.95),
            xycoords="axes fraction",
            ha="right",
            va="top",
            color=COLOURS["model_b"],
        )
        places = range(0, len(octaves), 2)
        labels = ["< 1", *(words.tick(octaves[place].low) for place in places[1:])]
        axes.set_yscale("log")
        axes.set_ylim(0.7, None)
        axes.set_xticks(places, labels)
        axes.set_title(words.gettext("Nearly all dimensions are ordinary; one is not"))
        axes.set_xlabel(words.gettext("largest magnitude, lower edge of the octave"))
        axes.set_ylabel(words.gettext("dimensions (log scale)"))
        localise(axes, words, x=False)

    alt = words.gettext(
        "Histogram of the largest magnitude of each dimension in octaves, counts on a log scale. Most dimensions "
        "fill a few neighbouring octaves; after a gap a single dimension stands far to the right, here and in the "
        "chapter's model."
    )
    return figure("octaves", draw, words, alt=alt)


def levels_table(record: SimpleNamespace, words: Words) -> Display:
    """INT8 with one scale: the whole tensor, without dimensions, without a position."""
    stream = record.stream
    columns = (
        Column("tensor", words.gettext("Tensor")),
        Column("scale", words.gettext("Scale")),
        Column("levels", words.gettext("Levels in use")),
        Column("lower", words.gettext("A small dimension")),
        Column("median", words.gettext("The median one")),
        Column("upper", words.gettext("A large one")),
        Column("chapter_scale", words.gettext("Chapter's scale")),
        Column("chapter_levels", words.gettext("Chapter's levels")),
    )
    names = {
        "whole": words.gettext("whole"),
        "without_dimensions": words.gettext("without 4 dimensions"),
        "without_position": words.gettext("without the outlier's token"),
    }
    rows = [
        (
            name,
            getattr(stream, key).scale,
            getattr(stream, key).levels,
            *getattr(stream, key).ordinary,
            *CHAPTER_LEVELS[key],
        )
        for key, name in names.items()
    ]
    caption = words.gettext("INT8 levels in use, of {all}, after layer {layer}").format(
        all=words.number(ALL_LEVELS), layer=words.number(stream.layer)
    )
    return table("int8-levels", columns, rows, words, caption=caption, marked=[0])


def levels_sentence(record: SimpleNamespace, words: Words) -> Display:
    """What one scale does to the ordinary values."""
    stream = record.stream
    half = stream.whole.scale / 2
    if stream.percentile_99 < half:
        text = words.gettext(
            "The scale is {scale}, so everything below {half} becomes zero. The median magnitude is {median}; the "
            "99th percentile, {high}, is rounded to zero as well."
        )
    else:
        text = words.gettext(
            "The scale is {scale}, so everything below {half} becomes zero. The median magnitude is {median}; the "
            "99th percentile is {high}."
        )
    return sentence(
        text.format(
            scale=words.number(stream.whole.scale),
            half=words.number(half),
            median=words.number(stream.median_magnitude),
            high=words.number(stream.percentile_99),
        )
    )


# --- the remedies ---


def _columns(words: Words, positions: int) -> tuple[Column, ...]:
    """Marked as varying: rounding on the fly turns a processor's last bits into other codes."""
    agreed = words.gettext("Same choice, of {n}").format(n=positions)
    return (
        Column("technique", words.gettext("Technique")),
        Column("perplexity", words.gettext("Perplexity"), varies=True),
        Column("ratio", words.gettext("÷ full precision"), digits=2, varies=True),
        Column("agreed", agreed, digits=0, varies=True),
    )


def _row(technique: SimpleNamespace, words: Words) -> tuple[object, ...]:
    score = technique.score
    return (
        technique_name(technique.name, words),
        perplexity_shown(score.perplexity),
        score.ratio,
        score.agreed,
    )


def activation_table(record: SimpleNamespace, words: Words) -> Display:
    """INT8 activations five ways."""
    found = record.activations
    rows = [_row(row, words) for row in found.rows]
    rows[0] = (*rows[0][:2], 1.0, found.rows[0].score.agreed.value)
    columns = _columns(words, found.rows[0].score.positions)
    caption = words.gettext("Activations in INT8, perplexity on {tokens} tokens (95 % intervals)").format(
        tokens=words.number(found.evaluation_tokens)
    )
    return table("activations", columns, rows, words, caption=caption, marked=[2])


def weight_table(record: SimpleNamespace, words: Words) -> Display:
    """4-bit weights with and without calibration."""
    columns = _columns(words, record.weights[0].score.positions)
    rows = [_row(row, words) for row in record.weights]
    caption = words.gettext(
        "Weights in INT4, groups of 128, rounded plainly and with calibration (95 % intervals)"
    )
    return table("calibrated-weights", columns, rows, words, caption=caption)


def cache_table(record: SimpleNamespace, words: Words) -> Display:
    """The KV cache in few bits."""
    _, *columns = _columns(words, record.caches[0].score.positions)
    columns = (
        Column("technique", words.gettext("Technique")),
        Column("bits", words.gettext("Bits per number"), digits=2),
        Column("bytes_per_token", words.gettext("Per token"), unit=words.gettext("bytes")),
        *columns,
    )
    rows = []
    for technique in record.caches:
        name, *values = _row(technique, words)
        if technique.name == "float":
            values[1:] = [1.0, technique.score.agreed.value]
        rows.append((name, technique.bits_per_element, technique.bytes_per_token, *values))
    caption = words.gettext("Keys and values in few bits, values per token throughout (95 % intervals)")
    return table("caches", columns, rows, words, caption=caption)


def remedies(record: SimpleNamespace, words: Words) -> Display:
    """Which of the activation schemes cost most, little, and nothing that can be told."""
    rows = record.activations.rows[1:]
    worst = max(rows, key=lambda row: row.score.ratio.value)
    parts = [
        words.gettext("The worst is {worst}, at {ratio} the perplexity of full precision.").format(
            worst=_quoted([worst], words), ratio=words.times(worst.score.ratio.value, 2)
        )
    ]
    same = [row for row in rows if _covers_one(row.score.ratio)]
    small = [row for row in rows if row not in same and row.score.ratio.value < 1 + SMALL_COST]
    if small:
        text = words.gettext("Measurable but below {percent}: {names}.")
        parts.append(text.format(percent=words.percent(SMALL_COST), names=_quoted(small, words)))
    if same:
        text = words.gettext("**Not distinguishable** from full precision on this text: {names}.")
        parts.append(text.format(names=_quoted(same, words)))
    return sentence(" ".join(parts))


def _quoted(rows: list, words: Words) -> str:
    names = (technique_name(row.name, words).removeprefix("+ ") for row in rows)
    return words.listed(f"*{name}*" for name in names)


def _covers_one(ratio: Quantity) -> bool:
    return ratio.low <= 1 <= ratio.high


def calibrated(record: SimpleNamespace, words: Words) -> Display:
    """What calibration buys at 4 bits."""
    found = {row.name: row.score for row in record.weights}
    plain, gptq, awq = found["plain"], found["gptq-sequential"], found["awq"]
    if max(gptq.perplexity, awq.perplexity) < plain.perplexity:
        text = words.gettext(
            "At the same size, sequential GPTQ brings the perplexity from {plain} down to {gptq} and AWQ to {awq}."
        )
    else:
        text = words.gettext(
            "Calibration did **not** always help here: plain groups give {plain}, sequential GPTQ {gptq}, AWQ {awq}."
        )
    return sentence(
        text.format(
            plain=words.number(plain.perplexity),
            gptq=words.number(gptq.perplexity),
            awq=words.number(awq.perplexity),
        )
    )


def remedy_figure(record: SimpleNamespace, words: Words) -> Display:
    """All techniques on one axis: perplexity over full precision, with intervals."""
    groups = (
        ("activations", record.activations.rows[1:]),
        ("weights", record.weights),
        ("caches", record.caches[1:]),
    )
    rows = [(group, row) for group, members in groups for row in members]

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        for place, (group, row) in enumerate(rows):
            ratio, colour = row.score.ratio, GROUP_COLOURS[group]
            axes.plot([ratio.low, ratio.high], [-place] * 2, color=colour, lw=2)
            axes.plot(ratio.value, -place, "o", color=colour, ms=6)
        axes.axvline(1, color=COLOURS["reference"], lw=1)
        axes.set_yticks(
            [-place for place in range(len(rows))], [technique_name(row.name, words) for _, row in rows]
        )
        axes.tick_params(axis="y", length=0)
        axes.set_xscale("log")
        axes.set_xticks([1, 1.2, 1.5, 2])
        axes.set_xlabel(words.gettext("perplexity ÷ full precision (log scale), 95 % intervals"))
        drawn.suptitle(
            words.gettext("A scale per token mends what one per tensor breaks"),
            x=0.02,
            ha="left",
            fontsize=11.5,
        )
        localise(axes, words, y=False)

    alt = words.gettext(
        "Perplexity over full precision for fourteen techniques, with intervals, log scale. The largest is {worst}; "
        "INT8 activations with a scale per token, the mixed scheme and the INT8 cache lie near 1, and INT4 weights "
        "between, calibrated ones below plain ones."
    ).format(worst=technique_name(max(rows, key=lambda pair: pair[1].score.ratio.value)[1].name, words))
    return figure("remedies", draw, words, alt=alt, size=(5.2, 4.6))
