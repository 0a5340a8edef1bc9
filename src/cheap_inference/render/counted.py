"""Units that count things, after a number: in the plural form that the number asks for."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from babel import Locale

if TYPE_CHECKING:
    from .words import Words


def counted(words: Words, unit: str, value: float) -> str | None:
    """The sentence part "{n} tokens" in the form for `value`; None where `unit` counts nothing.

    It is None, too, for a value whose form no whole number has: Polish fractions. The unit's short
    form serves there.
    """
    count = like(value, words.locale)
    if count is None:
        return None
    forms = {
        "MACs": words.ngettext("{n} MAC", "{n} MACs", count),
        "bits per weight": words.ngettext("{n} bit per weight", "{n} bits per weight", count),
        "blocks": words.ngettext("{n} block", "{n} blocks", count),
        "bytes": words.ngettext("{n} byte", "{n} bytes", count),
        "levels": words.ngettext("{n} level", "{n} levels", count),
        "positions": words.ngettext("{n} position", "{n} positions", count),
        "questions": words.ngettext("{n} question", "{n} questions", count),
        "requests": words.ngettext("{n} request", "{n} requests", count),
        "schemes": words.ngettext("{n} scheme", "{n} schemes", count),
        "tokens": words.ngettext("{n} token", "{n} tokens", count),
        "weights": words.ngettext("{n} weight", "{n} weights", count),
    }
    return forms.get(unit)


def like(value: float, locale: str) -> int | None:
    """A whole number with the plural form of `value` in a language; gettext knows only whole ones."""
    if isinstance(value, int):
        return abs(value)
    form = Locale.parse(locale).plural_form
    wanted = form(Decimal(str(abs(value))))
    return next((whole for whole in (1, 2, 5) if form(whole) == wanted), None)
