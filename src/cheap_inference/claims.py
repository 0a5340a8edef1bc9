"""The chapter's claims: what must be true of a measured value, and whether it is.

The claims are data (`data/claims.toml`); this module reads them strictly and gives verdicts.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from .errors import UserError
from .quantity import Quantity

KINDS = ("exact", "model", "machine")
PREDICATES = ("equals", "above", "below", "between", "is_true")
VERDICTS = ("holds", "fails", "below-noise", "not-measured")
#: Name of the model that the chapter's numbers were measured with.
CHAPTER_MODEL = "qwen2.5-0.5b"
#: Units of memory that a chapter's value may be given in, in bytes.
BYTES_IN = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "GB": 10**9}

Number = int | float


@dataclass(frozen=True)
class Claim:
    """One statement of the chapter, as it can be true or false here.

    Attributes:
        id: section and a few words, as in "kv-cache.faster".
        predicate: the one of `PREDICATES` that says when the claim holds.
        threshold: a number; for "between" a pair, ends included; for "is_true" True.
        tolerance: how far from `threshold` "equals" may be, relative to it.
        unit: of the value measured here.
        chapter_value: what the chapter reports, in `chapter_unit` (None: in `unit`).
        chapter_tolerance: relative distance within which the chapter's model must come;
            None: the chapter's value is shown and never compared.
    """

    id: str
    section: str
    kind: str
    text: str
    predicate: str
    threshold: Number | tuple[Number, Number] | bool
    unit: str
    tolerance: float = 0
    chapter_value: Number | None = None
    chapter_unit: str | None = None
    chapter_tolerance: float | None = None


@dataclass(frozen=True)
class Outcome:
    """A verdict (one of `VERDICTS`), with a note code that says why or adds to it.

    Notes given here: "" (nothing to add), "spread" (the spread covers the threshold), "agrees" and
    "differs" (with the chapter's number, on the chapter's model).
    """

    verdict: str
    note: str = ""


@dataclass(frozen=True)
class Catalogue:
    """All claims and the titles of their sections (by slug), both in reading order."""

    titles: dict[str, str]
    claims: tuple[Claim, ...]


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
    fits = _is_number(quantity.value) if wanted == "a number" else isinstance(quantity.value, bool)
    if not fits:
        raise UserError(f"Claim {claim.id} needs {wanted}, not {quantity.value!r}.")


# --- reading claims.toml, strictly ---

TEXT_KEYS = ("id", "section", "kind", "text", "unit")
CHAPTER_KEYS = ("chapter_value", "chapter_unit", "chapter_tolerance")


@cache
def _catalogue() -> Catalogue:
    return parse(files(__package__).joinpath("data", "claims.toml").read_text(encoding="utf-8"))


def parse(text: str) -> Catalogue:
    """Read the text of a claims file.

    Raises:
        UserError: a claim has an unknown key, a wrong type, an id that another has, no predicate or
            two, a kind or section that does not exist, or stands out of reading order.
    """
    raw = tomllib.loads(text)
    _require(raw.keys() == {"sections", "claim"}, "the file", "needs [sections] and [[claim]] tables only")
    titles = raw["sections"]
    read = tuple(_claim(table, titles) for table in raw["claim"])
    seen: set[str] = set()
    for claim in read:
        _require(claim.id not in seen, claim.id, "stands twice")
        seen.add(claim.id)
    order = [list(titles).index(claim.section) for claim in read]
    for claim, place, before in zip(read[1:], order[1:], order, strict=False):
        _require(place >= before, claim.id, "stands after the claims of a later section")
    return Catalogue(titles, read)


def _claim(table: dict, titles: dict[str, str]) -> Claim:
    name = str(table.get("id", "a claim without id"))
    unknown = table.keys() - {*TEXT_KEYS, *PREDICATES, "tolerance", *CHAPTER_KEYS}
    _require(not unknown, name, f"has unknown keys: {', '.join(sorted(unknown))}")
    for key in TEXT_KEYS:
        _require(isinstance(table.get(key), str), name, f"needs a text for {key}")
    _require(table["section"] in titles, name, f"names no known section: {table['section']!r}")
    _require(table["kind"] in KINDS, name, f"needs a kind of {', '.join(KINDS)}")
    pattern = rf"{table['section']}\.[a-z0-9]+(-[a-z0-9]+)*"
    _require(re.fullmatch(pattern, name), name, "needs an id of its section, a dot and words")
    _require(re.fullmatch(r"[^\n]+[.]", table["text"]), name, "needs one sentence as its text")
    given = [key for key in PREDICATES if key in table]
    _require(len(given) == 1, name, f"needs exactly one of {', '.join(PREDICATES)}")
    _check_threshold(name, given[0], table)
    _check_chapter(name, table)
    threshold = tuple(table["between"]) if given[0] == "between" else table[given[0]]
    plain = {key: table[key] for key in (*TEXT_KEYS, "tolerance", *CHAPTER_KEYS) if key in table}
    return Claim(predicate=given[0], threshold=threshold, **plain)


def _check_threshold(name: str, predicate: str, table: dict) -> None:
    value = table[predicate]
    if predicate == "is_true":
        _require(value is True, name, "can only have is_true = true")
    elif predicate == "between":
        pair = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
        _require(pair and value[0] < value[1], name, "needs two rising numbers for between")
    else:
        _require(_is_number(value), name, f"needs a number for {predicate}")
    if "tolerance" in table:
        fits = predicate == "equals" and _is_number(table["tolerance"]) and table["tolerance"] > 0
        _require(fits, name, "can have a tolerance above 0, and only beside equals")


def _check_chapter(name: str, table: dict) -> None:
    given = [key for key in CHAPTER_KEYS if key in table]
    if not given:
        return
    _require("chapter_value" in given, name, f"has {given[0]} without chapter_value")
    _require(_is_number(table["chapter_value"]), name, "needs a number for chapter_value")
    _require("is_true" not in table, name, "has a chapter_value, so it needs a predicate on a number")
    tolerance = table.get("chapter_tolerance", 0)
    _require(_is_number(tolerance) and tolerance >= 0, name, "needs 0 or more for chapter_tolerance")
    if "chapter_unit" in table:
        fits = table["chapter_unit"] in BYTES_IN and table["unit"] == "bytes"
        _require(fits, name, f'can have a chapter_unit of {", ".join(BYTES_IN)}, beside unit = "bytes"')


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _require(condition: object, name: str, problem: str) -> None:
    if not condition:
        raise UserError(f"claims.toml: {name} {problem}.")
