"""Tokens as the bytes they stand for, and the merges that a byte-level tokenizer has learnt.

Byte-level BPE writes every byte as a printable character (Radford et al. 2019), so that its vocabulary can be
kept as text; SentencePiece writes a space as "▁" and a lone byte as "<0xE0>". Both are undone here, and the
result is checked against the text itself.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING

from .errors import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

#: Order in which a pair of neighbours was merged when the tokenizer was trained, by pair.
Ranks = dict[tuple[bytes, bytes], int]

_LONE_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def pieces(tokenizer: Tokenizer, text: str) -> list[bytes]:
    """The text as the tokenizer cuts it, each token as its bytes; nothing is added at the ends.

    Raises:
        UserError: the tokens, put together, are not the text: another kind of tokenizer.
    """
    tokens = tokenizer.encode(text, add_special_tokens=False).tokens
    for bytes_of in (_byte_level, _sentence_piece):
        try:
            found = [bytes_of(token) for token in tokens]
        except KeyError:
            continue
        if b"".join(found).lstrip(b" ") == text.encode().lstrip(b" "):
            return found
    raise UserError("This tokenizer changes the text or hides its bytes: choose a model with another one.")


def byte_level_ranks(tokenizer: Tokenizer) -> Ranks | None:
    """The learnt merges of a byte-level BPE; None for a tokenizer that works in another way."""
    parts = json.loads(tokenizer.to_str())
    model = parts["model"]
    byte_level = '"ByteLevel"' in json.dumps(parts["pre_tokenizer"])
    if not byte_level or model["type"] != "BPE" or model.get("ignore_merges"):
        return None
    pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])
    return {(_byte_level(left), _byte_level(right)): rank for rank, (left, right) in enumerate(pairs)}


def words_of(tokenizer: Tokenizer, text: str) -> list[bytes]:
    """What a byte-level tokenizer cuts apart before it merges anything: words with the space before them."""
    if tokenizer.normalizer is not None:
        text = tokenizer.normalizer.normalize_str(text)
    return [_byte_level(word) for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]


def characters_in(piece: bytes) -> int | None:
    """How many characters a token holds, a space before them not counted; None: only a part of one."""
    try:
        return len(piece.lstrip(b" ").decode())
    except UnicodeDecodeError:
        return None


def _byte_level(token: str) -> bytes:
    return bytes(_byte_of()[character] for character in token)


def _sentence_piece(token: str) -> bytes:
    lone = _LONE_BYTE.fullmatch(token)
    return bytes([int(lone[1], 16)]) if lone else token.replace("▁", " ").encode()


@cache
def _byte_of() -> dict[str, int]:
    """Byte by the character that stands for it: itself where that prints, else one from 256 on."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + place): byte for place, byte in enumerate(hidden)
    }
