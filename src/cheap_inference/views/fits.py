"""Tables, figures and sentences of the section fits."""

from __future__ import annotations

from types import SimpleNamespace

from matplotlib.figure import Figure

from ..render.display import Display, sentence
from ..render.figure import COLOURS, PAPER, figure, localise
from ..render.table import Column, table
from ..render.words import Words
from .fuller_csv import with_csv

GIB = 2**30
#: Rows of the open models that stand on one page.
ROWS_A_TABLE = 8
#: The card whose cells the figure draws.
FIGURE_CARD_GIB = 16


def answer(record: SimpleNamespace, words: Words) -> Display:
    """The chapter's two extremes: the same kind of card, from a long book to a page."""
    found = record.tables
    text = words.gettext(
        "On a card of 16 GiB a 7B model in 8 bits leaves room for **{many} tokens**, a 13B model in 8 bits for "
        "**{few}**. On 8 GiB the 13B model needs 4 bits and then has room for **{fewest}**."
    ).format(
        many=words.number(found.tokens_7b_int8_16gib),
        few=words.number(found.tokens_13b_int8_16gib),
        fewest=words.number(found.tokens_13b_4bit_8gib),
    )
    return sentence(text)


def tables(record: SimpleNamespace, words: Words) -> Display:
    """The chapter's tables: tokens that fit, by card, model and width. The 70B model, which fits none, in words."""
    widths = list(dict.fromkeys(cell.bits for cell in record.tables.cells))
    headings = (words.gettext("fp16"), words.gettext("int8"), words.gettext("4.125 bits"))
    columns = (
        Column("card_gib", words.gettext("Card"), unit="GiB"),
        Column("model", words.gettext("Model")),
        Column("kib_per_token", words.gettext("A token"), unit="KiB", scale=1 / 1024),
        *(
            Column(f"tokens_{bits}_bits", heading, unit=words.gettext("tokens"))
            for bits, heading in zip(widths, headings, strict=True)
        ),
    )
    cells = {(cell.card_gib, cell.model, cell.bits): cell for cell in record.tables.cells}
    places = dict.fromkeys((card, model) for card, model, _ in cells if model != "70B")
    rows = [
        (
            card,
            model,
            int(cells[card, model, widths[0]].token_bytes),
            *(cells[card, model, bits].tokens for bits in widths),
        )
        for card, model in places
    ]
    caption = words.gettext(
        "Tokens that fit beside the weights and a reserve of {reserve}; – the weights do not fit"
    ).format(reserve=words.bytes(record.tables.reserve_bytes))
    return table("chapter", columns, rows, words, caption=caption)


def seventy(record: SimpleNamespace, words: Words) -> Display:
    """The 70B model on the largest card at the fewest bits."""
    cell = next(cell for cell in reversed(record.tables.cells) if cell.model == "70B")
    text = words.gettext(
        "The 70B model fits none of these cards: at {bits} bits its weights are {weights}, and {missing} are missing "
        "on the largest. A token would take {token}."
    ).format(
        bits=_bits(cell.bits, words),
        weights=words.bytes(cell.weight_bytes),
        missing=words.bytes(-cell.room_bytes),
        token=words.bytes(cell.token_bytes),
    )
    return sentence(text)


