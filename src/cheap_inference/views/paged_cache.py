"""Tables, figures and sentences of the section paged-cache."""

from __future__ import annotations

from types import SimpleNamespace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..render.display import Display, sentence
from ..render.figure import COLOURS, figure, localise
from ..render.table import Column, table
from ..render.words import Words

MEBIBYTE = 2**20


def _scheme(record: SimpleNamespace, scheme: str, block_size: int | None = None) -> SimpleNamespace:
    rows = record.schemes.rows
    return next(row for row in rows if row.scheme == scheme and row.block_size == block_size)


def _scheme_words(row: SimpleNamespace, words: Words) -> str:
    if row.scheme == "contiguous-maximum":
        return words.gettext("contiguous, room for the longest")
    if row.scheme == "contiguous-exact":
        return words.gettext("contiguous, length known")
    return words.gettext("paged, blocks of {size}").format(size=words.number(row.block_size))


def answer(record: SimpleNamespace, words: Words) -> Display:
    """The section's question in one counted sentence."""
    maximum, paged = _scheme(record, "contiguous-maximum"), _scheme(record, "paged", 16)
    text = words.gettext(
        "With room for the longest answer in every slot, **{wasted} of the reserved cache stays empty** on this "
        "workload. In blocks of {size} tokens it is {paged}, and the same requests get by with {share} of the memory."
    ).format(
        wasted=words.percent(maximum.wasted / maximum.reserved),
        size=words.number(paged.block_size),
        paged=words.percent(paged.wasted / paged.reserved),
        share=words.percent(paged.reserved / maximum.reserved),
    )
    return sentence(text)


def schemes_figure(record: SimpleNamespace, words: Words) -> Display:
    """Memory reserved in each scheme: what is used and what is empty."""
    rows, per_token = record.schemes.rows, record.schemes.bytes_per_token / MEBIBYTE

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        for place, row in enumerate(rows):
            axes.barh(place, row.used * per_token, color=COLOURS["cache"])
            axes.barh(place, row.wasted * per_token, left=row.used * per_token, color="#C9C9C4")
            label = words.gettext("{share} empty").format(share=words.percent(row.wasted / row.reserved))
            _end_label(axes, place, row.reserved * per_token, label, inside=place == 0)
        axes.set_yticks(range(len(rows)), [_bar_words(row, words) for row in rows])
        axes.invert_yaxis()
        axes.annotate(
            words.gettext("used"),
            (0, 0),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color="white",
        )
        axes.grid(False, axis="y")
        axes.set_title(words.gettext("The smaller the block, the less stays empty"))
        axes.set_xlabel(
            words.gettext("cache reserved, mean over the run ({unit})").format(unit=words.unit("MiB"))
        )
        localise(axes, words, y=False)

    alt = words.gettext(
        "Bars of the cache memory reserved on average in seven schemes, split into used and empty. Reserving the "
        "longest length for every slot is by far the largest and mostly empty; blocks of 8 or 16 tokens are hardly "
        "larger than what is used, and the empty part grows with the block."
    )
    return figure("schemes", draw, words, alt=alt, size=(5.2, 3.8))


def _bar_words(row: SimpleNamespace, words: Words) -> str:
    if row.scheme == "contiguous-maximum":
        return words.gettext("longest length\nfor everybody")
    if row.scheme == "contiguous-exact":
        return words.gettext("own length,\nif it were known")
    return words.gettext("blocks of {size}").format(size=words.number(row.block_size))


def _end_label(axes: Axes, place: int, end: float, label: str, *, inside: bool) -> None:
    axes.annotate(
        label,
        (end, place),
        xytext=(-6 if inside else 5, 0),
        textcoords="offset points",
        ha="right" if inside else "left",
        va="center",
        fontsize=9,
    )


def schemes_table(record: SimpleNamespace, words: Words) -> Display:
    """Reserved, used and wasted memory, and how many requests fit."""
    columns = (
        Column("scheme", words.gettext("Cache")),
        Column("reserved", words.gettext("Reserved"), unit=words.gettext("tokens"), digits=0),
        Column("used", words.gettext("Used"), unit=words.gettext("tokens"), digits=0),
        Column("wasted", words.gettext("Empty"), unit=words.gettext("tokens"), digits=0),
        Column("wasted_share", words.gettext("Empty"), unit="%", digits=0, scale=100),
        Column("fitting", words.gettext("Requests that fit")),
    )
    rows = [
        (
            _scheme_words(row, words),
            row.reserved,
            row.used,
            row.wasted,
            row.wasted / row.reserved,
            row.fitting,
        )
        for row in record.schemes.rows
    ]
    caption = words.gettext(
        "Mean over the decode steps of the workload; requests that fit together, at full length, into {tokens} tokens"
    ).format(tokens=words.number(record.schemes.memory_tokens))
    return table("schemes", columns, rows, words, caption=caption, marked=[3])


