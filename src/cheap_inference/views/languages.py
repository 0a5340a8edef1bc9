"""Tables, figures and sentences of the section languages."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

from babel import Locale
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..passages import ENGLISH
from ..quantity import Quantity
from ..render.display import Display, sentence
from ..render.figure import COLOURS, INK, PAPER, figure, localise
from ..render.table import Column, table
from ..render.words import Words
from .fuller_csv import with_csv

PERCENT = 100
MEBI = 2**-20
BAR = 0.26


def language_name(code: str, words: Words) -> str:
    """A language's name in the reader's language."""
    return Locale.parse(code).get_display_name(words.locale)


def answer(record: SimpleNamespace, words: Words) -> Display:
    """The dearest language in tokens, and what follows from them."""
    tokens = _others(record.tokens.rows)
    costs = _others(record.reading.rows)
    text = words.ngettext(
        "The same text takes up to **{tokens} the tokens** that it takes in English ({list}), and every token takes its "
        "place in the cache. The {n} passage that the model read took up to {prefill} the time of the English one to read and "
        "up to {say} to say.",
        "The same text takes up to **{tokens} the tokens** that it takes in English ({list}), and every token takes its "
        "place in the cache. The {n} passages that the model read took up to {prefill} the time of the English ones to read and "
        "up to {say} to say.",
        record.reading.passages,
    ).format(
        tokens=words.times(max(row.to_english.value for row in tokens)),
        list=_listed(
            ((row.language, words.times(row.to_english.value)) for row in _dearest_first(tokens)), words
        ),
        n=words.number(record.reading.passages),
        prefill=words.times(max(row.prefill_ratio.value for row in costs)),
        say=words.times(max(row.say_ratio.value for row in costs)),
    )
    return sentence(text)


def _others(rows: list) -> list:
    return [row for row in rows if row.language != ENGLISH]


def _dearest_first(rows: list) -> list:
    return sorted(rows, key=lambda row: -row.to_english.value)


def _listed(items: Iterable[tuple[str, str]], words: Words) -> str:
    pairs = [
        words.gettext("{language} {value}").format(language=language_name(code, words), value=value)
        for code, value in items
    ]
    return words.gettext(", ").join(pairs)


# --- tokens ---


def loop_check(record: SimpleNamespace, words: Words) -> Display:
    """Does the taught loop cut as the tokenizer does?"""
    found = record.tokens
    if found.as_taught is None:
        return sentence(
            words.gettext(
                "The tokenizer of this model is no byte-level BPE, so the loop above is not compared."
            )
        )
    text = (
        words.gettext(
            "Given this tokenizer's own merges, the loop cut {words} words exactly as the tokenizer does."
        )
        if found.as_taught
        else words.gettext(
            "Given this tokenizer's merges, the loop did **not** cut all {words} words as it does."
        )
    )
    return sentence(text.format(words=words.number(found.words)))


def token_table(record: SimpleNamespace, words: Words) -> Display:
    """Characters, bytes and tokens of the text in each language."""
    found = record.tokens
    columns = (
        Column("language", words.gettext("Language")),
        Column("characters", words.gettext("Characters")),
        Column("bytes", words.gettext("Bytes, UTF-8")),
        Column("tokens", words.gettext("Tokens")),
        Column("per_character", words.gettext("Tokens a character"), digits=2),
        Column("to_english", words.gettext("Tokens, English = 1"), digits=2),
    )
    rows = [
        (
            language_name(row.language, words),
            row.characters,
            row.bytes,
            row.tokens,
            row.tokens / row.characters,
            1.0 if row.language == ENGLISH else row.to_english,
        )
        for row in found.rows
    ]
    caption = words.ngettext(
        "{n} passage in every language ({title}; {vocabulary} entries in the vocabulary)",
        "{n} passages in every language ({title}; {vocabulary} entries in the vocabulary; spread: the extreme passages)",
        found.passages,
    ).format(n=words.number(found.passages), title=found.title, vocabulary=words.number(found.vocabulary))
    return table("tokens", columns, rows, words, caption=caption, marked=[_dearest(found.rows)])


def _dearest(rows: list) -> int:
    return rows.index(_dearest_first(rows)[0])


def cut_table(record: SimpleNamespace, words: Words) -> Display:
    """One word of each language, and how it is cut."""
    columns = (
        Column("language", words.gettext("Language")),
        Column("word", words.gettext("Word")),
        Column("characters", words.gettext("Characters")),
        Column("bytes", words.gettext("Bytes")),
        Column("tokens", words.gettext("Tokens")),
        Column("pieces", words.gettext("Cut into")),
    )
    rows = [
        (
            language_name(cut.language, words),
            cut.word,
            len(cut.word),
            len(cut.word.encode()),
            len(cut.pieces),
            " · ".join(piece_shown(piece) for piece in cut.pieces),
        )
        for cut in record.tokens.cuts
    ]
    caption = words.gettext(
        "One word in every language (in brackets: bytes that are only a part of a character)"
    )
    return table("cuts", columns, rows, words, caption=caption)


def piece_shown(digits: str) -> str:
    """A token, given as the hexadecimal digits of its bytes: its characters, or the bytes of an incomplete one."""
    piece = bytes.fromhex(digits)
    try:
        return piece.decode().strip()
    except UnicodeDecodeError:
        return f"[{piece.hex(' ').upper()}]"


def holding_table(record: SimpleNamespace, words: Words) -> Display:
    """How much of the text a token holds."""
    columns = (
        Column("language", words.gettext("Language")),
        Column("part", words.gettext("A part of a character"), unit="%", digits=1, scale=PERCENT),
        Column("single", words.gettext("One character"), unit="%", digits=1, scale=PERCENT),
        Column("several", words.gettext("Several characters"), unit="%", digits=1, scale=PERCENT),
    )
    found = record.tokens.rows
    rows = [
        (
            language_name(row.language, words),
            *(held / row.tokens for held in (row.part, row.single, row.several)),
        )
        for row in found
    ]
    caption = words.gettext("What a token holds, as shares of the tokens (a space before a word not counted)")
    return table("holdings", columns, rows, words, caption=caption, marked=[_dearest(found)])


def chapters_tokenizer(record: SimpleNamespace, words: Words) -> Display:
    """The chapter's tokenizer beside this one, where it could be had."""
    if not record.chapters:
        return sentence(
            words.gettext(
                "The tokenizer of the chapter's model could not be compared: the model hub was out of reach."
            )
        )
    tokenizers = [record.tokens, record.chapters[0]]
    columns = (
        Column("language", words.gettext("Language")),
        *(
            column
            for i, one in enumerate(tokenizers)
            for column in (
                Column(f"tokens_{i}", words.gettext("Tokens, {title}").format(title=one.title)),
                Column(f"to_english_{i}", words.gettext("English = 1"), digits=2),
            )
        ),
    )
    rows = [
        (
            language_name(pair[0].language, words),
            *(cell for row in pair for cell in (row.tokens, row.to_english.value)),
        )
        for pair in zip(*(one.rows for one in tokenizers), strict=True)
    ]
    caption = words.gettext(
        "The same passages under two tokenizers (vocabularies: {here} and {there} entries)"
    ).format(here=words.number(tokenizers[0].vocabulary), there=words.number(tokenizers[1].vocabulary))
    return table("tokenizers", columns, rows, words, caption=caption)


