"""Strings in the reader's language: from catalogue files, compiled in memory, typeset."""

from __future__ import annotations

import pytest

from cheap_inference.render import words as module
from cheap_inference.render.words import Words

POLISH = """\
msgid ""
msgstr ""
"Content-Type: text/plain; charset=utf-8\\n"
"Plural-Forms: nplurals=3; plural=n == 1 ? 0 : n % 10 >= 2 && n % 10 <= 4 && (n % 100 < 12 || n % 100 > 14) ? 1 : 2;\\n"

msgid "{n} row"
msgid_plural "{n} rows"
msgstr[0] "{n} wiersz"
msgstr[1] "{n} wiersze"
msgstr[2] "{n} wierszy"

msgid "a row in the table"
msgstr "wiersz w tabeli"
"""
DOUBTFUL = """\
msgid ""
msgstr ""
"Content-Type: text/plain; charset=utf-8\\n"

#, fuzzy
msgid "yes"
msgstr "nie"

msgid "bytes"
msgstr "bajtów"
"""


@pytest.fixture
def polish(tmp_path, monkeypatch) -> Words:
    """Polish with two small catalogue files."""
    folder = tmp_path / "pl"
    folder.mkdir()
    (folder / "common.po").write_text(POLISH, encoding="utf-8")
    (folder / "other.po").write_text(DOUBTFUL, encoding="utf-8")
    monkeypatch.setattr(module, "CATALOGUES", tmp_path)
    module.catalogue_of.cache_clear()
    yield Words("pl")
    module.catalogue_of.cache_clear()


@pytest.mark.parametrize(
    ("count", "form"), [(1, "wiersz"), (2, "wiersze"), (5, "wierszy"), (12, "wierszy"), (22, "wiersze")]
)
def test_polish_has_three_plural_forms(polish, count, form):
    assert polish.ngettext("{n} row", "{n} rows", count) == f"{{n}} {form}"


def test_all_files_of_a_language_count_and_are_typeset(polish):
    assert polish.gettext("a row in the table") == "wiersz w\u00a0tabeli"
    assert polish.with_unit(polish.number(1234), "bytes") == "1\u00a0234\u00a0bajtów"


def test_an_entry_in_doubt_is_not_shown(polish):
    assert polish.gettext("yes") == "yes"


def test_a_language_without_a_catalogue_speaks_english(polish):
    assert Words("sv").gettext("a row in the table") == "a row in the table"
    assert Words("fr").unit("GiB") == "Gio"