def books(record: SimpleNamespace, words: Words) -> Display:
    """Do the books balance at every step?"""
    balance = (
        words.gettext("At every step and block size, reserved is used plus empty, each counted on its own.")
        if record.schemes.balanced
        else words.gettext("The books do **not** balance: reserved differs from used plus empty.")
    )
    waste = (
        words.gettext("No request ever held a whole empty block.")
        if record.schemes.below_a_block
        else words.gettext("Some request held a whole empty block, which it should not.")
    )
    return sentence(f"{balance} {waste}")


def sharing_table(record: SimpleNamespace, words: Words) -> Display:
    """Blocks and memory of users with one system prompt."""
    found = record.sharing
    columns = (
        Column("users", words.gettext("Users")),
        Column("blocks_apart", words.gettext("A copy each"), unit=words.gettext("blocks")),
        Column("blocks_shared", words.gettext("Shared"), unit=words.gettext("blocks")),
        Column("mib_apart", words.gettext("A copy each"), unit="MiB", digits=1),
        Column("mib_shared", words.gettext("Shared"), unit="MiB", digits=1),
        Column("ratio", words.gettext("Ratio"), digits=2),
    )
    block = found.bytes_per_block / MEBIBYTE
    rows = [
        (
            row.users,
            row.blocks_apart,
            row.blocks_shared,
            row.blocks_apart * block,
            row.blocks_shared * block,
            row.blocks_apart / row.blocks_shared,
        )
        for row in found.rows
    ]
    caption = words.gettext(
        "One system prompt of {prompt} tokens, {own} tokens of each user's own, blocks of {size}"
    ).format(
        prompt=words.number(found.prompt_tokens),
        own=words.number(found.own_tokens),
        size=words.number(found.block_size),
    )
    return table("sharing", columns, rows, words, caption=caption, marked=[len(rows) - 1])


def sharing(record: SimpleNamespace, words: Words) -> Display:
    """How many blocks the shared prompt takes."""
    found = record.sharing
    text = words.ngettext(
        "The prompt of {prompt} tokens lies in {blocks} block, which all {users} users hold together.",
        "The prompt of {prompt} tokens lies in {blocks} blocks, which all {users} users hold together.",
        found.prompt_blocks,
    ).format(
        prompt=words.number(found.prompt_tokens),
        blocks=words.number(found.prompt_blocks),
        users=words.number(found.rows[-1].users),
    )
    return sentence(text)


def store_words(store: str, words: Words) -> str:
    """Where a run of the engine keeps its cache."""
    return {
        "contiguous": words.gettext("contiguous"),
        "paged": words.gettext("paged"),
        "refuse": words.gettext("half the blocks, refusing"),
        "preempt": words.gettext("half the blocks, preempting"),
    }[store]


def engines_table(record: SimpleNamespace, words: Words) -> Display:
    """The engine over every store: memory of its tensors, steps, time, and equal tokens."""
    columns = (
        Column("store", words.gettext("Cache")),
        Column("cache_mib", words.gettext("Its tensors"), unit="MiB", digits=1, scale=1 / MEBIBYTE),
        Column("blocks", words.gettext("Blocks")),
        Column("steps", words.gettext("Steps")),
        Column("preemptions", words.gettext("Preempted"), unit=words.gettext("times")),
        Column("recomputed_tokens", words.gettext("Recomputed"), unit=words.gettext("tokens")),
        Column("agreeing", words.gettext("Same tokens"), unit=words.gettext("requests")),
        Column("seconds", words.gettext("Time"), unit="s", digits=1, varies=True),
    )
    rows = [
        (
            store_words(row.store, words),
            row.cache_bytes,
            row.blocks,
            row.steps,
            row.preemptions,
            row.recomputed_tokens,
            row.agreeing,
            row.seconds,
        )
        for row in record.engines.rows
    ]
    caption = words.gettext("The first {requests} requests of the workload, on the model").format(
        requests=words.number(record.engines.requests)
    )
    return table("engines", columns, rows, words, caption=caption, marked=[1])


def engines(record: SimpleNamespace, words: Words) -> Display:
    """Are the tokens the same, and do all requests finish?"""
    found = record.engines
    same = (
        words.gettext("All {requests} requests got the same tokens from every cache.")
        if tokens_equal(record)
        else words.gettext("Some of the {requests} requests got other tokens, which they should not.")
    ).format(requests=words.number(found.requests))
    contiguous, paged = found.rows[:2]
    memory = words.gettext(
        "The paged cache's tensors take {paged}, the contiguous one's {contiguous}."
    ).format(paged=words.bytes(paged.cache_bytes), contiguous=words.bytes(contiguous.cache_bytes))
    return sentence(f"{same} {memory}")


def tokens_equal(record: SimpleNamespace) -> bool:
    """Whether every request has the contiguous run's tokens in every run, in as many steps as accounted."""
    return all(
        row.agreeing == record.engines.requests and row.steps == row.expected_steps
        for row in record.engines.rows
    )


def gather(record: SimpleNamespace, words: Words) -> Display:
    """What reading through the block table costs here."""
    found = record.engines.gather
    text = words.gettext(
        "A step that gathers its blocks took {ratio} as long as the same step over the contiguous cache (middle "
        "half of the steps: {low} to {high})."
    ).format(
        ratio=words.times(found.value, 2), low=words.times(found.low, 2), high=words.times(found.high, 2)
    )
    return sentence(text)


