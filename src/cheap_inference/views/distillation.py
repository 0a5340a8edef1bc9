"""Tables, figures and sentences of the section distillation."""

from __future__ import annotations

from types import SimpleNamespace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..quantity import Quantity
from ..render.display import Display, sentence
from ..render.figure import INK, figure, localise
from ..render.table import Column, table
from ..render.words import Words

PERCENT = 100
#: What the chapter's model expects after the sentence.
CHAPTER_WORDS = (("jug", 0.1355), ("cup", 0.1051), ("bowl", 0.0605), ("large", 0.0380), ("milk", 0.0360))
OBJECTIVE_COLOURS = {"hard": "#D55E00", "soft": "#0072B2", "warm": "#E69F00", "soft-part": "#56B4E9"}
TEMPERATURE_COLOURS = ("#0072B2", "#E69F00", "#CC79A7")


# --- one sentence ---


def word_table(record: SimpleNamespace, words: Words) -> Display:
    """The likeliest next tokens, here and in the chapter."""
    columns = (
        Column("rank", words.gettext("Rank")),
        Column("here", words.gettext("Token here")),
        Column("probability", words.gettext("Probability"), unit="%", digits=2, scale=PERCENT),
        Column("chapter", words.gettext("Token in the chapter")),
        Column("chapter_probability", words.gettext("Probability"), unit="%", digits=2, scale=PERCENT),
    )
    rows = [
        (rank, word.text.strip() or repr(word.text), word.probability, *chapter)
        for rank, (word, chapter) in enumerate(zip(record.words.words, CHAPTER_WORDS, strict=True), start=1)
    ]
    caption = words.gettext("The likeliest next tokens after “{sentence}”").format(
        sentence=record.words.sentence
    )
    return table("next-words", columns, rows, words, caption=caption)


def together(record: SimpleNamespace, words: Words) -> Display:
    """How much of the probability the five hold."""
    text = words.gettext(
        "The likeliest token has {first}, the five together {five}. The text that a hard label comes from names one of "
        "them, or another, and says nothing of the rest."
    )
    return sentence(
        text.format(
            first=words.percent(record.words.words[0].probability, 1),
            five=words.percent(record.words.together, 1),
        )
    )


def square_root(record: SimpleNamespace, words: Words) -> Display:
    """First to third at two temperatures."""
    plain, warm = (row.first_to_third for row in record.words.heated[:2])
    chapter = CHAPTER_WORDS[0][1] / CHAPTER_WORDS[2][1]
    text = words.gettext(
        "At T = 1 the first token is {plain} times as likely as the third, at T = 2 {warm} times: the square root. "
        "In the chapter {chapter} becomes {chapter_warm}."
    )
    return sentence(
        text.format(
            plain=words.number(plain, 2),
            warm=words.number(warm, 2),
            chapter=words.number(chapter, 2),
            chapter_warm=words.number(chapter**0.5, 2),
        )
    )


def temperature_figure(record: SimpleNamespace, words: Words) -> Display:
    """Each rank against the first, on log scales: T divides every distance."""
    found = record.words

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        for row, colour in zip(found.heated, TEMPERATURE_COLOURS, strict=True):
            axes.plot(found.ranks, row.relative, "o-", color=colour, ms=4)
            label = words.gettext("T = {t}").format(t=words.tick(row.temperature))
            _label(axes, label, (found.ranks[-1], row.relative[-1]))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(0.9, found.ranks[-1] * 6)
        axes.set_xlabel(words.gettext("rank of the token (log scale)"))
        axes.set_ylabel(words.gettext("probability, first = 1 (log scale)"))
        axes.set_title(words.gettext("T = 2 halves every distance to the first"))
        localise(axes, words)

    alt = words.gettext(
        "Probability of a token relative to the likeliest one, over its rank, both on log scales. All three lines start "
        "at 1. The line for T = 1 falls steepest, the one for T = 2 half as far at every rank, the one for T = 4 a "
        "quarter as far."
    )
    return figure("temperature", draw, words, alt=alt, size=(5.2, 3.3))


