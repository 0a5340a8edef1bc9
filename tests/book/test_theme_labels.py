"""Labels of the site: the book's words win over the theme's own translations."""

from types import SimpleNamespace

import pytest
from sphinx import locale as sphinx_locale

from bookbuild.extension import put_own_labels_first
from bookbuild.translation.theme import write_theme_catalogues

KEY = ("general", "booktheme")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The theme's catalogue, already loaded, and the book's, not yet."""
    monkeypatch.setattr(sphinx_locale, "translators", {})
    monkeypatch.setattr("bookbuild.extension.translators", sphinx_locale.translators)
    labels = {"theme": {"Contents": "Zawartość", "By": "Autor"}, "book": {"Contents": "Spis treści"}}
    # `write_theme_catalogues` adds to a script of Sphinx's what is no matter here.
    for name, words in labels.items():
        write_theme_catalogues(tmp_path / name, "pl", words)
    sphinx_locale.init([tmp_path / "theme"], "pl", KEY[1])
    return tmp_path


def application(*dirs):
    def add_message_catalog(catalog, folder):
        sphinx_locale.init([folder], "pl", catalog)

    config = SimpleNamespace(locale_dirs=[str(folder) for folder in dirs])
    return SimpleNamespace(config=config, add_message_catalog=add_message_catalog)


def test_the_books_label_is_shown_and_the_themes_where_the_book_has_none(folders):
    put_own_labels_first(application(folders / "book"))
    words = sphinx_locale.translators[KEY]
    assert (words.gettext("Contents"), words.gettext("By")) == ("Spis treści", "Autor")


def test_without_own_labels_the_themes_stay(folders):
    put_own_labels_first(application())
    assert sphinx_locale.translators[KEY].gettext("Contents") == "Zawartość"
