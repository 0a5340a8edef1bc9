"""The calculator of the section fits: a form that does the page's sum in the reader's browser."""

from __future__ import annotations

import json
from html import escape
from importlib import resources
from types import SimpleNamespace

from .. import fits
from ..render.display import Display
from ..render.words import Words

PACKAGE = "cheap_inference"
MIB = 2**20
#: Name, least, most and step of the form's number fields; the bounds are those of the notebook's parameters.
FIELDS = (
    ("card", 0.25, 4096, "any"),
    ("bits", 1, 32, "any"),
    ("cache", 1, 32, "any"),
    ("context", 1, 10_000_000, 1),
)


def calculator(record: SimpleNamespace, words: Words) -> Display:
    """The form, with this run's settings filled in; hidden until its script runs."""
    models = [fits.MODEL_7B, fits.MODEL_13B, fits.MODEL_70B, *fits.open_models()]
    rules = escape(json.dumps(_rules(models, words), ensure_ascii=False))
    script = resources.files(PACKAGE).joinpath("data", "calculator.js").read_text(encoding="utf-8")
    html = (
        f'<div class="ci-calculator" data-rules="{rules}" hidden>\n'
        f"<form>{_model_menu(models, words)}{_number_fields(record.models, words)}</form>\n"
        f"<dl>{_results(words)}</dl>\n"
        f'<output aria-live="polite"></output>\n<script>\n{script}</script>\n</div>'
    )
    return Display({"text/html": html, "text/plain": words.gettext("A calculator, for the browser")})


def _rules(models: list[fits.Model], words: Words) -> dict:
    """Everything the script needs: shapes as (layers, heads, dimension, window), constants and sentences."""
    shapes = [
        {
            "parameters": model.parameters,
            "cache": [[g.layers, g.kv_heads, g.head_dim, g.window] for g in model.cache_layers],
        }
        for model in models
    ]
    sentences = {
        "weights": words.gettext("The weights and the reserve alone are larger than the card."),
        "cache": words.gettext("The weights fit; the cache of a single user at this context does not."),
        "fits": words.gettext("It fits. What the next user would lack is memory for the cache."),
        "invalid": words.gettext("One of the values lies outside what makes sense."),
        "endless": words.gettext("no limit: every layer slides"),
    }
    return {
        "models": shapes,
        "gib": fits.GIB,
        "mib": MIB,
        "reserve": fits.RESERVE_BYTES,
        "mostTokens": fits.MOST_TOKENS,
        "units": {"gib": words.unit("GiB"), "mib": words.unit("MiB")},
        "words": sentences,
    }


def _model_menu(models: list[fits.Model], words: Words) -> str:
    options = "".join(f"<option>{escape(model.name)}</option>" for model in models)
    return f'<label>{escape(words.gettext("Model"))} <select name="model">{options}</select></label>'


def _number_fields(asked: SimpleNamespace, words: Words) -> str:
    labels = {
        "card": words.gettext("Memory, GiB"),
        "bits": words.gettext("Bits per weight"),
        "cache": words.gettext("Bits per number in the cache"),
        "context": words.gettext("Tokens per user"),
    }
    values = {
        "card": asked.card_gib,
        "bits": asked.bits_per_weight,
        "cache": asked.cache_bits,
        "context": asked.context,
    }
    return "".join(
        f'<label>{escape(labels[name])} <input name="{name}" type="number" min="{least}" max="{most}" '
        f'step="{step}" value="{values[name]:g}" required></label>'
        for name, least, most, step in FIELDS
    )


def _results(words: Words) -> str:
    rows = {
        "weights": words.gettext("Weights"),
        "reserve": words.gettext("Reserve"),
        "room": words.gettext("Left for the cache"),
        "user": words.gettext("Cache of one user"),
        "users": words.gettext("Users that fit"),
        "tokens": words.gettext("Longest conversation, tokens"),
    }
    return "".join(
        f'<div><dt>{escape(label)}</dt><dd data-row="{name}"></dd></div>' for name, label in rows.items()
    )