def _label(axes: Axes, text: str, point: tuple[float, float]) -> None:
    axes.annotate(text, point, xytext=(7, 0), textcoords="offset points", va="center", fontsize=9, color=INK)


# --- the gradient ---


def raised(record: SimpleNamespace, words: Words) -> Display:
    """How many scores one example raises."""
    found = record.students
    text = words.gettext(
        "In an untrained student a hard label raises the score of one token. The teacher's distribution raises {raised} "
        "of {vocabulary} at once (the median over the first pages of the training text), each by as much as it falls short."
    )
    return sentence(
        text.format(raised=words.number(found.raised), vocabulary=words.number(found.setup.vocabulary))
    )


def gradient_table(record: SimpleNamespace, words: Words) -> Display:
    """Gradient norms at several temperatures, with and without the factor."""
    columns = (
        Column("temperature", words.gettext("T"), digits=0),
        Column("fresh_bare", words.gettext("Untrained, without T²")),
        Column("fresh_scaled", words.gettext("Untrained, with T²")),
        Column("trained_bare", words.gettext("Trained, without T²"), varies=True),
        Column("trained_scaled", words.gettext("Trained, with T²"), varies=True),
    )
    rows = [
        (row.temperature, row.fresh_bare, row.fresh_scaled, row.trained_bare, row.trained_scaled)
        for row in record.students.gradients
    ]
    caption = words.gettext(
        "Length of the gradient of the soft loss, for a student as it begins and as it ends (T = 1: 1)"
    )
    return table("gradients", columns, rows, words, caption=caption)


def factor(record: SimpleNamespace, words: Words) -> Display:
    """What the factor does to the length at the highest temperature."""
    row = record.students.gradients[-1]
    text = words.gettext(
        "At T = {t} the trained student's gradient has {bare} of the length it has at T = 1; the factor T² brings it "
        "to {scaled}."
    )
    return sentence(
        text.format(
            t=words.tick(row.temperature),
            bare=words.percent(row.trained_bare, 1),
            scaled=words.percent(row.trained_scaled),
        )
    )


# --- the students ---


def _name(taught: SimpleNamespace, record: SimpleNamespace, words: Words) -> str:
    """What an objective is called."""
    if taught.objective == "warm":
        return words.gettext("soft labels, T = {t}").format(t=words.tick(taught.temperature))
    if taught.objective == "soft-part":
        share = words.gettext("soft labels, 1/{n} of the text")
        return share.format(n=words.number(record.students.less_text))
    return {"hard": words.gettext("hard labels"), "soft": words.gettext("soft labels")}[taught.objective]


def _by_name(record: SimpleNamespace) -> dict[str, SimpleNamespace]:
    return {taught.objective: taught for taught in record.students.taught}


def _pair(record: SimpleNamespace, first: str, second: str) -> SimpleNamespace:
    return next(one for one in record.students.comparisons if (one.first, one.second) == (first, second))


def answer(record: SimpleNamespace, words: Words) -> Display:
    """The section's question in a measured sentence."""
    taught = _by_name(record)
    pair = _pair(record, "hard", "soft")
    if not pair.beyond:
        verdict = words.gettext("**no difference beyond the spread**")
    elif pair.difference.value > 0:
        verdict = words.gettext("**lower, beyond the spread** of seeds and text")
    else:
        verdict = words.gettext("**higher, beyond the spread** of seeds and text")
    text = words.gettext(
        "Taught with the text's own tokens, the student's held-out loss is {hard} nats a token. Taught with the teacher's "
        "whole distribution, the same student on the same text ends at {soft}: {verdict}."
    )
    return sentence(
        text.format(
            soft=_seeds(taught["soft"].cross_entropy, words),
            hard=_seeds(taught["hard"].cross_entropy, words),
            verdict=verdict,
        )
    )


def _seeds(value: Quantity, words: Words) -> str:
    return f"{words.number(value.value, 2)} ({words.spread(value.low, value.high, 2)})"