def fork(record: SimpleNamespace, words: Words) -> Display:
    """A fork in mid-block on the model."""
    found = record.fork
    blocks = words.gettext(
        "A sequence of {tokens} tokens was forked and both branches went on for {branch}. Together they hold {held} "
        "blocks of {size}; apart they would hold {apart}."
    ).format(
        tokens=words.number(found.tokens_at_fork),
        branch=words.number(found.branch_tokens),
        held=words.number(found.blocks_after),
        size=words.number(found.block_size),
        apart=words.number(found.blocks_apart),
    )
    equal = (
        words.gettext("Both branches have the tokens that a contiguous cache gives them.")
        if found.parent_equal and found.child_equal
        else words.gettext("A branch has **other** tokens than with a contiguous cache.")
    )
    return sentence(f"{blocks} {equal}")


def limit_words(limit: str, words: Words) -> str:
    """How much memory there is and what happens when it is full."""
    return {
        "peak": words.gettext("all that is ever wanted"),
        "refuse": words.gettext("half, refusing"),
        "preempt": words.gettext("half, preempting"),
    }[limit]


def limits_table(record: SimpleNamespace, words: Words) -> Display:
    """The whole workload with all the blocks it wants and with half of them."""
    columns = (
        Column("limit", words.gettext("Memory")),
        Column("blocks", words.gettext("Blocks")),
        Column("finished", words.gettext("Finished"), unit=words.gettext("requests")),
        Column("steps", words.gettext("Steps")),
        Column("utilisation", words.gettext("Slots busy"), unit="%", digits=0, scale=100),
        Column("preemptions", words.gettext("Preempted"), unit=words.gettext("times")),
        Column("recomputed_tokens", words.gettext("Recomputed"), unit=words.gettext("tokens")),
    )
    rows = [
        (
            limit_words(row.limit, words),
            row.blocks,
            row.finished,
            row.steps,
            row.utilisation,
            row.preemptions,
            row.recomputed_tokens,
        )
        for row in record.limits.rows
    ]
    caption = words.gettext("All {requests} requests, blocks of {size} tokens").format(
        requests=words.number(record.limits.requests), size=words.number(record.limits.block_size)
    )
    return table("limits", columns, rows, words, caption=caption)


def limits(record: SimpleNamespace, words: Words) -> Display:
    """What half the memory costs either way."""
    peak, refuse, preempt = record.limits.rows
    text = words.gettext(
        "With half the blocks every request still finishes. Refusing newcomers takes {refuse} the decode steps, "
        "preempting {preempt}, and the latter computes {tokens} places of the cache a second time."
    ).format(
        refuse=words.times(refuse.steps / peak.steps, 2),
        preempt=words.times(preempt.steps / peak.steps, 2),
        tokens=words.number(preempt.recomputed_tokens),
    )
    if not all_finish(record):
        text = words.gettext("With half the blocks **not** every request finished, which it should.")
    return sentence(text)


def all_finish(record: SimpleNamespace) -> bool:
    """Whether every request got all its tokens, accounted and on the model."""
    accounted = all(row.finished == record.limits.requests for row in record.limits.rows)
    return accounted and all(row.finished == record.engines.requests for row in record.engines.rows)


def holders_table(record: SimpleNamespace, words: Words) -> Display:
    """Memory times time of the shortest, the median and the longest request."""
    found = record.holders
    step = found.bytes_per_token / MEBIBYTE * record.engines.step_seconds.value
    columns = (
        Column("output_tokens", words.gettext("Answer"), unit=words.gettext("tokens")),
        Column("steps", words.gettext("Decode steps")),
        Column("token_share", words.gettext("Share of all tokens"), unit="%", digits=1, scale=100),
        Column("memory_share", words.gettext("Share of memory × time"), unit="%", digits=1, scale=100),
        Column("paged", words.gettext("Paged"), unit=words.gettext("MiB s"), digits=1, varies=True),
        Column(
            "contiguous",
            words.gettext("Room for the longest"),
            unit=words.gettext("MiB s"),
            digits=1,
            varies=True,
        ),
    )
    rows = [
        (
            row.output_tokens,
            row.steps,
            row.token_share,
            row.memory_share,
            row.paged * step,
            row.contiguous * step,
        )
        for row in found.rows
    ]
    caption = words.gettext(
        "What a request holds while it lives: memory times seconds, blocks of {size}"
    ).format(size=words.number(found.block_size))
    return table("holders", columns, rows, words, caption=caption, marked=[len(rows) - 1])


def holders(record: SimpleNamespace, words: Words) -> Display:
    """A long answer is dearer in memory than in tokens."""
    longest = record.holders.rows[-1]
    text = words.gettext(
        "The longest request makes {tokens} of all tokens and holds {memory} of the memory-time: it stays longer, and "
        "it is larger the longer it stays."
    ).format(tokens=words.percent(longest.token_share), memory=words.percent(longest.memory_share))
    return sentence(text)
