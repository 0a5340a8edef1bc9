"""The chapter's claims: what must be true of a measured value, and whether it is.

The claims are data (`data/claims.toml`); this module gives the verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from .claims_file import BYTES_IN, Catalogue, Claim, Number, is_number, parse
from .errors import UserError
from .quantity import Quantity

VERDICTS = ("holds", "fails", "below-noise", "not-measured")
#: Name of the model that the chapter's numbers were measured with.
CHAPTER_MODEL = "qwen2.5-0.5b"


@dataclass(frozen=True)
class Outcome:
    """A verdict (one of `VERDICTS`), with a note code that says why or adds to it.

    Notes given here: "" (nothing to add), "spread" (the spread covers the threshold), "agrees" and
    "differs" (with the chapter's number, on the chapter's model).
    """

    verdict: str
    note: str = ""


@cache
def _catalogue() -> Catalogue:
    return parse(files(__package__).joinpath("data", "claims.toml").read_text(encoding="utf-8"))


def load() -> tuple[Claim, ...]:
    """Every claim, in reading order."""
    return _catalogue().claims


def claims_of(section: str) -> tuple[Claim, ...]:
    """The claims of one section.

    Raises:
        UserError: there is no such section.
    """
    if section not in _catalogue().titles:
        raise UserError(f"No section {section!r} has claims: choose one of {', '.join(_catalogue().titles)}.")
    return tuple(claim for claim in load() if claim.section == section)


def section_titles() -> dict[str, str]:
    """English titles of the sections by slug, in reading order."""
    return dict(_catalogue().titles)


def evaluate(claim: Claim, quantity: Quantity | None, *, model_name: str) -> Outcome:
    """The verdict on a measured value; None stands for a value that was not measured.

    Exact and model claims are judged by the value itself. A machine claim holds or fails where its
    whole spread does, and is below the noise where the spread lies on both sides.

    Raises:
        UserError: the quantity's unit or type is not the claim's.
    """
    if quantity is None:
        return Outcome("not-measured")
    _check_quantity(claim, quantity)
    ends = (quantity.value,)
    if claim.kind == "machine" and quantity.low is not None and quantity.high is not None:
        ends = (quantity.low, quantity.high)
    sides = {_side(claim, end) for end in ends}
    if len(sides) > 1:
        return Outcome("below-noise", "spread")
    verdict = "holds" if sides == {0} else "fails"
    return Outcome(verdict, chapter_comparison(claim, quantity, model_name) or "")


def chapter_comparison(claim: Claim, quantity: Quantity | None, model_name: str) -> str | None:
    """ "agrees" or "differs" by the chapter's number; None where the two must not be compared."""
    if quantity is None or model_name != CHAPTER_MODEL or claim.chapter_tolerance is None:
        return None
    chapter = chapter_in_unit(claim)
    distance = abs(quantity.value - chapter)
    return "agrees" if distance <= claim.chapter_tolerance * abs(chapter) else "differs"


def chapter_in_unit(claim: Claim) -> Number | None:
    """The chapter's value in the unit of the measured one (whole bytes), None where there is none."""
    if claim.chapter_value is None or claim.chapter_unit is None:
        return claim.chapter_value
    return round(claim.chapter_value * BYTES_IN[claim.chapter_unit])


def _side(claim: Claim, value: Number | bool) -> int:
    """0 where the predicate is true of `value`, -1 below and 1 above the values that it is true of."""
    match claim.predicate:
        case "is_true":
            return 0 if value else -1
        case "above":
            return 0 if value > claim.threshold else -1
        case "below":
            return 0 if value < claim.threshold else 1
    low, high = _ends(claim)
    if low <= value <= high:
        return 0
    return -1 if value < low else 1


def _ends(claim: Claim) -> tuple[Number, Number]:
    if claim.predicate == "between":
        return claim.threshold
    if not claim.tolerance:  # whole numbers stay whole: no rounding through floats
        return claim.threshold, claim.threshold
    reach = abs(claim.threshold) * claim.tolerance
    return claim.threshold - reach, claim.threshold + reach


def _check_quantity(claim: Claim, quantity: Quantity) -> None:
    if quantity.unit != claim.unit:
        raise UserError(f"Claim {claim.id} needs a value in {claim.unit!r}, not in {quantity.unit!r}.")
    wanted = "true or false" if claim.predicate == "is_true" else "a number"
    fits = is_number(quantity.value) if wanted == "a number" else isinstance(quantity.value, bool)
    if not fits:
        raise UserError(f"Claim {claim.id} needs {wanted}, not {quantity.value!r}.")
