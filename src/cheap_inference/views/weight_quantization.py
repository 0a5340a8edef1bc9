"""Tables, figures and sentences of the section weight-quantization."""

from __future__ import annotations

from types import SimpleNamespace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..render.display import Display, sentence
from ..render.figure import COLOURS, INK, figure, localise
from ..render.table import Column, table
from ..render.words import Words
from .schemes import STYLES, by_scheme, scheme_name

MEBIBYTE = 2**20
PERCENT = 100
#: Below this an error is that of the fp16 scale, not of the codes: the weights were stored this way before.
EXACT = 1e-6
#: Where the name of a scheme stands beside its mark, in points to the right and up.
ERROR_LABELS = {
    "int8-tensor": (7, 0),
    "int8-row": (7, 11),
    "int8-group128": (-34, -13),
    "int4-tensor": (8, 0),
    "int4-row": (7, 12),
    "int4-group128": (-8, -26),
    "nf4-group64": (-26, 14),
}
#: The chapter's figures for its own matrix under the lens.
CHAPTER_LENS = (0.01386, 0.01822, 0.43945, 24.1, 692)


def answer(record: SimpleNamespace, words: Words) -> Display:
    """The section's question in one measured sentence."""
    whole, group = (by_scheme(record.errors.rows, name) for name in ("int4-tensor", "int4-group128"))
    text = words.gettext(
        "At 4 bits with one scale per matrix, rounding changes the {matrices} matrices by **{mean}** on average and "
        "the worst one by **{worst}**. A scale for every 128 weights costs {bits} bits a weight more and brings the "
        "average down to **{group}**."
    ).format(
        matrices=words.number(record.errors.matrices),
        mean=words.percent(whole.mean),
        worst=words.percent(whole.worst),
        bits=words.number(group.bits_per_weight - whole.bits_per_weight, 2),
        group=words.percent(group.mean),
    )
    return sentence(text)


# --- bytes ---


def size_table(record: SimpleNamespace, words: Words) -> Display:
    """The whole model at every width: as the division says, and as it is really stored."""
    sizes = record.sizes
    fp16 = next(row for row in sizes.widths if row.bits == 16).everything_bytes
    columns = (
        Column("weights", words.gettext("Projections stored in")),
        Column("everything_bytes", words.gettext("If all shrank"), unit="MiB", digits=1, scale=1 / MEBIBYTE),
        Column("stored_bytes", words.gettext("Really stored"), unit="MiB", digits=1, scale=1 / MEBIBYTE),
        Column("share", words.gettext("Of fp16"), unit="%", digits=1, scale=PERCENT),
    )
    bits = {"int8-row": 8, "int4-group128": 4, "nf4-group64": 4}
    at_width = {row.bits: row.everything_bytes for row in sizes.widths}
    rows = [("fp32", at_width[32], at_width[32], at_width[32] / fp16), ("fp16", fp16, fp16, 1.0)]
    rows += [
        (scheme_name(row.scheme, words), at_width[bits[row.scheme]], row.model_bytes, row.share)
        for row in sizes.stored
    ]
    caption = words.gettext("Bytes of the whole model, embedding left in 16 bits, scales counted")
    return table("sizes", columns, rows, words, caption=caption, marked=[3])


def kept(record: SimpleNamespace, words: Words) -> Display:
    """What does not shrink, and whether the packed bytes mean the same weights."""
    sizes = record.sizes
    int8, int4 = (by_scheme(sizes.stored, name) for name in ("int8-row", "int4-group128"))
    text = words.gettext(
        "The embedding is {share} of the parameters and stays as it is, so INT8 comes to {int8} of the fp16 size "
        "instead of {half}, and INT4 in groups of 128 to {int4} instead of {quarter}."
    ).format(
        share=words.percent(sizes.embedding_share, 1),
        int8=words.percent(int8.share),
        half=words.percent(0.5),
        int4=words.percent(int4.share),
        quarter=words.percent(0.25),
    )
    return sentence(f"{text} {_packed(sizes, words)}")


def _packed(sizes: SimpleNamespace, words: Words) -> str:
    if all(row.equal for row in sizes.stored):
        return words.gettext(
            "These are bytes of real tensors: every packed matrix, unpacked again, equals the rounded one bit for bit."
        )
    return words.gettext("The packed matrices do **not** all unpack to the rounded ones, which they should.")


# --- errors ---


