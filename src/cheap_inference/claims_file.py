"""The claims file, read strictly: every mistake in it is an error, none is a claim that cannot fail."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

from .errors import UserError

KINDS = ("exact", "model", "machine")
PREDICATES = ("equals", "above", "below", "between", "is_true")
#: Units of memory that a chapter's value may be given in, in bytes.
BYTES_IN = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "GB": 10**9}
TEXT_KEYS = ("id", "section", "kind", "text", "unit")
CHAPTER_KEYS = ("chapter_value", "chapter_unit", "chapter_tolerance")

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
        varies: whether the last digits of a model's value move with the processor; the verdict must not.
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
    varies: bool = False


@dataclass(frozen=True)
class Catalogue:
    """All claims and the titles of their sections (by slug), both in reading order."""

    titles: dict[str, str]
    claims: tuple[Claim, ...]


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
    unknown = table.keys() - {*TEXT_KEYS, *PREDICATES, "tolerance", "varies", *CHAPTER_KEYS}
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
    if "varies" in table:
        fits = table["varies"] is True and table["kind"] == "model" and given[0] != "is_true"
        _require(fits, name, "can only have varies = true, where its kind is model and its value a number")
    threshold = tuple(table["between"]) if given[0] == "between" else table[given[0]]
    plain = {key: table[key] for key in (*TEXT_KEYS, "tolerance", "varies", *CHAPTER_KEYS) if key in table}
    return Claim(predicate=given[0], threshold=threshold, **plain)


def _check_threshold(name: str, predicate: str, table: dict) -> None:
    value = table[predicate]
    if predicate == "is_true":
        _require(value is True, name, "can only have is_true = true")
    elif predicate == "between":
        pair = isinstance(value, list) and len(value) == 2 and all(map(is_number, value))
        _require(pair and value[0] < value[1], name, "needs two rising numbers for between")
    else:
        _require(is_number(value), name, f"needs a number for {predicate}")
    if "tolerance" in table:
        fits = predicate == "equals" and is_number(table["tolerance"]) and table["tolerance"] > 0
        _require(fits, name, "can have a tolerance above 0, and only beside equals")


def _check_chapter(name: str, table: dict) -> None:
    given = [key for key in CHAPTER_KEYS if key in table]
    if not given:
        return
    _require("chapter_value" in given, name, f"has {given[0]} without chapter_value")
    _require(is_number(table["chapter_value"]), name, "needs a number for chapter_value")
    _require("is_true" not in table, name, "has a chapter_value, so it needs a predicate on a number")
    tolerance = table.get("chapter_tolerance", 0)
    _require(is_number(tolerance) and tolerance >= 0, name, "needs 0 or more for chapter_tolerance")
    if "chapter_unit" in table:
        fits = table["chapter_unit"] in BYTES_IN and table["unit"] == "bytes"
        _require(fits, name, f'can have a chapter_unit of {", ".join(BYTES_IN)}, beside unit = "bytes"')


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _require(condition: object, name: str, problem: str) -> None:
    if not condition:
        raise UserError(f"claims.toml: {name} {problem}.")
