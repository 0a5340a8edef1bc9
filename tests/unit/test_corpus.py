"""The held-out text and its ranges."""

import hashlib
from pathlib import Path

import pytest

from cheap_inference import corpus
from cheap_inference.errors import UserError


class Letters:
    """A tokenizer of one token a character, with or without a first token of its own."""

    def __init__(self, first=()):
        self.first = list(first)

    def __call__(self, text):
        return {"input_ids": self.first + [ord(letter) for letter in text]}

    def decode(self, ids, skip_special_tokens):
        assert skip_special_tokens
        return "".join(chr(token) for token in ids if token > 1)


def test_the_ranges_are_the_whole_text_once():
    pieces = [corpus.text(name) for name in ("evaluation", "distillation", "calibration", "holdout")]
    assert "".join(pieces) == corpus.whole_text()
    assert pieces[0].startswith("CHAPTER 1. Loomings.")
    assert pieces[2].startswith("CHAPTER 5. Breakfast.")


def test_no_chapter_stands_in_two_ranges():
    chapters = [set(range(first, last + 1)) for first, last in corpus.CHAPTERS.values()]
    assert sum(map(len, chapters)) == len(set.union(*chapters)) == 12


def test_tokens_are_cut_after_the_tokenizers_own_first_one():
    ids = corpus.token_ids(Letters(first=[1]), "evaluation", count=4)
    assert ids.tolist() == [[1, *map(ord, "CHA")]]
    assert corpus.token_ids(Letters(), "evaluation", count=3, skip=2).tolist() == [[*map(ord, "APT")]]


def test_more_than_a_range_holds_is_refused():
    with pytest.raises(UserError, match="'calibration' has"):
        corpus.token_ids(Letters(), "calibration", count=10**6)


def test_bytes_are_those_of_the_text_without_special_tokens():
    assert corpus.byte_count(Letters(), [1, ord("a"), ord("é")]) == 3


def test_the_digest_is_that_of_the_file():
    path = Path(corpus.__file__).parent / "data" / "corpus" / "moby_dick.txt"
    assert corpus.sha256() == hashlib.sha256(path.read_bytes()).hexdigest()