def error_table(record: SimpleNamespace, words: Words) -> Display:
    """The chapter's seven schemes: bits with the scales, mean and worst error."""
    columns = (
        Column("scheme", words.gettext("Scheme")),
        Column("bits_per_weight", words.gettext("Bits per weight"), digits=3),
        Column("mean", words.gettext("Mean error"), digits=4),
        Column("worst", words.gettext("Worst error"), digits=4),
        Column("worst_matrix", words.gettext("Worst matrix")),
    )
    rows = [
        (scheme_name(row.scheme, words), row.bits_per_weight, row.mean, row.worst, row.worst_matrix)
        for row in record.errors.rows
    ]
    caption = words.gettext("Relative error ‖W − Ŵ‖ / ‖W‖ of all {n} projection matrices").format(
        n=words.number(record.errors.matrices)
    )
    return table("errors", columns, rows, words, caption=caption, marked=[3])


def error_figure(record: SimpleNamespace, words: Words) -> Display:
    """Error against bits: mean as a mark, a line up to the worst matrix."""
    rows = record.errors.rows

    def draw(drawn: Figure) -> None:
        four, eight = drawn.subplots(1, 2, sharey=True, width_ratios=[1.7, 1])
        for axes, bits in ((four, 4), (eight, 8)):
            for row in rows:
                if round(row.bits_per_weight) == bits:
                    _error_mark(axes, row, words)
            axes.set_yscale("log")
            axes.set_xlabel(words.gettext("bits per weight"))
            localise(axes, words)
        four.set_xlim(3.97, 4.36)
        four.set_xticks([4, 4.1, 4.2])
        eight.set_xlim(7.975, 8.30)
        eight.set_xticks([8, 8.1])
        four.set_ylim(0.003, 1.6)
        four.set_ylabel(words.gettext("relative error (log scale)"))
        drawn.suptitle(
            words.gettext("An eighth of a bit spent on scales\nremoves most of the error"),
            x=0.02,
            ha="left",
            fontsize=11.5,
        )

    alt = words.gettext(
        "Relative error against bits per weight on a log scale. At 4 bits the error falls steeply as scales get "
        "finer, from one per tensor to NF4 in blocks of 64; lines reach up to the worst matrix, near 1 for INT4 per "
        "tensor. All INT8 schemes lie an order of magnitude or more below."
    )
    return figure("error", draw, words, alt=alt, size=(5.2, 4.0))


def _error_mark(axes: Axes, row: SimpleNamespace, words: Words) -> None:
    colour, marker = STYLES[row.scheme]
    axes.plot([row.bits_per_weight] * 2, [row.mean, row.worst], color=colour, lw=1.5, alpha=0.6)
    axes.plot(row.bits_per_weight, row.mean, marker=marker, ms=7, color=colour, ls="none")
    axes.plot(row.bits_per_weight, row.worst, marker="_", ms=9, color=colour, ls="none")
    right, up = ERROR_LABELS[row.scheme]
    axes.annotate(
        scheme_name(row.scheme, words),
        (row.bits_per_weight, row.mean),
        xytext=(right, up),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        color=INK,
    )


def two_by_two(record: SimpleNamespace, words: Words) -> Display:
    """Levels against block size."""
    found = {row.scheme: row.mean for row in [*record.errors.rows, *record.errors.extra]}
    columns = (
        Column("levels", words.gettext("Levels")),
        Column("block_128", words.gettext("Blocks of 128"), digits=4),
        Column("block_64", words.gettext("Blocks of 64"), digits=4),
        Column("gain", words.gettext("Smaller blocks: error lower by"), unit="%", digits=1, scale=PERCENT),
    )
    rows = [
        (name, found[coarse], found[fine], 1 - found[fine] / found[coarse])
        for name, coarse, fine in (
            (words.gettext("uniform (INT4)"), "int4-group128", "int4-group64"),
            (words.gettext("normal (NF4)"), "nf4-group128", "nf4-group64"),
        )
    ]
    return table(
        "levels-and-blocks", columns, rows, words, caption=words.gettext("Mean error, two changes apart")
    )


def levels_or_blocks(record: SimpleNamespace, words: Words) -> Display:
    """How much of NF4's advantage comes from its levels and how much from its blocks."""
    found = {row.scheme: row.mean for row in [*record.errors.rows, *record.errors.extra]}
    text = words.gettext(
        "NF4 in blocks of 64 has an error {both} below INT4 in groups of 128. Its levels alone, at 128, account for "
        "{levels}; smaller blocks alone, with uniform levels, for {blocks}."
    ).format(
        both=words.percent(1 - found["nf4-group64"] / found["int4-group128"], 1),
        levels=words.percent(1 - found["nf4-group128"] / found["int4-group128"], 1),
        blocks=words.percent(1 - found["int4-group64"] / found["int4-group128"], 1),
    )
    return sentence(text)


