"""The reader's language: numbers and units by Babel, strings by gettext."""

from __future__ import annotations

import gettext as gettext_module
import io
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from babel import Locale
from babel.lists import format_list
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import format_decimal, format_percent

from .counted import counted
from .typography import NO_BREAK, typeset

#: Catalogues of the strings in the code, one folder a language; several files, so that people can work apart.
CATALOGUES = Path(__file__).parent.parent / "data" / "locale"
#: IEC binary steps: 2^10 bytes each.
BINARY_STEP = 1024
BINARY_UNITS = ("KiB", "MiB", "GiB", "TiB")
#: French names the octet; the other languages keep the IEC symbols.
FRENCH_UNITS = {"B": "o", "KiB": "Kio", "MiB": "Mio", "GiB": "Gio", "TiB": "Tio", "GB": "Go"}
#: Units that are no words: nothing to translate in a catalogue.
SYMBOLS = frozenset({"ratio", *FRENCH_UNITS})
#: The locale data of most languages has the hyphen of keyboards in its place.
MINUS = "\u2212"


class Words:
    """Numbers, units and sentences in one language.

    A language without a catalogue falls back to the English strings, with its own number forms.
    """

    def __init__(self, locale: str):
        self.locale = locale
        self._babel = Locale.parse(locale)
        self._catalogue = catalogue_of(locale)

    def gettext(self, message: str) -> str:
        """The message in this language."""
        return typeset(self._catalogue.gettext(message), self.locale, source=message) if message else ""

    def ngettext(self, singular: str, plural: str, count: float) -> str:
        """The message in the plural form that `count` asks for."""
        form = self._catalogue.ngettext(singular, plural, int(count))
        return typeset(form, self.locale, source=f"{singular}\n{plural}")

    def listed(self, names: Iterable[str]) -> str:
        """Names as a list, with the commas and the "and" of the language."""
        return typeset(format_list(list(names), locale=self._babel), self.locale)

    def number(self, value: float, digits: int | None = None) -> str:
        """A number in the locale's form; `digits` after the decimal mark, or as many as it needs."""
        pattern = self._babel.decimal_formats[None].pattern.split(".")[0]
        if digits is None:
            digits = 0 if isinstance(value, int) else significant_digits(value)
        return self._decimal(value, f"{pattern}.{'0' * digits}" if digits else pattern)

    def tick(self, value: float) -> str:
        """A number on an axis: as many digits as it needs and no trailing zeros."""
        pattern = self._babel.decimal_formats[None].pattern.split(".")[0]
        return self._decimal(value, f"{pattern}.######")

    def _decimal(self, value: float, pattern: str) -> str:
        return format_decimal(value, format=pattern, locale=self._babel).replace("-", MINUS)

    def spread(self, low: float, high: float, digits: int | None = None) -> str:
        """A range, with the dash of the locale's typography."""
        return f"{self.number(low, digits)}–{self.number(high, digits)}"

    def percent(self, share: float, digits: int = 0) -> str:
        """A share of one as a percentage."""
        pattern = (
            self._babel.percent_formats[None].pattern.replace("0", f"0.{'0' * digits}") if digits else None
        )
        return format_percent(share, format=pattern, locale=self._babel).replace("-", MINUS)

    def unit(self, symbol: str) -> str:
        """A unit's symbol in this language."""
        if self.locale == "fr" and symbol in FRENCH_UNITS:
            return FRENCH_UNITS[symbol]
        return self.gettext(symbol)

    def with_unit(self, number: str, symbol: str) -> str:
        """A number and a unit that stay on one line."""
        return f"{number}{NO_BREAK}{self.unit(symbol)}" if symbol else number

    def amount(self, number: str, value: float, unit: str) -> str:
        """A value, written out as `number`, with its unit in the form that the value asks for."""
        form = counted(self, unit, value)
        if form is None:
            return self.with_unit(number, unit)
        return form.replace("{n} ", f"{{n}}{NO_BREAK}").format(n=number)

    def bytes(self, count: float) -> str:
        """An amount of memory in the largest binary unit that leaves at least one."""
        amount, symbol = float(count), "B"
        for larger in BINARY_UNITS:
            if abs(amount) < BINARY_STEP:
                break
            amount, symbol = amount / BINARY_STEP, larger
        digits = 0 if symbol == "B" or amount == int(amount) else significant_digits(amount)
        return self.with_unit(self.number(amount, digits), symbol)

    def quantity(self, value: float | bool | str, unit: str = "") -> str:
        """Any value of a record with its unit, for lists that mix units."""
        if isinstance(value, bool):
            return self.gettext("yes") if value else self.gettext("no")
        if isinstance(value, str):
            return value
        if unit == "ratio":
            return self.times(value)
        return self.amount(self.number(value), value, unit)

    def times(self, ratio: float, digits: int | None = None) -> str:
        """A factor, as in "4.2 ×"."""
        return f"{self.number(ratio, digits)}{NO_BREAK}×"


@cache
def catalogue_of(locale: str) -> gettext_module.NullTranslations:
    """The language's catalogue files as one, compiled in memory: there is no second copy to keep true.

    Entries in doubt are left out; a language without files gives every message back as it is.
    """
    paths = sorted((CATALOGUES / locale).glob("*.po"))
    if not paths:
        return gettext_module.NullTranslations()
    merged = Catalog(locale=locale)
    for path in paths:
        with path.open("rb") as file:
            for entry in read_po(file, locale=locale, charset="utf-8"):
                if entry.id and not entry.fuzzy:
                    merged.add(entry.id, entry.string)
    compiled = io.BytesIO()
    write_mo(compiled, merged)
    compiled.seek(0)
    return gettext_module.GNUTranslations(compiled)


def significant_digits(value: float, *, wanted: int = 3) -> int:
    """Digits after the decimal mark that show `wanted` significant ones (none for large numbers)."""
    if value == 0 or value != value:
        return 0
    magnitude = 0
    scaled = abs(value)
    while scaled >= 10:
        scaled, magnitude = scaled / 10, magnitude + 1
    while scaled < 1 and magnitude > -9:
        scaled, magnitude = scaled * 10, magnitude - 1
    return max(0, wanted - 1 - magnitude)
