"""jupyter-book's configuration for one language."""

from __future__ import annotations

from pathlib import Path

import yaml

from cheap_inference.render.words import Words

from .languages import own_name


def configuration(path: Path, words: Words, *, locales: tuple[str, ...]) -> dict:
    """The book's `_config.yml` with what depends on the language and on the languages built."""
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["title"] = words.gettext(config["title"])
    config["html"]["extra_footer"] = words.gettext(config["html"]["extra_footer"])
    config["html"]["use_repository_button"] = bool(config["repository"]["url"])
    config["sphinx"]["config"] |= {
        "language": words.locale,
        "nb_code_prompt_show": words.gettext("Show the code"),
        "nb_code_prompt_hide": words.gettext("Hide the code"),
        "html_context": {
            "default_mode": "auto",
            "language_label": words.gettext("Language"),
            "site_languages": [{"code": code, "name": own_name(code)} for code in locales],
        },
    }
    return config
