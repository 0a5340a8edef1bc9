"""jupyter-book's configuration for one language."""

from __future__ import annotations

from pathlib import Path

import yaml

from cheap_inference.render.typography import typeset
from cheap_inference.render.words import Words

from .languages import own_name


def configuration(
    path: Path,
    words: Words,
    *,
    locales: tuple[str, ...],
    anchors: dict[str, list[str]],
    repository: str | None,
    colab: dict[str, str],
    theme_words: Path | None = None,
) -> dict:
    """The book's `_config.yml` with what depends on the language and on the languages built.

    Args:
        anchors: of each page's headings, in order.
        repository: its address, if known: pages then link to it.
        colab: for each section that can be opened there, the address that does.
        theme_words: folder of catalogues for the theme; None: what the theme has itself.
    """
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["title"] = words.gettext(config["title"])
    config["html"]["extra_footer"] = words.gettext(config["html"]["extra_footer"])
    del config["publication"]  # jupyter-book would warn of what is the build's own
    config["repository"]["url"] = repository or ""
    config["html"]["use_repository_button"] = bool(repository)
    theme = config["sphinx"]["config"]["html_theme_options"]
    theme["search_bar_text"] = words.gettext("Search this book…")
    config["sphinx"]["config"] |= {
        "language": words.locale,
        "locale_dirs": [str(theme_words)] if theme_words else [],
        "section_ids": anchors,
        "nb_code_prompt_show": words.gettext("Show the code"),
        "nb_code_prompt_hide": words.gettext("Hide the code"),
        "html_context": {
            "default_mode": "auto",
            "language_label": typeset(words.gettext("Language") + ":", words.locale),
            "colab_label": words.gettext("Open in Colab"),
            "colab_links": colab,
            "site_languages": [{"code": code, "name": own_name(code)} for code in locales],
        },
    }
    return config
