"""Tables, figures and sentences of the section continuous-batching."""

from __future__ import annotations

from types import SimpleNamespace

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ..render.display import Display, sentence
from ..render.figure import COLOURS, figure, localise
from ..render.table import Column, table
from ..render.words import Words

#: What the chapter reports: throughput and mean latency, continuous against static.
CHAPTER_THROUGHPUT, CHAPTER_LATENCY = 1.6, 10
SHOWN_LOADS = (0.6, 0.8)
TWO_CLOCKS = COLOURS["static"]
#: Light for short answers, dark for long ones; both ends of the map are cut to stay off the paper and the ink.
LENGTH_COLOURS = colormaps["viridis_r"]


def engine_run(record: SimpleNamespace, policy: str, *, simulated: bool = False) -> SimpleNamespace:
    """One of the four runs of the workload."""
    runs = record.engine.runs
    return next(run for run in runs if run.policy == policy and run.simulated == simulated)


def ratio(record: SimpleNamespace, field: str, *, simulated: bool = False) -> float:
    """Static by continuous, so that more than 1 speaks for continuous batching."""
    static, continuous = (
        getattr(engine_run(record, policy, simulated=simulated), field) for policy in ("static", "continuous")
    )
    return static / continuous


def policy_words(policy: str, words: Words) -> str:
    """A policy's name in words."""
    return {"static": words.gettext("static"), "continuous": words.gettext("continuous")}[policy]


def answer(record: SimpleNamespace, words: Words) -> Display:
    """The section's question in one measured sentence."""
    static, continuous = engine_run(record, "static"), engine_run(record, "continuous")
    text = words.gettext(
        "The same {requests} requests took {static} s in static batches and {continuous} s with freed slots refilled "
        "at once: **{throughput} the throughput**. On average a request had its last token after {soon} s instead "
        "of {late} s."
    ).format(
        requests=words.number(record.workload.requests),
        static=words.number(static.seconds),
        continuous=words.number(continuous.seconds),
        throughput=words.times(ratio(record, "seconds")),
        soon=words.number(continuous.mean_latency),
        late=words.number(static.mean_latency),
    )
    return sentence(text)


def workload(record: SimpleNamespace, words: Words) -> Display:
    """The workload in numbers."""
    found = record.workload
    text = words.gettext(
        "{requests} requests ask for {total} tokens: half of them for at most {median}, the longest for {longest}. "
        "Their prompts have {shortest_prompt} to {longest_prompt} tokens."
    ).format(
        requests=words.number(found.requests),
        total=words.number(found.total_tokens),
        median=words.number(found.median_tokens),
        longest=words.number(found.longest_tokens),
        shortest_prompt=words.number(found.shortest_prompt),
        longest_prompt=words.number(found.longest_prompt),
    )
    return sentence(text)


def slots_figure(record: SimpleNamespace, words: Words) -> Display:
    """Slots over decode steps under both policies, one bar a request."""
    steps = max(run.steps for run in record.engine.runs)

    def draw(drawn: Figure) -> None:
        panels = drawn.subplots(2, 1, sharex=True, sharey=True)
        titles = (
            words.gettext("Static: {steps} steps, slots busy {share} of the time"),
            words.gettext("Continuous: {steps} steps, slots busy {share}"),
        )
        for axes, policy, title in zip(panels, ("static", "continuous"), titles, strict=True):
            run = engine_run(record, policy)
            _slot_bars(axes, run.stays, record.workload.lengths)
            _name_longest(axes, run.stays, record.workload.lengths, words)
            axes.set_title(title.format(steps=words.number(run.steps), share=words.percent(run.utilisation)))
            axes.set_ylabel(words.gettext("slot"))
        axes.set_xlim(0, steps)
        axes.set_xlabel(words.gettext("decode steps; dark bars are long answers"))
        axes.set_yticks(range(record.engine.slots), [words.number(i + 1) for i in range(record.engine.slots)])
        axes.invert_yaxis()  # shared by both panels
        localise(axes, words, y=False)

    alt = words.gettext(
        "Two charts of slots over decode steps, one bar for each request. In static batches most of a slot's row is "
        "empty, because every batch waits for its longest answer. With continuous batching the bars follow each "
        "other without a gap until the queue is empty, and the whole takes fewer than half the steps."
    )
    return figure("slots", draw, words, alt=alt, size=(5.2, 4.6))