def asymmetric(record: SimpleNamespace, words: Words) -> Display:
    """Asymmetric INT4, and why it is not ranked where the weights come from such a file."""
    group128, group32 = (
        by_scheme(record.errors.extra, name)
        for name in ("int4-asymmetric-group128", "int4-asymmetric-group32")
    )
    text = words.gettext(
        "Asymmetric INT4 (a scale and an offset a group) has a mean error of {group128} in groups of 128 at {bits128} "
        "bits, and of {group32} in groups of 32 at {bits32} bits."
    ).format(
        group128=words.number(group128.mean, 4),
        bits128=words.number(group128.bits_per_weight, 2),
        group32=words.number(group32.mean, 4),
        bits32=words.number(group32.bits_per_weight, 2),
    )
    if group32.mean >= EXACT:
        return sentence(text)
    reason = words.gettext(
        "The second is no achievement: these weights were stored in exactly that format before they came here, so "
        "it finds every one of them again. Asymmetric schemes are flattered on this model and are **not ranked**."
    )
    return sentence(f"{text} {reason}")


# --- one matrix ---


def erased(record: SimpleNamespace, words: Words) -> Display:
    """What an error near one is."""
    found = record.lens.erased
    text = words.gettext(
        "In `{matrix}`, {zeros} of the weights became **zero**, {levels} of the 16 codes are in use, and the norm "
        "fell to {norm} of what it was. An error of {error} here means that the matrix is erased, not replaced by "
        "noise: noise with the matrix's own norm would give 1.41."
    )
    if found.zero_share < 0.5:
        text = words.gettext(
            "In `{matrix}`, {zeros} of the weights became zero, {levels} of the 16 codes are in use, and the norm is "
            "{norm} of what it was, with an error of {error}. Noise with the matrix's own norm would give 1.41."
        )
    return sentence(
        text.format(
            matrix=found.matrix,
            zeros=words.percent(found.zero_share, 1),
            levels=words.number(found.levels),
            norm=words.number(found.norm_ratio, 2),
            error=words.number(found.error, 2),
        )
    )


def lens_table(record: SimpleNamespace, words: Words) -> Display:
    """Statistics of the matrix under the lens, beside those of the chapter's."""
    lens = record.lens
    columns = (
        Column("measure", words.gettext("Measure")),
        Column("here", words.gettext("Here")),
        Column("chapter", words.gettext("Chapter")),
    )
    measured = (
        (words.gettext("mean magnitude"), lens.mean_magnitude),
        (words.gettext("standard deviation σ"), lens.deviation),
        (words.gettext("largest magnitude"), lens.largest),
        (words.gettext("largest in σ"), lens.largest_in_deviations),
        (words.gettext("weights beyond 6 σ"), lens.beyond),
    )
    rows = [(name, here, chapter) for (name, here), chapter in zip(measured, CHAPTER_LENS, strict=True)]
    caption = words.gettext("{matrix}, {rows} × {columns} (the chapter's: 896 × 4,864)").format(
        matrix=lens.matrix, rows=words.number(lens.rows), columns=words.number(lens.columns)
    )
    return table("lens", columns, rows, words, caption=caption, marked=[3])


def lens_sentence(record: SimpleNamespace, words: Words) -> Display:
    """How far a normal distribution would reach, and how many codes rounding uses at all."""
    lens = record.lens
    text = words.ngettext(
        "{beyond} weight lies beyond 6 σ; a normal distribution would leave {normal} there. Across the matrix, "
        "groups of 128 use {int4} of the 16 codes and INT8 per row {int8} of 256: the code below −qmax never occurs.",
        "{beyond} weights lie beyond 6 σ; a normal distribution would leave {normal} there. Across the matrix, "
        "groups of 128 use {int4} of the 16 codes and INT8 per row {int8} of 256: the code below −qmax never occurs.",
        lens.beyond,
    ).format(
        beyond=words.number(lens.beyond),
        normal=words.number(lens.normal_beyond),
        int4=words.number(lens.levels_int4),
        int8=words.number(lens.levels_int8),
    )
    return sentence(text)


def lens_figure(record: SimpleNamespace, words: Words) -> Display:
    """Histogram of the matrix with the levels of each 4-bit scheme drawn under it."""
    lens = record.lens

    def draw(drawn: Figure) -> None:
        top, bottom = drawn.subplots(2, 1, sharex=True, height_ratios=[1, 1])
        width = 2 * lens.histogram_reach / len(lens.histogram)
        lefts = [-lens.histogram_reach + width * index for index in range(len(lens.histogram))]
        top.bar(lefts, lens.histogram, width=width, align="edge", color=COLOURS["rest"])
        top.set_yticks([])
        top.set_ylabel(words.gettext("share of weights"))
        top.set_title(words.gettext("One far weight pulls the levels out of the crowd"))
        top.annotate(
            words.gettext("largest: {sigmas} σ →").format(sigmas=words.number(lens.largest_in_deviations, 1)),
            (lens.histogram_reach, max(lens.histogram) * 0.5),
            ha="right",
            color=STYLES["int4-tensor"][0],
        )
        _level_strips(bottom, lens, words)

    alt = words.gettext(
        "Histogram of one matrix's weights in standard deviations, a narrow bell. Under it the 4-bit levels of each "
        "scheme: with one scale per tensor hardly any fall where the weights are; with a scale per row, per group of "
        "128 and NF4 per block of 64 they crowd ever closer into the bell."
    )
    return figure("lens", draw, words, alt=alt, size=(5.2, 4.6))


