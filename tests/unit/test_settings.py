"""Parameters outside sense get one clear line that names them."""

import pytest

from cheap_inference.errors import UserError
from cheap_inference.settings import between, check, one_of


@pytest.mark.parametrize("value", [1, 48, 1024])
def test_a_value_in_range_passes(value):
    assert check("new_tokens", between(1, value, 1024)) == value


@pytest.mark.parametrize("value", [0, -3, 1025, 4.0, "48", None, True, [48], float("nan")])
def test_other_whole_numbers_and_types_are_refused(value):
    with pytest.raises(UserError, match=r"new_tokens must be a whole number from 1 to 1024, not ") as caught:
        check("new_tokens", between(1, value, 1024))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), 2.5, "x", True])
def test_other_numbers_are_refused(value):
    with pytest.raises(UserError, match="load must be a number"):
        check("load", between(0.0, value, 1.0))


def test_a_whole_number_is_a_number():
    assert check("load", between(0.0, 1, 1.0)) == 1


@pytest.mark.parametrize("value", ["de", "EN", "", None, "en_GB", 3])
def test_an_unknown_word_is_refused_with_the_known_ones(value):
    with pytest.raises(UserError, match="locale must be one of en, pl, not"):
        one_of("locale", value, ("en", "pl"))
