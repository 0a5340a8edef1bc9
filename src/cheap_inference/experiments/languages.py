"""Measurements of the section languages: the tokens of one text in each language, and how its words are cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import UserError
from ..models.load import LoadedModel
from ..models.registry import GPU_MODEL, KNOWN_MODELS
from ..models.tokenizer_file import hub_tokenizer
from ..passages import ENGLISH, parallel_text
from ..quantity import Quantity
from ..tokenization import Ranks, byte_level_ranks, characters_in, pieces, words_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Cut = Callable[[bytes, Ranks], list[bytes]]


@dataclass(frozen=True)
class TextRow:
    """All passages in one language.

    `to_english`: tokens over those of the English passages; `low` and `high` are the passages with the smallest and
    the largest such ratio. `part`, `single` and `several` count the tokens that hold a part of a
    character, one character, or more.
    """

    language: str
    characters: int
    bytes: int
    tokens: int
    to_english: Quantity
    part: int
    single: int
    several: int


@dataclass(frozen=True)
class WordRow:
    """One word and its tokens, each as the hexadecimal digits of its bytes."""

    language: str
    word: str
    pieces: tuple[str, ...]


@dataclass(frozen=True)
class Counts:
    """What one tokenizer makes of the text.

    `words` is how many words the taught loop was given, `as_taught` whether it gave the tokenizer's own tokens in all
    of them; None for a tokenizer that is no byte-level BPE.
    """

    title: str
    passages: int
    vocabulary: int
    rows: tuple[TextRow, ...]
    cuts: tuple[WordRow, ...]
    words: int
    as_taught: bool | None


def count_tokens(tokenizer: Tokenizer, title: str, cut: Cut) -> Counts:
    """Count the tokens of every passage, and compare them with what `cut`, the notebook's own loop, gives."""
    text = parallel_text()
    tokens = {
        language: [pieces(tokenizer, passage) for passage in passages]
        for language, passages in text.passages.items()
    }
    words, as_taught = _compare_with_loop(tokenizer, tokens, cut)
    return Counts(
        title=title,
        passages=len(tokens[ENGLISH]),
        vocabulary=tokenizer.get_vocab_size(),
        rows=tuple(_text_row(language, tokens) for language in text.languages),
        cuts=tuple(
            WordRow(language, word, tuple(piece.hex() for piece in pieces(tokenizer, word)))
            for language, word in text.words.items()
        ),
        words=words,
        as_taught=as_taught,
    )


def count_loaded(lm: LoadedModel, cut: Cut) -> Counts:
    """`count_tokens` for the tokenizer of a loaded model."""
    tokenizer = getattr(lm.tokenizer, "backend_tokenizer", None)
    if tokenizer is None:
        raise UserError(
            f"{lm.spec.title} has no fast tokenizer, whose tokens can be looked at: choose another model."
        )
    return count_tokens(tokenizer, lm.spec.title, cut)


def count_chapters(cut: Cut) -> tuple[Counts, ...]:
    """`count_tokens` for the chapter's model, of which only the tokenizer is needed; empty without the hub."""
    spec = KNOWN_MODELS[GPU_MODEL]
    tokenizer = hub_tokenizer(spec.location, spec.revision)
    return (count_tokens(tokenizer, spec.title, cut),) if tokenizer else ()


def _text_row(language: str, tokens: dict[str, list[list[bytes]]]) -> TextRow:
    mine = [piece for passage in tokens[language] for piece in passage]
    ratios = [
        len(here) / len(english) for here, english in zip(tokens[language], tokens[ENGLISH], strict=True)
    ]
    total = len(mine) / sum(map(len, tokens[ENGLISH]))
    held = [characters_in(piece) for piece in mine]
    written = "".join(parallel_text().passages[language])
    return TextRow(
        language=language,
        characters=len(written),
        bytes=len(written.encode()),
        tokens=len(mine),
        to_english=Quantity(total, "ratio", min(ratios), max(ratios), len(ratios)),
        part=held.count(None),
        single=sum(count in (0, 1) for count in held),
        several=sum(count is not None and count > 1 for count in held),
    )


def _compare_with_loop(
    tokenizer: Tokenizer, tokens: dict[str, list[list[bytes]]], cut: Cut
) -> tuple[int, bool | None]:
    ranks = byte_level_ranks(tokenizer)
    if ranks is None:
        return 0, None
    words, same = 0, True
    for language, passages in parallel_text().passages.items():
        for passage, expected in zip(passages, tokens[language], strict=True):
            split = words_of(tokenizer, passage)
            words += len(split)
            same &= [piece for word in split for piece in cut(word, ranks)] == expected
    return words, same