# --- what the tokens cost ---


def bars_figure(record: SimpleNamespace, words: Words) -> Display:
    """Tokens, reading time and saying time of the passages read, relative to English."""
    english = next(row for row in record.reading.rows if row.language == ENGLISH)
    rows = sorted(_others(record.reading.rows), key=lambda row: row.tokens)
    counts = [Quantity(row.tokens / english.tokens, "ratio") for row in rows]
    series = (
        (words.gettext("tokens and cache"), "reference", counts),
        (words.gettext("time to read it (prefill)"), "prefill", [row.prefill_ratio for row in rows]),
        (words.gettext("time to say it (decode)"), "decode", [row.say_ratio for row in rows]),
    )

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        for i, (label, colour, ratios) in enumerate(series):
            _bars(axes, ratios, (1 - i) * (BAR + 0.02), COLOURS[colour], label)
        axes.axvline(1, color=INK, lw=1, ls="--")
        axes.set_yticks(range(len(rows)), [language_name(row.language, words) for row in rows])
        axes.grid(visible=False, axis="y")
        axes.legend(loc="lower right", frameon=True, facecolor=PAPER, edgecolor="none", framealpha=1)
        axes.set_xlabel(words.gettext("cost of the same text, English = 1 (dashed)"))
        axes.set_title(
            words.gettext("Saying the same text takes up to {factor} as long").format(
                factor=words.times(max(row.say_ratio.value for row in rows))
            )
        )
        localise(axes, words, y=False)

    alt = words.gettext(
        "Three bars for each language but English: tokens and cache, time to read, and time to say the same text, all "
        "relative to English. The longest bars: {language}."
    ).format(language=language_name(rows[-1].language, words))
    return figure("languages", draw, words, alt=alt, size=(5.2, 4.2))


def _bars(axes: Axes, ratios: list[Quantity], shift: float, colour: str, label: str) -> None:
    places = [place + shift for place in range(len(ratios))]
    axes.barh(places, [ratio.value for ratio in ratios], BAR, color=colour, label=label)
    for place, ratio in zip(places, ratios, strict=True):
        if ratio.low is not None:
            axes.plot([ratio.low, ratio.high], [place, place], color=INK, lw=1.2, marker="|", ms=5)


