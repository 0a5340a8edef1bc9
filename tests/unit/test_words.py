"""Numbers stand in the locale's form, as Babel writes it."""

import pytest
from babel.numbers import format_decimal, format_percent

from cheap_inference.render.words import Words, significant_digits
from cheap_inference.settings import LOCALES


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("value", [0, 7, 1234, 12345, 1234567, 0.5, 1234567.8])
def test_numbers_equal_babels_own(locale, value):
    digits = len(str(value).partition(".")[2])
    assert Words(locale).number(value, digits) == format_decimal(value, locale=locale)


@pytest.mark.parametrize("locale", LOCALES)
def test_percentages_equal_babels_own(locale):
    assert Words(locale).percent(0.25) == format_percent(0.25, locale=locale)


@pytest.mark.parametrize("locale", LOCALES)
def test_a_minus_is_no_hyphen(locale):
    digits = format_decimal(3.25, locale=locale)
    assert Words(locale).number(-3.25, 2) == Words(locale).tick(-3.25) == f"−{digits}"
    assert Words(locale).percent(-0.25) == f"−{format_percent(0.25, locale=locale)}"


@pytest.mark.parametrize(
    ("locale", "text"),
    [
        ("en", "1,234,567.8"),
        ("pl", "1\u00a0234\u00a0567,8"),
        ("hi", "12,34,567.8"),
        ("sv", "1\u00a0234\u00a0567,8"),
        ("fr", "1\u202f234\u202f567,8"),
    ],
)
def test_grouping_and_decimal_mark(locale, text):
    assert Words(locale).number(1234567.8, 1) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (12288, "12 KiB"),
        (3624960, "3.46 MiB"),
        (67108864, "64 MiB"),
        (16777216000, "15.6 GiB"),
    ],
)
def test_bytes_use_iec_units(count, text):
    assert Words("en").bytes(count).replace("\u00a0", " ") == text


def test_french_counts_octets():
    assert Words("fr").bytes(3624960) == "3,46\u00a0Mio"


@pytest.mark.parametrize(
    ("value", "digits"), [(0, 0), (0.00123, 5), (0.5, 3), (1.234, 2), (12.34, 1), (123.4, 0), (1234.5, 0)]
)
def test_three_significant_digits(value, digits):
    assert significant_digits(value) == digits


@pytest.mark.parametrize(
    ("value", "unit", "text"), [(True, "", "yes"), (8.987, "ratio", "8.99\u00a0×"), (48, "", "48")]
)
def test_a_quantity_of_any_kind(value, unit, text):
    assert Words("en").quantity(value, unit) == text