def setup(record: SimpleNamespace, words: Words) -> Display:
    """What the students learned from and were judged on."""
    found = record.students.setup
    text = words.gettext(
        "Text: {training} training, {validation} validation and {held_out} held-out tokens, no passage in two of them; "
        "the corpus has a SHA-256 that begins with {digest}. Vocabulary: the {vocabulary} tokens of the training text, to which the teacher "
        "gives {kept} of its probability on held-out text; the {scored} held-out positions whose token is among them are "
        "scored. Student: {parameters} parameters, {context} tokens of context. Training: at most {steps} steps of {batch} "
        "examples, AdamW, learning rate {rate}, {seeds} seeds."
    )
    return sentence(
        text.format(
            training=words.number(found.training_tokens),
            validation=words.number(found.validation_tokens),
            held_out=words.number(found.held_out_tokens),
            digest=found.corpus_sha256[:12],
            vocabulary=words.number(found.vocabulary),
            kept=words.percent(found.kept),
            scored=words.number(found.held_out_scored),
            parameters=words.number(found.parameters),
            context=words.number(found.context),
            steps=words.number(found.steps),
            batch=words.number(found.batch_size),
            rate=words.tick(found.learning_rate),
            seeds=words.number(len(found.seeds)),
        )
    )


def score_table(record: SimpleNamespace, words: Words) -> Display:
    """Held-out loss and distance to the teacher, with the spread over the seeds."""
    columns = (
        Column("learned_from", words.gettext("Learned from")),
        Column("examples", words.gettext("Examples")),
        Column("cross_entropy", words.gettext("Held-out loss"), words.gettext("nats"), digits=2, varies=True),
        Column(
            "divergence", words.gettext("KL to the teacher"), words.gettext("nats"), digits=2, varies=True
        ),
        Column("best_step", words.gettext("Step kept"), varies=True),
    )
    frequencies, teacher = record.students.baselines
    rows = [
        (
            _name(taught, record, words),
            taught.examples,
            taught.cross_entropy,
            taught.divergence,
            _steps(taught.best_steps, words),
        )
        for taught in record.students.taught
    ]
    rows.insert(
        0,
        (
            words.gettext("token frequencies only"),
            rows[0][1],
            frequencies.cross_entropy,
            frequencies.divergence,
            None,
        ),
    )
    rows.append((words.gettext("the teacher itself"), None, teacher.cross_entropy, teacher.divergence, None))
    caption = words.gettext("On held-out text (mean, lowest and highest of {n} seeds)").format(
        n=words.number(len(record.students.setup.seeds))
    )
    return table("students", columns, rows, words, caption=caption, marked=[1, 2])


def _steps(steps: list[int], words: Words) -> str:
    low, high = min(steps), max(steps)
    return words.number(low) if low == high else words.spread(low, high)


def difference_table(record: SimpleNamespace, words: Words) -> Display:
    """Differences of held-out loss, and what they stand against."""
    taught = _by_name(record)
    columns = (
        Column("pair", words.gettext("First minus second")),
        Column("difference", words.gettext("Held-out loss"), words.gettext("nats"), digits=2, varies=True),
        Column("seeds_apart", words.gettext("Seeds apart")),
        Column("beyond", words.gettext("Beyond the spread")),
    )
    rows = [
        (
            words.gettext("{first} − {second}").format(
                first=_name(taught[one.first], record, words), second=_name(taught[one.second], record, words)
            ),
            one.difference,
            one.seeds_apart,
            one.beyond,
        )
        for one in record.students.comparisons
        if one.second != "soft-part"  # the page speaks of less text further down
    ]
    caption = words.gettext(
        "Differences with 95 % intervals over the held-out text, blocks of positions resampled"
    )
    return table("differences", columns, rows, words, caption=caption)


def learning_figure(record: SimpleNamespace, words: Words) -> Display:
    """Validation loss while the students train."""
    found = record.students

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        for taught in found.taught[:3]:
            _curve(axes, found.checked_at, taught, _name(taught, record, words))
        axes.set_xlim(0, found.checked_at[-1] * 1.55)
        axes.set_xticks(found.checked_at[4::5])
        highest = max(value.high for taught in found.taught[:3] for value in taught.curve)
        axes.set_ylim(top=min(highest, found.baselines[0].cross_entropy * 1.05))
        axes.set_xlabel(words.gettext("training step"))
        axes.set_ylabel(words.gettext("validation loss, nats"))
        title = (
            words.gettext("Whole distributions teach more than single tokens")
            if found.soft_beats_hard
            else words.gettext("No kind of label wins with every seed")
        )
        axes.set_title(title)
        localise(axes, words)

    alt = words.gettext(
        "Validation loss over training steps for students taught with hard labels, soft labels, and soft labels at a higher "
        "temperature: the mean of the seeds, a band from lowest to highest, and a ring at the lowest point of each mean."
    )
    return figure("learning", draw, words, alt=alt)


