"""Checks of what a reader may set in a notebook's parameters cell."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import UserError

LOCALES = ("en", "pl", "hi", "sv", "fr")
SOURCE_LOCALE = "en"
AUTO = "auto"
DEVICES = (AUTO, "cpu", "cuda")
MODES = (AUTO, "fresh", "replay")


@dataclass(frozen=True)
class Bounded:
    """A setting together with the range it makes sense in; checked, and named, by `check`."""

    low: int | float
    value: object
    high: int | float


def between(low: int | float, value: object, high: int | float) -> Bounded:
    """State the range of a setting where it is passed on: `between(1, new_tokens, 1024)`."""
    return Bounded(low, value, high)


def check(name: str, setting: object) -> object:
    """Return the plain value of a setting.

    Raises:
        UserError: the value is of another type than its bounds or lies outside them.
    """
    if not isinstance(setting, Bounded):
        return setting
    wanted = "a whole number" if isinstance(setting.low, int) else "a number"
    kinds = (int,) if isinstance(setting.low, int) else (int, float)
    value = setting.value
    if isinstance(value, bool) or not isinstance(value, kinds) or not setting.low <= value <= setting.high:
        raise UserError(f"{name} must be {wanted} from {setting.low} to {setting.high}, not {value!r}.")
    return value


def one_of(name: str, value: object, known: tuple[str, ...]) -> str:
    """Return `value` if it is one of the known words.

    Raises:
        UserError: it is not.
    """
    if value not in known:
        raise UserError(f"{name} must be one of {', '.join(known)}, not {value!r}.")
    return value
