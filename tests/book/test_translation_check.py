"""Each way in which a translation can be wrong turns the check red."""

from __future__ import annotations

import nbformat
import pytest
from babel.messages.catalog import Message as Entry

from bookbuild.cli import main as build
from bookbuild.contents import read_contents
from bookbuild.layout import Layout
from bookbuild.stage import stage_notebooks
from bookbuild.translation.apply import Translator
from bookbuild.translation.catalogues import read_catalogue, write_catalogue
from bookbuild.translation.check import entry_problems, incomplete, problems_of
from bookbuild.translation.commands import main
from bookbuild.translation.sources import section_of
from bookbuild.translation.strings import of_python, unreadable_calls
from bookbuild.translation.terms import read_terms

PROSE = {
    "Counting is cheap": "Liczenie jest tanie",
    "Does a count cost anything? See [the words](../book/glossary.md#words).": (
        "Czy liczenie coś kosztuje? Zobacz [słowa](../book/glossary.md#words)."
    ),
    "Each row is one more": "Każdy wiersz to o jeden więcej",
    "The sum is $\\sum_i i$.": "Suma to $\\sum_i i$.",
}


@pytest.fixture
def polish(project, translate) -> Layout:
    """The small book with a complete Polish catalogue."""
    translate(project, "pl", PROSE)
    return project


def change(layout: Layout, text: str, translation: str) -> None:
    """Replace one translation in the catalogue of the small book's section."""
    path = layout.translations / "pl" / "fake.po"
    catalogue = read_catalogue(path, "pl")
    assert text in catalogue
    catalogue[text].string = translation
    write_catalogue(path, catalogue)


def problems(layout: Layout) -> list[str]:
    return problems_of(layout, "pl", only="fake")


def test_a_complete_catalogue_is_applied_and_typeset(polish):
    assert problems(polish) == []
    assert incomplete(polish, "pl") == []
    text = Translator(polish, "pl").markdown("## Each row is one more\n\nThe sum is $\\sum_i i$.\n")
    assert text == "## Każdy wiersz to o\u00a0jeden więcej\n\nSuma to $\\sum_i i$.\n"


def test_notebooks_differ_in_prose_alone(polish):
    contents = read_contents(polish.root)
    cells = {}
    for locale in ("en", "pl"):
        stage_notebooks(polish, contents, locale)
        cells[locale] = nbformat.read(polish.notebooks(locale) / "fake.ipynb", as_version=4).cells
    for english, polish_cell in zip(cells["en"], cells["pl"], strict=True):
        assert (english == polish_cell) == (english.cell_type == "code")


def test_a_deleted_translation_is_missed_and_stops_a_build(polish, capsys):
    change(polish, "Counting is cheap", "")
    assert problems(polish) == ["book/locale/pl/fake.po: not translated: “Counting is cheap”"]
    arguments = ["--model", "smollm2-135m", "--device", "cpu", "--locale", "pl"]
    assert build(polish.root, arguments) == 1
    assert "has 1 gaps, the first: book/locale/pl/fake.po: not translated" in capsys.readouterr().err


def test_a_changed_english_paragraph_is_stale_and_offered_as_fuzzy(polish, capsys):
    source = polish.sources / "fake.md"
    source.write_text(
        source.read_text(encoding="utf-8").replace("one more\n", "one row more\n"), encoding="utf-8"
    )
    assert main(polish.root, ["check"]) == 1
    said = capsys.readouterr().err
    assert "fake.po: missing: “Each row is one row more”" in said
    assert "fake.po: stale, the English text has changed or moved: “Each row is one more”" in said
    assert main(polish.root, ["update"]) == 0
    assert problems(polish) == ["book/locale/pl/fake.po: in doubt (fuzzy): “Each row is one row more”"]
    entry = read_catalogue(polish.translations / "pl" / "fake.po", "pl")["Each row is one row more"]
    assert entry.string == PROSE["Each row is one more"]
    assert entry.user_comments == ["was: Each row is one more"]


def test_an_update_without_a_change_writes_the_same_bytes(polish):
    paths = sorted(polish.root.rglob("*.po"))
    before = [path.read_bytes() for path in paths]
    assert main(polish.root, ["update"]) == 0
    assert [path.read_bytes() for path in paths] == before