def _curve(axes: Axes, steps: list[int], taught: SimpleNamespace, name: str) -> None:
    colour = OBJECTIVE_COLOURS[taught.objective]
    means = [value.value for value in taught.curve]
    lows, highs = [value.low for value in taught.curve], [value.high for value in taught.curve]
    axes.fill_between(steps, lows, highs, color=colour, alpha=0.25, lw=0)
    axes.plot(steps, means, color=colour)
    best = means.index(min(means))
    axes.plot(steps[best], means[best], "o", color=colour, mfc="none", ms=8, mew=1.5)
    _label(axes, name, (steps[-1], means[-1]))


def softened(record: SimpleNamespace, words: Words) -> Display:
    """Whether softening the labels further helped."""
    taught, pair = _by_name(record)["warm"], _pair(record, "warm", "soft")
    if not pair.beyond:
        text = words.gettext("Softening the labels to T = {t} makes **no difference beyond the spread**.")
    elif pair.difference.value < 0:
        text = words.gettext("Softening the labels to T = {t} helps further, beyond the spread.")
    else:
        text = words.gettext(
            "Softening the labels to T = {t} does **not** help here: the loss is higher than at T = 1, beyond the spread."
        )
    return sentence(text.format(t=words.tick(taught.temperature)))


def still_falling(record: SimpleNamespace, words: Words) -> Display:
    """Where each objective's best student was found."""
    taught, last = _by_name(record), record.students.setup.steps
    text = words.gettext(
        "Of {n} students each, the best was found at the last step by {hard} with hard labels, {soft} with soft ones and "
        "{warm} with softened ones. A loss that still falls at the last step could have gone lower with more steps."
    )
    count = {name: sum(step == last for step in one.best_steps) for name, one in taught.items()}
    return sentence(
        text.format(
            n=words.number(len(record.students.setup.seeds)),
            hard=words.number(count["hard"]),
            soft=words.number(count["soft"]),
            warm=words.number(count["warm"]),
        )
    )


# --- what it cost ---


def cost(record: SimpleNamespace, words: Words) -> Display:
    """The teacher's time beside a student's."""
    ratio = record.students.teacher_cost
    text = words.gettext(
        "Reading the {tokens} training tokens took the teacher about {ratio} times as long as training one student on them "
        "({spread}). Its answers were used {uses} times here: by every student that learned from soft labels."
    )
    soft = [taught for taught in record.students.taught if taught.objective != "hard"]
    return sentence(
        text.format(
            tokens=words.number(record.students.setup.training_tokens),
            ratio=words.number(ratio.value, 0),
            spread=words.spread(ratio.low, ratio.high, 0),
            uses=words.number(sum(len(taught.best_steps) for taught in soft)),
        )
    )


def worth(record: SimpleNamespace, words: Words) -> Display:
    """How much text the teacher's answers replace."""
    pair = _pair(record, "hard", "soft-part")
    if not pair.beyond:
        text = words.gettext(
            "On a text {n} times shorter, soft labels end level with hard labels on all of it: here the teacher's pass was worth "
            "about {n} times as much text. A student that can have that much more text needs no teacher."
        )
    elif pair.difference.value > 0:
        text = words.gettext(
            "On a text {n} times shorter, soft labels still end lower than hard labels on all of it: here the teacher's pass was worth "
            "more than {n} times as much text. A student that can have that much more text needs no teacher."
        )
    else:
        text = words.gettext(
            "On a text {n} times shorter, soft labels end higher than hard labels on all of it: here the teacher's pass was worth "
            "less than {n} times as much text, which would have needed no teacher."
        )
    return sentence(text.format(n=words.number(record.students.less_text)))
