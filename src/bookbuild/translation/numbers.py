"""Numbers of an English text, and whether a translation has them in its language's form.

A number keeps its decimals and whether its thousands are separated: "2,048" is "2 048" in Polish and
"2048" stays "2048". Names with digits (INT8, Qwen2.5-0.5B, arXiv:2306.00978, Python 3.11) stay as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from decimal import Decimal

from babel import Locale
from babel.numbers import format_decimal

from cheap_inference.render.markup import words_only
from cheap_inference.render.typography import ANY_SPACE

#: What carries a number as part of its name, a version above all.
NAMED = r"(?:Python|CUDA|Llama|Phi|Gemma|Mistral|Qwen|GPT|OPT|CC BY|Apache|version)[ -](v?\d[\w.-]*\w|\d)"
#: Letters and digits in one word, three-part versions, identifiers of papers.
WORD = r"(?<![\w-])[A-Za-z]+\d[\w.-]*(?<![.-])"
NAME = re.compile(rf"{NAMED}|((?:arXiv|doi):[\w./()-]*\w|(?<![\w.])v?\d+(?:\.\d+){{2,}}|{WORD})")
ENGLISH = re.compile(r"(?<![\w.,])\d+(?:,\d{2,3})*(?:\.\d+)?(?!\d)")
ENGLISH_SCALES = {"thousand": 3, "million": 6, "billion": 9}
#: How Hindi counts large amounts, as powers of ten.
HINDI_SCALES = {"हज़ार": 3, "हजार": 3, "लाख": 5, "करोड़": 7, "अरब": 9, "million": 6, "billion": 9}


def problems(source: str, translation: str, locale: str) -> list[str]:
    """What of the numbers and the names with digits in `source` the translation lacks."""
    names = Counter(version or name for version, name in NAME.findall(words_only(source)))
    lacking = [f"the name {name}" for name, count in names.items() if translation.count(name) < count]
    amounts = amounts_of(source, ENGLISH_SCALES) if locale == "hi" else []
    there = Counter(written_numbers(translation, locale))
    counted = [amount for _, amount in amounts_of(translation, HINDI_SCALES)]
    for number, amount in amounts:
        # 365 million is 36.5 करोड़: the amount counts, whatever its digits.
        there[local_form(number, locale)] += 1
        if amount not in counted:
            lacking.append(f"the amount {amount:,}")
    wanted = Counter(local_forms(source, locale))
    return lacking + [f"the number {form}" for form in wanted - there]


def local_forms(source: str, locale: str) -> list[str]:
    """The numbers of an English text as the language writes them, plain spaces between thousands."""
    return [local_form(number, locale) for number in ENGLISH.findall(_without_names(source))]


def local_form(number: str, locale: str) -> str:
    """One English number as the language writes it; what has no separators gets none."""
    plain = number.replace(",", "")
    decimals = len(plain.partition(".")[2])
    pattern = Locale.parse(locale).decimal_formats[None].pattern.split(".")[0] if "," in number else "0"
    form = format_decimal(
        Decimal(plain), format=pattern + (f".{'0' * decimals}" if decimals else ""), locale=locale
    )
    # A leading zero counts, as in a day "04".
    if decimals == 0 and plain.startswith("0"):
        form = plain
    return re.sub(ANY_SPACE, " ", form)


def written_numbers(text: str, locale: str) -> list[str]:
    """The numbers of a text in the language's form, plain spaces between thousands."""
    symbols = Locale.parse(locale).number_symbols
    symbols = symbols.get("latn", symbols)
    group = ANY_SPACE if symbols["group"].isspace() else re.escape(symbols["group"])
    decimal = re.escape(symbols["decimal"])
    written = re.compile(rf"\d+(?:{group}\d{{2,3}})*(?:{decimal}\d+)?")
    return [re.sub(ANY_SPACE, " ", number) for number in written.findall(_without_names(text))]


def _without_names(text: str) -> str:
    return NAME.sub(" ", words_only(text))


def amounts_of(text: str, scales: dict[str, int]) -> list[tuple[str, int]]:
    """Numbers in English digits with a word of scale behind them: the number and the amount."""
    powers = {unicodedata.normalize("NFC", word): power for word, power in scales.items()}
    plain = unicodedata.normalize("NFC", words_only(text))
    found = re.findall(rf"({ENGLISH.pattern}){ANY_SPACE}?({'|'.join(powers)})", plain)
    return [(number, int(Decimal(number.replace(",", "")).scaleb(powers[word]))) for number, word in found]
