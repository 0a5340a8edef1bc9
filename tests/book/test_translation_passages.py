"""The passages of the section languages are the book's paragraphs, and the check says where they are not."""

from __future__ import annotations

import tomllib

import pytest

from bookbuild.errors import BuildError
from bookbuild.layout import Layout
from bookbuild.translation import commands
from bookbuild.translation.catalogues import read_catalogue, write_catalogue
from bookbuild.translation.commands import main
from bookbuild.translation.passages import DECLARED, passage_problems, write_passages
from bookbuild.translation.plain import plain_text
from cheap_inference.passages import FILE, parallel_text, read

DECLARATION = """
[word]
en = "error"
pl = "błąd"

[[passage]]
name = "counting"
page = "fake"
begins = ["Does a count", "The **sum** is"]

[[passage]]
name = "book"
page = "index"
begins = ["Of [one section]"]
"""
ENGLISH = "Does a count cost anything? See [the words](../book/glossary.md#words)."
SECOND = "The **sum** is *i* of `rows`."
POLISH = {
    ENGLISH: "Czy liczenie coś kosztuje? Zobacz [słowa](../book/glossary.md#words).",
    SECOND: "**Suma** to *i* z `rows`.",
    "Of [one section](../notebooks/fake.md).": "O [jednym rozdziale](../notebooks/fake.md).",
}
MEND = "run python scripts/translations.py passages, then measure the section languages again"


def differs(name: str, language: str) -> str:
    """The line of the check about a passage that is not the book's."""
    return f"src/cheap_inference/data/{FILE}: passage '{name}', {language}: not what the book says: {MEND}"


@pytest.fixture
def book(project, translate) -> Layout:
    """The small book in two languages, with two passages that are in line."""
    replace(project.sources / "fake.md", "The sum is $\\sum_i i$.", SECOND)
    translate(project, "pl", POLISH)
    (project.translations / DECLARED).write_text(DECLARATION, encoding="utf-8")
    write_passages(project)
    assert passage_problems(project) == []
    return project


@pytest.fixture
def sound_catalogues(monkeypatch):
    """The check finds nothing else: most of the small book's Polish is English."""
    monkeypatch.setattr(commands, "problems_of", lambda *_, **__: [])