def test_a_new_language_begins_with_templates(project):
    assert main(project.root, ["extract"]) == 0
    assert "Counting is cheap" in (project.build / "translations/prose/fake.pot").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("english", "translation", "problem"),
    [
        ("{a} of {b}", "{a} z {c}", "lacks placeholder {b}"),
        ("Run `make`.", "Uruchom `maka`.", "lacks code `make`"),
        ("So $x_i$.", "Tak $x_j$.", "lacks maths $x_i$"),
        ("See [it](a.md).", "Zobacz [to](b.md).", "lacks target (a.md)"),
        ("At https://x.org/a b", "Na https://x.org/b b", "lacks address https://x.org/a"),
        ("It is **so**.", "Tak jest.", "differs in **bold** marks"),
        ("All 2,048 of them", "Wszystkie 2 049", "lacks the number 2 048"),
        ("All 2,048 of them", "Wszystkie 2,048", "lacks the number 2 048"),
        ("By 1.5 times", "Razy 1.5", "lacks the number 1,5"),
        ("In INT8 too", "Także w INT4", "lacks the name INT8"),
        ("With Python 3.11", "Z Pythonem 3.12", "lacks the name 3.11"),
        ("One causal mask", "Jeden filtr", "lacks the term “causal mask”: maska przyczynowa"),
        ("One two three four", "One two three four", "still the English text"),
        (
            "It is one that nobody would want to see.",
            "Mowa: one that nobody would want to see.",
            "English left in it: “one that nobody would want to …”",
        ),
        ("One", "Jeden ", "begins or ends with a space and should not, or should and does not"),
    ],
)
def test_an_entry_that_disagrees_with_its_english_text(repository, english, translation, problem):
    terms = read_terms(repository.translations / "terms.csv")
    found = entry_problems(Entry(english, translation), "pl", terms, markdown=True)
    assert problem in found


@pytest.mark.parametrize(
    ("locale", "english", "translation"),
    [
        ("pl", "All 2,048 in 2022, by 1.5, 100,000", "Wszystkie 2 048 w 2022, razy 1,5, 100 000"),
        ("sv", "The KV cache of 2,048 tokens", "KV-cachen för 2\u00a0048 tokens"),
        ("fr", "25th of 2,048 causal masks", "25e des 2\u202f048 masques causaux"),
        ("hi", "100,000 layers, 1.5", "1,00,000 layers, 1.5"),
        ("hi", "365 million weights", "36.5 करोड़ weights"),
        ("hi", "365 million weights", "365 million weights"),
        ("pl", "with Python 3.11 and Qwen2.5-0.5B", "z Pythonem 3.11 i Qwen2.5-0.5B"),
        ("pl", "causal masks of attention heads", "masek przyczynowych głowic uwagi"),
        ("pl", "prefill and decode", "prefill and decode"),
        ("pl", "Wilson, *A Title Of Many Words Here*, 1927.", "Wilson, *A Title Of Many Words Here*, 1927."),
    ],
)
def test_an_entry_that_agrees(repository, locale, english, translation):
    terms = read_terms(repository.translations / "terms.csv")
    assert entry_problems(Entry(english, translation), locale, terms, markdown=True) == []


def test_an_amount_counts_whatever_its_digits():
    (problem,) = entry_problems(Entry("365 million", "365 करोड़"), "hi", (), markdown=True)
    assert problem == "lacks the amount 365,000,000"


def test_every_plural_form_has_its_placeholders():
    entry = Entry(("{n} row", "{n} rows"), ("{n} wiersz", "{n} wiersze", "wierszy"))
    assert entry_problems(entry, "pl", (), markdown=False) == ["lacks placeholder {n}"]


def test_a_translator_can_lift_a_check_for_one_entry():
    entry = Entry("All 12", "Cały tuzin", user_comments=["allow: numbers"])
    assert entry_problems(entry, "pl", (), markdown=True) == []


def test_strings_of_code_are_found_even_inside_f_strings():
    source = "def f(words):\n    return f\"{words.gettext('One ' 'two')} {words.ngettext('a', 'b', 2)}\"\n"
    assert [(m.text, m.plural, m.note) for m in of_python(source, module="m")] == [
        ("One two", "", "m.f"),
        ("a", "b", "m.f"),
    ]


#: What comes from data, each of it extracted in its own way.
FROM_DATA = {
    "words.gettext(claim.text)",
    "words.gettext(entry['text'])",
    "words.gettext(section_titles()[slug])",
    "words.gettext(config['title'])",
    "Words(locale).gettext(title)",
    "words.gettext(config['html']['extra_footer'])",
    "self.gettext(symbol)",
    "self._catalogue.gettext(message)",
    "self._catalogue.ngettext(singular, plural, int(count))",
}


def test_no_message_is_put_together_at_run_time(repository):
    paths = [
        path
        for package in ("cheap_inference", "bookbuild")
        for path in (repository.root / "src" / package).rglob("*.py")
    ]
    calls = {call for path in paths for call in unreadable_calls(path.read_text(encoding="utf-8"))}
    assert calls - FROM_DATA == set()


@pytest.mark.parametrize("locale", ["pl", "hi", "sv", "fr"])
def test_the_books_own_catalogues_are_complete_and_right(repository, locale):
    if (repository.translations / locale).is_dir():
        assert problems_of(repository, locale) == []


@pytest.mark.parametrize(
    ("module", "section"),
    [
        ("fits", "fits"),
        ("kv_cache_figures", "kv-cache"),
        ("kv_cache", "kv-cache"),
        ("kv_cached", None),
        ("calculator", None),
    ],
)
def test_strings_of_a_section_lie_in_its_own_catalogue(module, section):
    assert section_of(module, ["fits", "kv-cache"]) == section