def _slot_bars(axes: Axes, stays: list, lengths: list[int]) -> None:
    scale = LogNorm(min(lengths) / 2, max(lengths))
    for stay in stays:
        axes.barh(
            stay.slot,
            stay.last_step - stay.first_step,
            left=stay.first_step,
            height=0.8,
            color=LENGTH_COLOURS(scale(lengths[stay.index])),
            edgecolor="white",
            linewidth=0.5,
        )
    axes.grid(False, axis="y")


def _name_longest(axes: Axes, stays: list, lengths: list[int], words: Words) -> None:
    stay = max(stays, key=lambda stay: lengths[stay.index])
    tokens = lengths[stay.index]
    label = words.ngettext("{tokens} token", "{tokens} tokens", tokens).format(tokens=words.number(tokens))
    middle = (stay.first_step + stay.last_step) / 2
    axes.annotate(label, (middle, stay.slot), ha="center", va="center", color="white", fontsize=9)


def runs_table(record: SimpleNamespace, words: Words) -> Display:
    """Both policies on the model and simulated."""
    columns = (
        Column("policy", words.gettext("Policy")),
        Column("steps", words.gettext("Steps")),
        Column("utilisation", words.gettext("Slots busy"), unit="%", digits=0, scale=100),
        Column("seconds", words.gettext("Until all done"), unit="s", varies=True),
        Column("tokens_per_second", words.gettext("Throughput"), unit=words.gettext("tokens/s"), varies=True),
        Column("mean_latency", words.gettext("Latency, mean"), unit="s", varies=True),
        Column("median_latency", words.gettext("Latency, p50"), unit="s", varies=True),
        Column("p95_latency", words.gettext("Latency, p95"), unit="s", varies=True),
    )
    rows = [
        (
            _run_words(run, words),
            run.steps,
            run.utilisation,
            run.seconds,
            run.tokens_per_second,
            run.mean_latency,
            run.median_latency,
            run.p95_latency,
        )
        for run in record.engine.runs
    ]
    caption = words.gettext("All requests there from the start; latency from arrival to the last token")
    return table("runs", columns, rows, words, caption=caption, marked=[2])


def _run_words(run: SimpleNamespace, words: Words) -> str:
    text = words.gettext("{policy}, simulated") if run.simulated else words.gettext("{policy}, engine")
    return text.format(policy=policy_words(run.policy, words))


def steps(record: SimpleNamespace, words: Words) -> Display:
    """Do the engine and the simulator count the same steps?"""
    static, continuous = engine_run(record, "static"), engine_run(record, "continuous")
    counts = words.gettext(
        "Static batching took {static} decode steps, continuous batching {continuous}."
    ).format(static=words.number(static.steps), continuous=words.number(continuous.steps))
    verdict = (
        words.gettext("Engine and simulator agree on both.")
        if steps_equal(record)
        else words.gettext("Engine and simulator do **not** agree on them, which they should.")
    )
    return sentence(f"{counts} {verdict}")


def steps_equal(record: SimpleNamespace) -> bool:
    """Whether each policy took as many steps on the model as in the simulator."""
    return all(
        engine_run(record, policy).steps == engine_run(record, policy, simulated=True).steps
        for policy in ("static", "continuous")
    )


def tokens_equal(record: SimpleNamespace) -> bool:
    """Whether every request got its own tokens, ties within rounding aside."""
    return record.engine.identical + record.engine.excused == record.workload.requests


def tokens(record: SimpleNamespace, words: Words) -> Display:
    """Did the neighbours in the batch change anybody's answer?"""
    found = record.engine
    text = words.ngettext(
        "Under both policies {identical} request of {requests} got exactly the tokens it gets alone.",
        "Under both policies {identical} requests of {requests} got exactly the tokens they get alone.",
        found.identical,
    ).format(identical=words.number(found.identical), requests=words.number(record.workload.requests))
    return sentence(text)