def memory_figure(record: SimpleNamespace, words: Words) -> Display:
    """How a 16 GiB card is divided between weights, reserve and cache."""
    cells = [c for c in record.tables.cells if c.card_gib == FIGURE_CARD_GIB and c.model != "70B"]
    names = [
        words.gettext("{model}, {bits} bits").format(model=cell.model, bits=_bits(cell.bits, words))
        for cell in cells
    ]
    reserve = record.tables.reserve_bytes / GIB

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        places = range(len(cells))
        weights = [cell.weight_bytes / GIB for cell in cells]
        room = [max(0, cell.room_bytes) / GIB for cell in cells]
        parts = (
            (weights, [0] * len(cells), "floor"),
            ([reserve] * len(cells), weights, "rest"),
            (room, [w + reserve for w in weights], "cache"),
        )
        for widths, starts, colour in parts:
            axes.barh(places, widths, left=starts, color=COLOURS[colour], height=0.7)
        widest = weights.index(max(weights)), room.index(max(room))
        inside = {"ha": "center", "va": "center", "color": PAPER}
        axes.text(weights[widest[0]] / 2, widest[0], words.gettext("the weights"), **inside)
        axes.text(FIGURE_CARD_GIB - room[widest[1]] / 2, widest[1], words.gettext("cache"), **inside)
        _name_reserve(axes, words)
        axes.axvline(FIGURE_CARD_GIB, color=COLOURS["reference"], linestyle="--")
        for place, cell in enumerate(cells):
            _name_bar(axes, place, cell, words)
        axes.set_yticks(list(places), names)
        axes.set_ylim(len(cells) - 0.4, -1)  # from the top down, with room for a word above the first bar
        axes.grid(axis="y", visible=False)
        axes.set_xlim(0, 34)
        axes.set_title(words.gettext("What the weights leave is cache"))
        axes.set_xlabel(words.gettext("{unit}; dashed: the card").format(unit=words.unit("GiB")))
        localise(axes, words, y=False)

    alt = words.gettext(
        "Bars of weights, reserve and cache for two models at three widths against a card of 16 GiB, with the number "
        "of tokens that the cache holds. The 7B model leaves much room, the 13B model little, and each of its tokens "
        "takes more than six times as many bytes."
    )
    return figure("memory", draw, words, alt=alt, size=(5.2, 3.8))


def _name_reserve(axes, words: Words) -> None:
    """Above the first bar, clear of the line that marks the card."""
    point, look = (FIGURE_CARD_GIB, -0.4), {"ha": "right", "va": "bottom"}
    axes.annotate(words.gettext("reserve"), point, xytext=(-4, 1), textcoords="offset points", **look)


def _name_bar(axes, place: int, cell: SimpleNamespace, words: Words) -> None:
    text = words.gettext("does not fit")
    if cell.tokens is not None:
        text = words.ngettext("{n} token", "{n} tokens", cell.tokens).format(n=words.number(cell.tokens))
    end = FIGURE_CARD_GIB - min(0, cell.room_bytes) / GIB  # a bar that does not fit ends past the card
    axes.annotate(text, (end, place), xytext=(5, 0), textcoords="offset points", va="center")


def hangs_on(record: SimpleNamespace, words: Words) -> Display:
    """The fragile answer: what one assumption does to it."""
    found = record.hangs
    columns = (
        Column("assumption", words.gettext("13B at 4.125 bits on 8 GiB")),
        Column("tokens", words.gettext("Tokens")),
    )
    rows = (
        (words.gettext("as in the chapter"), found.tokens),
        (words.gettext("cache in 8 bits with scales"), found.with_half_cache),
        (words.gettext("8 key-value heads instead of 40"), found.with_fewer_heads),
        (words.gettext("no reserve"), found.without_reserve),
    )
    return table(
        "hangs-on",
        columns,
        rows,
        words,
        caption=words.gettext("One assumption changed at a time"),
        marked=[0],
    )


def ratio(record: SimpleNamespace, words: Words) -> Display:
    """Why 7B has so many more tokens than 13B: taken apart."""
    found = record.hangs
    text = words.gettext(
        "In 8 bits on 16 GiB the 7B model holds {ratio} the tokens of the 13B model: it has {room} the room, and a "
        "token of the 13B model takes {token} the bytes. The weights explain the smaller part, the 40 key-value heads "
        "the larger."
    ).format(
        ratio=words.times(found.token_ratio, 1),
        room=words.times(found.room_ratio, 2),
        token=words.times(found.token_bytes_ratio, 2),
    )
    return sentence(text)


def near_miss(record: SimpleNamespace, words: Words) -> Display:
    """A cell that is empty by a hair, and the scales that the rule forgets."""
    found = record.hangs
    text = words.gettext(
        "The 7B model in 8 bits is too large for a card of 8 GiB by {missing}, so there the reserve decides. And the rule "
        "counts the bits of the scales at 4.125 but not at 8: with them the {plain} tokens on 16 GiB become {scaled}."
    ).format(
        missing=words.bytes(found.missing_bytes),
        plain=words.number(found.int8_tokens),
        scaled=words.number(found.int8_tokens_with_scales),
    )
    return sentence(text)