def replace(path, old: str, new: str) -> None:
    """Change a text in a file, once."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def passages_of(layout: Layout) -> str:
    return (layout.strings.parent / FILE).read_text(encoding="utf-8")


def test_the_packages_passages_are_the_books_paragraphs(repository):
    assert passage_problems(repository) == []
    assert read(passages_of(repository)) == parallel_text()


def test_the_section_leads_to_the_pages_of_its_passages(repository):
    section = (repository.sources / "languages.md").read_text(encoding="utf-8")
    declared = tomllib.loads((repository.translations / DECLARED).read_text(encoding="utf-8"))
    assert all(f"({passage['page']}.md)" in section for passage in declared["passage"])


def test_passages_are_joined_paragraphs_without_marks(book):
    text = read(passages_of(book))
    assert text.words == {"en": "error", "pl": "błąd"}
    assert text.passages == {
        "en": ("Does a count cost anything? See the words. The sum is i of rows.", "Of one section."),
        "pl": ("Czy liczenie coś kosztuje? Zobacz słowa. Suma to i z rows.", "O jednym rozdziale."),
    }


def test_the_command_writes_the_same_bytes_and_the_check_is_content(book, sound_catalogues):
    before = passages_of(book)
    assert main(book.root, ["passages"]) == 0
    assert passages_of(book) == before
    assert main(book.root, ["check"]) == 0


def test_a_changed_english_paragraph_is_told(book):
    replace(book.sources / "fake.md", "cost anything?", "cost a thing?")
    told = passage_problems(book)
    assert told[0].startswith("passage 'counting': No translation into 'pl' of “Does a count cost a thing?")
    assert told[1:] == [differs("counting", "en")]
    path = book.translations / "pl" / "fake.po"
    catalogue = read_catalogue(path, "pl")
    catalogue.add(ENGLISH.replace("anything", "a thing"), POLISH[ENGLISH])
    write_catalogue(path, catalogue)
    assert passage_problems(book) == [differs("counting", "en")]


def test_prose_that_nobody_could_translate_fails_the_check_in_one_line(book, sound_catalogues, capsys):
    replace(book.sources / "fake.md", SECOND, "The sum is $sum$.")
    assert main(book.root, ["check"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Words and separators of numbers inside a formula cannot be translated: '$sum$'.")


def test_a_changed_translation_is_told_and_fails_the_check(book, sound_catalogues, capsys):
    replace(book.translations / "pl" / "index.po", "O [jednym rozdziale]", "O [pewnym rozdziale]")
    assert main(book.root, ["check"]) == 1
    assert capsys.readouterr().err.splitlines() == [differs("book", "pl")]
    assert main(book.root, ["passages"]) == 0
    assert "O pewnym rozdziale." in passages_of(book)
    assert main(book.root, ["check"]) == 0


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"Does a count"', '"Does counting"', "no paragraphs of the page 'fake' begin with “Does counting”"),
        ('"fake"', '"index"', "no paragraphs of the page 'index' begin with “Does a count”"),
        ('["Of [one section]"]', '["Counting is cheap"]', "no paragraphs of the page 'index'"),
        ('"The **sum** is"', '""', "2 paragraphs of the page 'fake' begin with “”"),
        ('pl = "błąd"', 'pl = "błąd"\nsv = "fel"', "There is no catalogue of the language 'sv'."),
        ('page = "fake"', "", "needs a table 'word' and tables 'passage' with name, page and begins"),
        ("[word]", "[word", "needs a table 'word' and tables 'passage' with name, page and begins"),
    ],
)
def test_a_declaration_that_the_book_does_not_follow_is_told(book, sound_catalogues, capsys, old, new, told):
    before = passages_of(book)
    replace(book.translations / DECLARED, old, new)
    assert told in passage_problems(book)[0]
    assert main(book.root, ["check"]) == 1
    assert main(book.root, ["passages"]) == 1
    assert told in capsys.readouterr().err.splitlines()[-1]
    assert passages_of(book) == before


def test_a_passage_that_is_no_longer_declared_is_told(book):
    declared = DECLARATION[: DECLARATION.index('[[passage]]\nname = "book"')]
    (book.translations / DECLARED).write_text(declared, encoding="utf-8")
    assert passage_problems(book) == [differs("book", "en"), differs("book", "pl")]


def test_another_order_is_told(book):
    word, first, second = DECLARATION.split("[[passage]]")
    (book.translations / DECLARED).write_text("[[passage]]".join((word, second, first)), encoding="utf-8")
    (line,) = passage_problems(book)
    assert "another order than declared" in line


@pytest.mark.parametrize("content", [None, "no TOML", "[word]\n", "word = 1\n"])
def test_a_file_that_is_gone_or_damaged_is_to_be_written(book, content):
    path = book.strings.parent / FILE
    path.unlink()
    if content:
        path.write_text(content, encoding="utf-8")
    assert differs("counting", "pl") in passage_problems(book)
    write_passages(book)
    assert passage_problems(book) == []


def test_a_book_without_a_declaration_has_no_passages(project):
    assert passage_problems(project) == []
    with pytest.raises(BuildError, match=f"{DECLARED} beside the catalogues is missing"):
        write_passages(project)


def test_spaces_that_typesetting_adds_are_plain_ones():
    assert plain_text("w\u00a0domu\u202f; _tak_\u00a0: [a **b**](c.md)\n`d*e*`") == "w domu ; tak : a b d*e*"


@pytest.mark.parametrize("markdown", ["So $x$.", "A <b>b</b>.", "![a](b.png)", "See https://x.org/a here."])
def test_more_than_words_is_refused(markdown):
    with pytest.raises(BuildError, match="has more than words in it"):
        plain_text(markdown)