def margin(record: SimpleNamespace, words: Words) -> Display:
    """By how much was the closest token decided, and how much does the batch's shape move a logit?"""
    text = words.gettext(
        "The closest of all choices was decided by a lead of {margin} between the two best logits. Feeding a "
        "prompt in a batch instead of alone moved a logit by {noise} at most."
    ).format(
        margin=words.number(record.engine.smallest_margin),
        noise=words.number(record.engine.logit_noise),
    )
    return sentence(text)


def left_out(record: SimpleNamespace, words: Words) -> Display:
    """The engine's speed-up beside the simulated one, and why they can differ."""
    real, simulated = ratio(record, "seconds"), ratio(record, "seconds", simulated=True)
    both = words.gettext("The engine's speed-up is {real}, the simulator's {simulated}.").format(
        real=words.times(real, 2), simulated=words.times(simulated, 2)
    )
    distance = abs(real / simulated - 1)
    if distance < 0.02:
        return sentence(both + " " + words.gettext("They are the same within two percent."))
    why = words.gettext(
        "They differ by {distance}, since the simulator prices every step at the median, {step} s, and every "
        "prefill at {prefill} s. It leaves out that longer caches make a step dearer, that prompts differ in "
        "length, and that the machine has other work to do."
    ).format(
        distance=words.percent(distance),
        step=words.number(record.engine.decode_seconds.value),
        prefill=words.number(record.engine.prefill_seconds.value),
    )
    return sentence(f"{both} {why}")


def gain_figure(record: SimpleNamespace, words: Words) -> Display:
    """Gain of continuous batching against the load, with the middle half of the seeds."""

    def draw(drawn: Figure) -> None:
        throughput, latency = drawn.subplots(2, 1, sharex=True, height_ratios=[1, 1.3])
        _gain_line(throughput, record, "throughput", COLOURS["continuous"])
        throughput.set_title(words.gettext("Throughput: the fuller the server, the larger the gain"))
        _gain_line(latency, record, "latency", COLOURS["continuous"])
        _gain_line(latency, record, "latency_two_clocks", TWO_CLOCKS)
        latency.set_title(words.gettext("Mean latency: the clock decides, above all under full load"))
        _label_end(latency, record, "latency", words.gettext("both from\narrival"))
        _label_end(latency, record, "latency_two_clocks", words.gettext("continuous from\nadmission"))
        for axes, chapter in ((throughput, CHAPTER_THROUGHPUT), (latency, CHAPTER_LATENCY)):
            _chapter_line(axes, chapter, words)
            axes.set_ylabel(words.gettext("times better"))
            axes.set_ylim(bottom=1)
        names = [
            words.gettext("all at\nonce") if row.load is None else words.tick(row.load)
            for row in record.loads.rows
        ]
        latency.set_xticks(range(len(names)), names)
        highest = max(row.latency_two_clocks.high for row in record.loads.rows)
        latency.set_ylim(top=1.5 * max(highest, CHAPTER_LATENCY))
        full = words.gettext("load: 1 is what {slots} full slots can serve")
        latency.set_xlabel(full.format(slots=words.number(record.engine.slots)))
        for axes in (throughput, latency):
            localise(axes, words, x=False)

    alt = words.gettext(
        "Two charts of the gain of continuous over static batching against the load, with a band for the middle half "
        "of the seeds. The gain in throughput rises with the load and levels off. The gain in mean latency is largest "
        "at a medium load when both are counted from arrival; when only the continuous policy is counted from "
        "admission it keeps rising."
    )
    return figure("gain", draw, words, alt=alt, size=(5.2, 6))


def _gain_line(axes: Axes, record: SimpleNamespace, field: str, colour: str) -> None:
    gains = [getattr(row, field) for row in record.loads.rows]
    places = range(len(gains))
    axes.plot(places, [gain.value for gain in gains], "o-", color=colour)
    axes.fill_between(
        places, [gain.low for gain in gains], [gain.high for gain in gains], color=colour, alpha=0.2, lw=0
    )