def small_models(record: SimpleNamespace, words: Words) -> Display:
    """The smaller half of the published shapes on the reader's card."""
    caption = words.gettext("Open models, the smaller ones, {card}")
    return _models("open-models-small", record.models.rows[:ROWS_A_TABLE], caption, record.models, words)


def large_models(record: SimpleNamespace, words: Words) -> Display:
    """The larger half of the published shapes on the reader's card."""
    caption = words.gettext("Open models, the larger ones, {card}")
    return _models("open-models-large", record.models.rows[ROWS_A_TABLE:], caption, record.models, words)


def _models(name: str, rows: list, caption: str, asked: SimpleNamespace, words: Words) -> Display:
    columns = (
        Column("model", words.gettext("Model")),
        Column("parameters", words.gettext("Parameters"), unit="10⁹", scale=1e-9, digits=1),
        Column("layers", words.gettext("Layers")),
        Column("sliding_layers", words.gettext("of them sliding")),
        Column("window", words.gettext("Window"), unit=words.gettext("tokens")),
        Column("kv_heads", words.gettext("KV heads")),
        Column("head_dim", words.gettext("Head dim.")),
        Column("kib_per_token", words.gettext("A token"), unit="KiB", scale=1 / 1024, digits=1),
        Column("longest", words.gettext("Longest text"), unit=words.gettext("tokens")),
        Column("users", words.gettext("Users")),
    )
    cells = [
        (
            row.model,
            row.parameters,
            row.layers,
            row.sliding_layers,
            row.window,
            row.kv_heads,
            row.head_dim,
            row.token_bytes,
            row.tokens or None,
            row.users or None,
        )
        for row in rows
    ]
    shown = table(name, columns, cells, words, caption=caption.format(card=_card(asked, words)))
    sources = [(*row_cells, row.source) for row_cells, row in zip(cells, rows, strict=True)]
    return with_csv(shown, (*columns, Column("source", "")), sources)


def _card(asked: SimpleNamespace, words: Words) -> str:
    return words.gettext(
        "{card} of memory, weights at {bits} bits, cache at {cache_bits}, users of {context} tokens"
    ).format(
        card=words.bytes(asked.card_gib * GIB),
        bits=_bits(asked.bits_per_weight, words),
        cache_bits=_bits(asked.cache_bits, words),
        context=words.number(asked.context),
    )


def _bits(bits: float, words: Words) -> str:
    """A width, whole or with the scales' share written out."""
    return words.number(bits, 0 if bits == int(bits) else 3)


def sources(record: SimpleNamespace, words: Words) -> Display:
    """Where each shape is published."""
    links = [f"[{row.model}]({row.source})" for row in record.models.rows]
    return sentence(
        words.gettext("Published shapes: {models}.").format(models=words.gettext(", ").join(links))
    )


def own_model(record: SimpleNamespace, words: Words) -> Display:
    """The model of this run, read from its configuration."""
    own = record.models.own
    text = words.gettext(
        "The model that this page was made with, {model}, read from its own configuration: {parameters} parameters, "
        "{token} a token, and {users} on that card."
    ).format(
        model=own.model,
        parameters=words.number(own.parameters),
        token=words.bytes(own.token_bytes),
        users=words.ngettext("{n} user", "{n} users", own.users).format(n=words.number(own.users)),
    )
    return sentence(text)


def users_figure(record: SimpleNamespace, words: Words) -> Display:
    """Users that fit at once, for every published shape."""
    rows, asked = record.models.rows, record.models

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        places = range(len(rows))
        colours = [COLOURS["model_c"] if row.sliding_layers else COLOURS["cache"] for row in rows]
        axes.barh(places, [row.users for row in rows], color=colours, height=0.7)
        for place, row in enumerate(rows):
            label = words.number(row.users) if row.users else words.gettext("none fits")
            axes.annotate(label, (row.users, place), xytext=(4, 0), textcoords="offset points", va="center")
        axes.set_yticks(list(places), [row.model for row in rows])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xscale("symlog", linthresh=4)
        axes.set_xlim(0, 4 * max(4, *(row.users for row in rows)))
        axes.set_title(words.gettext("Size alone does not say how many users fit"))
        axes.set_xlabel(
            words.gettext("users of {context} tokens on {card} (log scale)").format(
                context=words.number(asked.context), card=words.bytes(asked.card_gib * GIB)
            )
        )
        note = {"transform": axes.transAxes, "ha": "right", "va": "bottom", "color": COLOURS["model_c"]}
        axes.text(0.98, 0.02, words.gettext("green: with\nsliding layers"), **note)
        localise(axes, words, y=False)

    alt = words.gettext(
        "Bars of the number of users that fit on the card at once, for every open model of the table from the "
        "smallest to the largest. The bars do not shrink in step with the size: models with few key-value heads or "
        "sliding layers hold more users than smaller ones without."
    )
    return figure("users", draw, words, alt=alt, size=(5.2, 5.2))


