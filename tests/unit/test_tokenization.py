"""Tokens as bytes, and the taught loop against the tokenizers library on tokenizers trained here."""

import ast
import random
import re
from math import inf
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from cheap_inference import tokenization
from cheap_inference.errors import UserError
from cheap_inference.models import tokenizer_file
from cheap_inference.passages import parallel_text

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "languages.md"
CELLS = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def cut_word():
    source = NOTEBOOK.read_text(encoding="utf-8")
    functions = [
        node
        for cell in CELLS.findall(source)
        for node in ast.parse(re.sub(r"^:.*\n", "", cell, flags=re.MULTILINE)).body
        if isinstance(node, ast.FunctionDef)
    ]
    namespace = {"inf": inf}
    exec("\n".join(map(ast.unparse, functions)), namespace)
    return namespace["cut_word"]


def byte_level(vocabulary=600):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    text = parallel_text()
    tokenizer.train_from_iterator([*text.passages["en"], *text.passages["pl"]], trainer)
    return tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return byte_level()


@pytest.mark.parametrize("language", parallel_text().languages)
def test_pieces_are_the_text_and_the_loop_cuts_the_same(tokenizer, cut_word, language):
    ranks = tokenization.byte_level_ranks(tokenizer)
    for passage in parallel_text().passages[language]:
        pieces = tokenization.pieces(tokenizer, passage)
        assert b"".join(pieces) == passage.encode()
        words = tokenization.words_of(tokenizer, passage)
        assert [piece for word in words for piece in cut_word(word, ranks)] == pieces
        assert len(pieces) > len(words)


def test_the_loop_on_random_bytes_of_text(tokenizer, cut_word):
    ranks, draw = tokenization.byte_level_ranks(tokenizer), random.Random(0)
    for _ in range(200):
        text = "".join(draw.choice("aabeot łąकि") for _ in range(draw.randint(1, 12)))
        words = tokenization.words_of(tokenizer, text)
        assert [p for word in words for p in cut_word(word, ranks)] == tokenization.pieces(tokenizer, text)


def test_the_loop_follows_the_order_of_the_merges_not_of_the_text(cut_word):
    ranks = {(b"b", b"c"): 0, (b"a", b"b"): 1, (b"a", b"bc"): 2}
    assert cut_word(b"abcab", ranks) == [b"abc", b"ab"]
    assert cut_word(b"", ranks) == []
    assert cut_word(b"xyz", {}) == [b"x", b"y", b"z"]


def test_every_byte_has_a_character_of_its_own():
    of = tokenization._byte_of()
    assert sorted(of.values()) == list(range(256))
    assert set(of) == set(pre_tokenizers.ByteLevel.alphabet())


def test_characters_in_a_piece():
    held = [
        tokenization.characters_in(piece) for piece in (b" the", "ि".encode(), b"\xe0\xa4", b" \xe0", b" ")
    ]
    assert held == [3, 1, None, None, 0]


def test_a_tokenizer_that_works_in_words_has_no_ranks():
    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    assert tokenization.byte_level_ranks(words) is None
    with pytest.raises(UserError, match="changes the text"):
        tokenization.pieces(words, "a b")


def test_sentence_pieces_with_bytes_for_what_is_unknown():
    vocabulary = {"▁": 0, "a": 1, "b": 2, "▁a": 3, "<unk>": 4} | {f"<0x{n:02X}>": 5 + n for n in range(256)}
    pieces = Tokenizer(models.BPE(vocabulary, [("▁", "a")], byte_fallback=True, unk_token="<unk>"))
    pieces.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    assert tokenization.pieces(pieces, "ab aक") == [b" a", b"b", b" a", b"\xe0", b"\xa4", b"\x95"]
    assert tokenization.byte_level_ranks(pieces) is None


def test_a_tokenizer_of_the_hub_is_read_from_an_earlier_download(tokenizer, tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: str(path))
    monkeypatch.setattr(tokenizer_file.hub, "available", lambda *_: pytest.fail("the network was asked"))
    assert tokenizer_file.hub_tokenizer("org/name", "a" * 40).get_vocab_size() == tokenizer.get_vocab_size()


@pytest.mark.parametrize("reached", [False, True])
def test_without_the_hub_there_is_no_tokenizer(reached, monkeypatch):
    def refuse(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: None)
    monkeypatch.setattr(tokenizer_file.hub, "available", lambda *_: reached)
    monkeypatch.setattr(
        "huggingface_hub.hf_hub_download", refuse if reached else lambda *_, **__: pytest.fail("asked")
    )
    assert tokenizer_file.hub_tokenizer("org/name", "a" * 40) is None