def _level_strips(axes: Axes, lens: SimpleNamespace, words: Words) -> None:
    for place, strip in enumerate(lens.strips):
        inside = [level for level in strip.levels if abs(level) <= lens.histogram_reach]
        axes.plot(inside, [-place] * len(inside), "|", ms=10, mew=2, color=STYLES[strip.scheme][0])
        text = words.ngettext(
            "{scheme}: {count} level here", "{scheme}: {count} levels here", len(inside)
        ).format(scheme=scheme_name(strip.scheme, words), count=words.number(len(inside)))
        point, look = (-lens.histogram_reach, -place + 0.47), {"va": "center", "fontsize": 8.5}
        axes.annotate(text, point, xytext=(4, 0), textcoords="offset points", **look)
    axes.set_ylim(-len(lens.strips) + 0.6, 0.85)
    axes.set_xlim(-lens.histogram_reach, lens.histogram_reach)
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.set_xlabel(words.gettext("weight in standard deviations of the matrix"))
    localise(axes, words, y=False)


# --- speed ---


def storage_name(storage: str, words: Words) -> str:
    """A way of storing the projections while they are used."""
    return {
        "fp32": words.gettext("fp32"),
        "bf16": words.gettext("bf16"),
        "int8": words.gettext("INT8 per row, bf16 inputs"),
        "int4": words.gettext("4 bits in small groups, bf16 inputs"),
    }[storage]


def speed_table(record: SimpleNamespace, words: Words) -> Display:
    """Decode steps with weights stored in fewer and fewer bytes."""
    speed = record.speed
    one, many = speed.batch_sizes
    columns = (
        Column("storage", words.gettext("Weights stored as")),
        Column("weight_bytes", words.gettext("Model"), unit="MiB", digits=0, scale=1 / MEBIBYTE),
        Column("ms_one", words.gettext("Step, batch of {n}").format(n=one), unit="ms", digits=1, varies=True),
        Column(
            "ms_many", words.gettext("Step, batch of {n}").format(n=many), unit="ms", digits=1, varies=True
        ),
        Column("speedup_one", words.gettext("bf16 ÷ this, {n}").format(n=one), digits=2, varies=True),
        Column("speedup_many", words.gettext("bf16 ÷ this, {n}").format(n=many), digits=2, varies=True),
    )
    rows = [
        (
            storage_name(row.storage, words),
            row.weight_bytes,
            row.steps[0].value,
            row.steps[1].value,
            row.speedups[0].value if row.storage == "bf16" else row.speedups[0],
            row.speedups[1].value if row.storage == "bf16" else row.speedups[1],
        )
        for row in speed.rows
    ]
    caption = words.gettext("A decode step after {n} tokens, weights really stored small").format(
        n=words.number(speed.cached_tokens)
    )
    return table("small-storage", columns, rows, words, caption=caption, marked=range(2, len(rows)))


def faster(record: SimpleNamespace, words: Words) -> Display:
    """Do fewer bytes make a faster step here? One sentence a storage, and the kernels that are missing."""
    speed = record.speed
    parts = [_faster(row, speed.noise[0], words) for row in speed.rows if row.storage.startswith("int")]
    if speed.missing:
        parts.append(
            words.gettext("This installation has no kernel for: {names}.").format(
                names=words.listed(speed.missing)
            )
        )
    return sentence(" ".join(parts))


def _faster(row: SimpleNamespace, noise: object, words: Words) -> str:
    speedup = row.speedups[0]
    if speedup.low > max(1, noise.high):
        text = words.gettext(
            "With {storage}, a step for one request was **{ratio} faster** than in bf16 ({low} to {high})."
        )
    elif speedup.high < min(1, noise.low):
        text = words.gettext(
            "With {storage}, a step for one request was **slower** than in bf16: {ratio} its speed ({low} to {high})."
        )
    else:
        text = words.gettext(
            "With {storage}, a step for one request showed **no difference to bf16 beyond the noise** ({low} to {high})."
        )
    return text.format(
        storage=storage_name(row.storage, words),
        ratio=words.times(speedup.value, 2),
        low=words.times(speedup.low, 2),
        high=words.times(speedup.high, 2),
    )