def cost_table(record: SimpleNamespace, words: Words) -> Display:
    """Cache bytes and times of a passage in each language."""
    found = record.reading
    columns = (
        Column("language", words.gettext("Language")),
        Column("tokens", words.gettext("Tokens"), digits=0),
        Column("cache_bytes", words.gettext("KV cache"), unit="MiB", digits=1, scale=MEBI),
        Column("prefill_ratio", words.gettext("Prefill, English = 1"), digits=2, varies=True),
        Column("step_ms", words.gettext("Decode step"), unit="ms", digits=1, varies=True),
        Column("say_s", words.gettext("Time to say it"), unit="s", digits=1, varies=True),
        Column("say_ratio", words.gettext("the same, English = 1"), digits=2, varies=True),
    )
    rows = [
        (
            language_name(row.language, words),
            row.tokens / found.passages,
            row.cache_bytes / found.passages,
            1.0 if row.language == ENGLISH else row.prefill_ratio,
            row.step.value,
            row.say.value,
            1.0 if row.language == ENGLISH else row.say_ratio,
        )
        for row in found.rows
    ]
    caption = words.ngettext(
        "One passage, read and said (median and quartiles)",
        "One passage, mean of {n}, read and said (medians and quartiles)",
        found.passages,
    ).format(n=words.number(found.passages))
    return table("costs", columns, rows, words, caption=caption)


def noise(record: SimpleNamespace, words: Words) -> Display:
    """How far two readings of one English passage lie apart."""
    found = record.reading.noise
    text = words.gettext(
        "The noise: reading an English passage a second time took {value} the time of the first ({spread})."
    ).format(value=words.times(found.value, 2), spread=words.spread(found.low, found.high, 2))
    return sentence(text)


# --- what rounding does ---


def damage_table(record: SimpleNamespace, words: Words) -> Display:
    """Agreement and bits under INT4 in each language."""
    damage = record.reading.damage
    shown = (
        Column("language", words.gettext("Language")),
        Column("positions", words.gettext("Positions")),
        Column("agreed", words.gettext("Same choice"), unit="%", digits=0, scale=PERCENT, varies=True),
        Column("agreement_differs", words.gettext("Apart from English"), varies=True),
        Column("bits", words.gettext("Bits a character"), digits=2, varies=True),
        Column("more_bits", words.gettext("Bits with INT4, without = 1"), digits=2, varies=True),
        Column("bits_differ", words.gettext("Apart from English"), varies=True),
    )
    further = (
        Column("agreed_to_english", ""),
        Column("more_bits_to_english", ""),
    )
    rows = [
        (
            language_name(row.language, words),
            row.positions,
            row.agreed,
            row.agreement_differs,
            row.bits,
            row.more_bits,
            row.bits_differ,
        )
        for row in damage.rows
    ]
    more = [
        (*cells, row.agreed_to_english, row.more_bits_to_english)
        for cells, row in zip(rows, damage.rows, strict=True)
    ]
    caption = words.gettext(
        "INT4 in groups of 128 against full precision, on the passages' own text (95 % intervals)"
    )
    return with_csv(table("damage", shown, rows, words, caption=caption), (*shown, *further), more)


def damage(record: SimpleNamespace, words: Words) -> Display:
    """Which languages stand apart from English, by each of the two measures."""
    rows = _others(record.reading.damage.rows)
    agreement = words.gettext(
        "Choices of the next token: fewer survive than in English in: {fewer}; more: {more}; **not distinguishable** "
        "from English: {alike}."
    ).format(
        fewer=_named(
            [row for row in rows if row.agreement_differs and row.agreed_to_english.value < 1], words
        ),
        more=_named(
            [row for row in rows if row.agreement_differs and row.agreed_to_english.value > 1], words
        ),
        alike=_named([row for row in rows if not row.agreement_differs], words),
    )
    bits = words.gettext(
        "Bits for the same text: they grow more than in English in: {more}; less: {fewer}; **not distinguishable**: "
        "{alike}."
    ).format(
        more=_named([row for row in rows if row.bits_differ and row.more_bits_to_english.value > 1], words),
        fewer=_named([row for row in rows if row.bits_differ and row.more_bits_to_english.value < 1], words),
        alike=_named([row for row in rows if not row.bits_differ], words),
    )
    return sentence(f"{agreement}\n\n{bits}")


def _named(rows: list, words: Words) -> str:
    if not rows:
        return words.gettext("none")
    return words.gettext(", ").join(language_name(row.language, words) for row in rows)


def setup(record: SimpleNamespace, words: Words) -> Display:
    """How the intervals were made."""
    found = record.reading.damage
    text = words.gettext(
        "For the intervals the text is cut into {parts} parts, the same shares of it in every language, and parts are "
        "drawn {resamples} times with replacement, the same ones in both languages of a comparison."
    ).format(parts=words.number(found.parts), resamples=words.number(found.resamples))
    return sentence(text)