def _label_end(axes: Axes, record: SimpleNamespace, field: str, label: str) -> None:
    gains = [getattr(row, field).value for row in record.loads.rows]
    place = len(gains) - 3
    if field == "latency_two_clocks":  # under the title, in the room above both curves
        at, look = (place, 0.97), {"xycoords": axes.get_xaxis_transform(), "color": TWO_CLOCKS}
    else:
        below = {"xytext": (0, -16), "textcoords": "offset points"}
        at, look = (place, gains[place]), {"color": COLOURS["continuous"], **below}
    axes.annotate(label, at, ha="center", va="top", **look)


def _chapter_line(axes: Axes, value: float, words: Words) -> None:
    axes.axhline(value, color=COLOURS["reference"], linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate(
        words.gettext("chapter: {value}").format(
            value=words.times(value, None if value == int(value) else 1)
        ),
        (0, value),
        xytext=(-6, 3),
        textcoords="offset points",
        va="bottom",
        color=COLOURS["reference"],
        fontsize=9,
    )


def readings_table(record: SimpleNamespace, words: Words) -> Display:
    """The same comparison, read in the ways that its numbers depend on."""
    columns = (
        Column("reading", words.gettext("Arrivals and clock")),
        Column("throughput", words.gettext("Throughput"), unit="×", digits=2, varies=True),
        Column("latency", words.gettext("Mean latency"), unit="×", digits=1, varies=True),
    )
    real, loads = ratio(record, "seconds"), {row.load: row for row in record.loads.rows}
    rows = [
        (words.gettext("all at once, engine"), real, ratio(record, "mean_latency")),
        (words.gettext("the same run, continuous from admission"), real, two_clocks(record)),
        (
            words.gettext("all at once, finished rows not computed"),
            record.loads.dropping_rows_throughput,
            record.loads.dropping_rows_latency,
        ),
    ]
    for load in SHOWN_LOADS:
        name = words.gettext("Poisson, load {load}").format(load=words.tick(load))
        rows.append((name, loads[load].throughput, loads[load].latency))
    name = words.gettext("Poisson, load {load}, continuous from admission").format(
        load=words.tick(SHOWN_LOADS[-1])
    )
    rows.append((name, loads[SHOWN_LOADS[-1]].throughput, loads[SHOWN_LOADS[-1]].latency_two_clocks))
    rows.append((words.gettext("chapter"), CHAPTER_THROUGHPUT, CHAPTER_LATENCY))
    caption = words.gettext("Continuous against static: times the throughput, times shorter the latency")
    return table("readings", columns, rows, words, caption=caption, marked=[len(rows) - 1])


def two_clocks(record: SimpleNamespace) -> float:
    """Mean latency of the engine's runs, static from arrival by continuous from admission."""
    continuous = engine_run(record, "continuous")
    return engine_run(record, "static").mean_latency / continuous.mean_latency_from_admission


def readings(record: SimpleNamespace, words: Words) -> Display:
    """Which reading gives the chapter's pair of numbers?"""
    rows = record.loads.rows
    nearest = min(
        (row for row in rows if row.load is not None),
        key=lambda row: abs(row.throughput.value - CHAPTER_THROUGHPUT),
    )
    first = words.gettext(
        "The chapter's {chapter} of throughput comes nearest at load {load}, where mean latency on one clock is "
        "{latency} better."
    ).format(
        chapter=words.times(CHAPTER_THROUGHPUT, 1),
        load=words.tick(nearest.load),
        latency=words.times(nearest.latency.value, 1),
    )
    mixed = rows[-1].latency_two_clocks
    second = words.gettext(
        "A latency more than {chapter} times shorter appears only with two clocks. If all requests are there at once "
        "and the wait in the queue counts for the static policy alone, the middle half of the simulated orders lies "
        "between {low} and {high}."
    ).format(
        chapter=words.number(CHAPTER_LATENCY),
        low=words.number(mixed.low, 1),
        high=words.number(mixed.high, 1),
    )
    best = max(row.latency.value for row in rows)
    third = words.gettext("On one clock no load here gives more than {best}.").format(
        best=words.times(best, 1)
    )
    return sentence(f"{first} {second} {third}")


def dropped_rows(record: SimpleNamespace, words: Words) -> Display:
    """What a fairer static server would leave of the gain."""
    costs = record.costs
    text = words.gettext(
        "A step of one row costs {share} of a step of {slots} rows here. A static server that stops computing "
        "finished rows would therefore lose less: simulated, the gain in throughput is {gain} instead of {fixed}."
    ).format(
        share=words.percent(costs.decode[0] / costs.decode[-1]),
        slots=words.number(costs.rows[-1]),
        gain=words.times(record.loads.dropping_rows_throughput, 2),
        fixed=words.times(record.loads.fixed_order_throughput, 2),
    )
    return sentence(text)


def promise_table(record: SimpleNamespace, words: Words) -> Display:
    """The highest load of each policy that keeps the promise."""
    columns = (
        Column("policy", words.gettext("Policy")),
        Column("load", words.gettext("Highest load"), digits=3, varies=True),
        Column(
            "rate",
            words.gettext("Requests"),
            unit=words.gettext("per minute"),
            digits=1,
            scale=60,
            varies=True,
        ),
    )
    rows = [(policy_words(row.policy, words), row.load, row.rate) for row in record.promise.rows]
    caption = words.gettext(
        "Poisson arrivals: the load up to which 95 of 100 requests get their first token within {steps} decode steps"
    ).format(steps=words.number(record.promise.steps))
    return table("promise", columns, rows, words, caption=caption, marked=[1])


def promise(record: SimpleNamespace, words: Words) -> Display:
    """How much more load the continuous policy takes under the same promise."""
    found = record.promise
    text = words.gettext(
        "The promise is {seconds} s here, {steps} decode steps. Continuous batching keeps it at **{ratio} the load** "
        "that static batching can take."
    ).format(
        seconds=words.number(found.seconds),
        steps=words.number(found.steps),
        ratio=words.times(found.ratio.value),
    )
    return sentence(text)


def long_prompt_table(record: SimpleNamespace, words: Words) -> Display:
    """Gaps between the others' tokens while a long prompt is prefilled."""
    columns = (
        Column("chunk", words.gettext("Chunk"), unit=words.gettext("tokens")),
        Column("passes", words.gettext("Passes")),
        Column("longest_gap", words.gettext("Longest gap of the others"), unit="s", digits=2, varies=True),
        Column("median_gap", words.gettext("Median gap of the others"), unit="s", digits=2, varies=True),
        Column("ttft", words.gettext("First token of the long prompt"), unit="s", digits=2, varies=True),
    )
    rows = [
        (row.chunk, row.passes, row.longest_gap, row.median_gap, row.time_to_first_token)
        for row in record.long_prompt.rows
    ]
    caption = words.gettext(
        "A prompt of {tokens} tokens comes while {others} requests are being answered"
    ).format(
        tokens=words.number(record.long_prompt.prompt_tokens), others=words.number(record.long_prompt.others)
    )
    return table("long-prompt", columns, rows, words, caption=caption, marked=[len(rows) - 1])


def long_prompt(record: SimpleNamespace, words: Words) -> Display:
    """What chunks change for the others and for the one with the long prompt."""
    found = record.long_prompt
    whole, small = found.rows[0], found.rows[-1]
    text = words.gettext(
        "Undisturbed, the others wait {step} s for a token. Prefilled whole, the prompt silences them for {whole} s; "
        "in chunks of {chunk} tokens the longest silence is {small} s. The long prompt's own first token comes after "
        "{late} s instead of {early} s."
    ).format(
        step=words.number(found.step_alone.value),
        whole=words.number(whole.longest_gap),
        chunk=words.number(small.chunk),
        small=words.number(small.longest_gap),
        late=words.number(small.time_to_first_token),
        early=words.number(whole.time_to_first_token),
    )
    return sentence(text)
