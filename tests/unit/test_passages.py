"""The parallel passages: the shipped ones keep the rules, and a file that breaks them is refused in one line."""

import re
import unicodedata
from pathlib import Path

import pytest

from cheap_inference.errors import UserError
from cheap_inference.passages import ENGLISH, parallel_text, read
from cheap_inference.settings import LOCALES
from cheap_inference.sourcekey import named_data

FILE = """
[word]
en = "error"
pl = "błąd"

[[passage]]
name = "one"
en = "A model reads."
pl = "Model czyta."
"""
#: Letters beyond ASCII that a text of some length in the language cannot do without.
LETTERS = {"pl": "ąćęłśż", "sv": "åäö", "fr": "éèàê"}


def test_every_language_of_the_book_has_every_passage():
    text = parallel_text()
    assert text.languages[0] == ENGLISH
    assert set(text.languages) == set(LOCALES)
    assert len({len(passages) for passages in text.passages.values()}) == 1
    assert len(text.passages[ENGLISH]) == 5


def test_translations_are_about_as_long_as_the_original():
    text = parallel_text()
    for passages in text.passages.values():
        for passage, english in zip(passages, text.passages[ENGLISH], strict=True):
            assert 0.8 < len(passage) / len(english) < 1.25
            assert 110 < len(english.split()) < 190


@pytest.mark.parametrize("language", LETTERS)
def test_each_text_is_in_its_language(language):
    assert all(
        set(LETTERS[language]) <= set(passage.lower()) for passage in parallel_text().passages[language]
    )


def test_hindi_is_written_in_devanagari():
    for passage in parallel_text().passages["hi"]:
        letters = [c for c in passage if unicodedata.category(c)[0] in "LM"]
        share = sum("DEVANAGARI" in unicodedata.name(c) for c in letters) / len(letters)
        assert 0.6 < share < 0.95  # the nouns of the trade stay in Latin letters
        assert passage.endswith("।")


def test_no_language_pays_for_marks_or_for_the_spaces_of_typesetting():
    texts = [passage for passages in parallel_text().passages.values() for passage in passages]
    assert not any(re.search(r"[*_`$\[\]<>\n]|[^\S ]|  ", text) for text in texts)


def test_a_record_notices_that_the_passages_changed():
    from cheap_inference import passages

    source = Path(passages.__file__).read_text(encoding="utf-8")
    assert [path.name for path in named_data(source)] == ["passages.toml"]


def test_a_small_file_is_read():
    text = read(FILE)
    assert text.languages == ("en", "pl")
    assert text.passages == {"en": ("A model reads.",), "pl": ("Model czyta.",)}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('pl = "Model czyta."', ""), "differ in languages: pl"),
        (('pl = "Model czyta."', 'pl = "Model czyta."\nsv = "Läser."'), "differ in languages: sv"),
        (('"Model czyta."', '""'), "one, pl: the text is missing"),
        (('"Model czyta."', "3"), "one, pl: the text is missing"),
        (('"Model czyta."', '" Model czyta."'), "one, pl: take white space off"),
        (("błąd", unicodedata.normalize("NFD", "błąd")), "word, pl: .*NFC"),
        (('en = "error"\n', ""), "English as the first language"),
        (('name = "one"\n', ""), "name"),
        (("[word]", "[words]"), "needs a table 'word'"),
        (("[[passage]]", "[[passage"), "needs a table 'word'"),
    ],
)
def test_a_damaged_file_is_refused(change, complaint):
    with pytest.raises(UserError, match=complaint) as caught:
        read(FILE.replace(*change))
    assert "\n" not in str(caught.value)


def test_two_passages_of_one_name_are_refused():
    twice = FILE + FILE[FILE.index("[[passage]]") :]
    with pytest.raises(UserError, match="names of their own"):
        read(twice)