def proof(record: SimpleNamespace, words: Words) -> Display:
    """The prediction, and how far a process under that limit came."""
    found = record.proof
    plan = words.gettext(
        "A process was allowed {card} beyond its libraries: {weights} of weights, {reserve} of reserve, and cache for "
        "a predicted {predicted} tokens at {token} each. With nothing left for the passes themselves the memory would "
        "end at {most} tokens. "
    ).format(
        card=words.bytes(found.card_bytes),
        weights=words.bytes(found.weight_bytes),
        reserve=words.bytes(found.reserve_bytes),
        predicted=words.number(found.predicted),
        token=words.bytes(found.token_bytes),
        most=words.number(found.most_tokens),
    )
    return sentence(plan + _reached(found, words))


def _reached(found: SimpleNamespace, words: Words) -> str:
    if found.reached is None:
        return words.gettext("This system cannot hold a process to a limit, so it was **not tried here**.")
    if found.generated_to_the_limit:
        text = words.gettext(
            "It **generated to the prediction** and failed to get memory after {reached} tokens."
        )
    elif found.reached < found.predicted:
        text = words.gettext("It failed **before the prediction**, after {reached} tokens.")
    else:
        text = words.gettext("It went on **past that end**, to {reached} tokens: the limit did not bind.")
    return text.format(reached=words.number(found.reached))


def sizes(record: SimpleNamespace, words: Words) -> Display:
    """Bigger in 4 bits or smaller in 16: measured where both can be had, else the bytes alone."""
    found = record.sizes
    if not found.sides:
        text = words.gettext(
            "It takes a GPU and the model hub, so it was **not measured here**. The bytes are known: {smaller} for the "
            "0.5B model in 16 bits, {bigger} for the 1.5B model with its projections in 4 bits and its embedding in 16."
        ).format(smaller=words.bytes(found.smaller_bytes), bigger=words.bytes(found.bigger_bytes))
        return sentence(text)
    columns = (
        Column("model", words.gettext("Model")),
        Column("weights_mib", words.gettext("Weights"), unit="MiB", scale=2**-20),
        Column("perplexity", words.gettext("Perplexity"), digits=1, varies=True),
        Column("correct", words.gettext("Answers right"), varies=True),
        Column("step_ms", words.gettext("Step"), unit="ms", varies=True),
    )
    rows = [(side.model, side.weight_bytes, side.perplexity, side.correct, side.step) for side in found.sides]
    caption = words.gettext(
        "16 bits against 4: perplexity on {tokens} tokens, {questions} questions, one decode step"
    ).format(tokens=words.number(found.perplexity_ratio.n), questions=words.number(found.questions))
    return table("sizes", columns, rows, words, caption=caption)


def sizes_verdict(record: SimpleNamespace, words: Words) -> Display:
    """Which side predicts better, if the interval says so."""
    ratio = record.sizes.perplexity_ratio
    if ratio is None:
        return sentence(words.gettext("Without the measurement there is no verdict."))
    if ratio.high < 1:
        text = words.gettext(
            "The bigger model in 4 bits predicts **better**: {ratio} of the perplexity ({low} to {high})."
        )
    elif ratio.low > 1:
        text = words.gettext(
            "The bigger model in 4 bits predicts **worse**: {ratio} of the perplexity ({low} to {high})."
        )
    else:
        text = words.gettext(
            "The two are **not distinguishable**: {ratio} of the perplexity ({low} to {high})."
        )
    return sentence(
        text.format(ratio=words.times(ratio.value), low=words.times(ratio.low), high=words.times(ratio.high))
    )
