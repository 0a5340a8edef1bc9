"""The loader refuses what it cannot trust, and verdicts follow the rules."""

import tomllib
from importlib.resources import files

import pytest

from cheap_inference import claims
from cheap_inference.claims import Claim, chapter_comparison, claims_of, evaluate, load, parse
from cheap_inference.errors import UserError
from cheap_inference.quantity import Quantity

SECTIONS = '[sections]\nfirst = "First"\nsecond = "Second"\n'
GOOD = {"id": '"first.a"', "section": '"first"', "kind": '"model"', "text": '"It is so."', "unit": '"ratio"'}


def table(drop=(), **lines):
    keys = {key: value for key, value in {**GOOD, **lines}.items() if key not in drop}
    return "\n".join(["[[claim]]", *(f"{key} = {value}" for key, value in keys.items())]) + "\n"


def claim(predicate="above", threshold=1, *, kind="machine", unit="ratio", **more):
    return Claim("first.a", "first", kind, "It is so.", predicate, threshold, unit, **more)


def test_a_well_formed_claim_is_read():
    [read] = parse(SECTIONS + table(above="1", chapter_value="9")).claims
    assert (read.predicate, read.threshold, read.chapter_value) == ("above", 1, 9)
    assert read.chapter_tolerance is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (table(above="1", colour='"red"'), "unknown keys: colour"),
        (table(), "exactly one of"),
        (table(above="1", below="2"), "exactly one of"),
        (table(above="1", kind='"guess"'), "a kind of"),
        (table(above="1", section='"third"'), "no known section"),
        (table(above="1", id='"second.a"'), "an id of its section"),
        (table(above="1", id='"first.Two Words"'), "an id of its section"),
        (table(above="1", text='"No full stop"'), "one sentence"),
        (table(above="1", text='""'), "one sentence"),
        (table(above="1", drop=["unit"]), "a text for unit"),
        (table(above="1", unit="3"), "a text for unit"),
        (table(above='"1"'), "a number for above"),
        (table(above="true"), "a number for above"),
        (table(equals="[1, 2]"), "a number for equals"),
        (table(is_true="false"), "is_true = true"),
        (table(between="[2, 1]"), "two rising numbers"),
        (table(between="[1, 2, 3]"), "two rising numbers"),
        (table(between="1"), "two rising numbers"),
        (table(above="1", tolerance="0.1"), "only beside equals"),
        (table(equals="1", tolerance="0"), "tolerance above 0"),
        (table(above="1", chapter_tolerance="0.1"), "without chapter_value"),
        (table(above="1", chapter_value='"9 x"'), "a number for chapter_value"),
        (table(above="1", chapter_value="9", chapter_tolerance="-1"), "0 or more"),
        (table(above="1", chapter_value="9", chapter_unit='"GiB"'), "chapter_unit of"),
        (table(above="1", unit='"bytes"', chapter_value="9", chapter_unit='"lb"'), "chapter_unit of"),
        (table(is_true="true", chapter_value="9"), "predicate on a number"),
        (table(above="1", kind='"machine"', varies="true"), "only have varies"),
        (table(above="1", kind='"model"', varies="false"), "only have varies"),
        (table(is_true="true", kind='"model"', varies="true"), "only have varies"),
        (table(above="1") + table(above="2"), "stands twice"),
        (
            table(above="1", id='"second.a"', section='"second"') + table(above="1"),
            "after the claims of a later section",
        ),
        ("[extra]\n" + table(above="1"), "tables only"),
    ],
)
def test_a_malformed_claim_is_refused(text, problem):
    with pytest.raises(UserError, match=r"claims\.toml: .*" + problem):
        parse(SECTIONS + text)


def test_the_packaged_claims_are_complete():
    raw = tomllib.loads(files("cheap_inference").joinpath("data", "claims.toml").read_text(encoding="utf-8"))
    assert len(load()) == len(raw["claim"]) >= 90
    assert all(claims_of(section) for section in claims.section_titles())
    assert [c for section in claims.section_titles() for c in claims_of(section)] == list(load())


def test_machine_claims_never_compare_with_the_chapter():
    assert all(c.chapter_tolerance is None for c in load() if c.kind == "machine")


def test_model_claims_say_how_near_the_chapter_the_chapters_model_must_come():
    assert all(c.chapter_tolerance is not None for c in load() if c.kind == "model" and c.chapter_value)


def test_an_unknown_section_is_refused():
    with pytest.raises(UserError, match="kv-cache"):
        claims_of("kv-cash")


@pytest.mark.parametrize(
    ("item", "quantity", "verdict"),
    [
        (claim(), None, "not-measured"),
        (claim(), Quantity(2, "ratio"), "holds"),
        (claim(), Quantity(1, "ratio"), "fails"),
        (claim(), Quantity(2, "ratio", 1.5, 2.5, 9), "holds"),
        (claim(), Quantity(0.8, "ratio", 0.7, 0.9, 9), "fails"),
        (claim(), Quantity(1.1, "ratio", 0.9, 1.3, 9), "below-noise"),
        (claim(), Quantity(1.1, "ratio", 1.0, 1.3, 9), "below-noise"),
        (claim("below", 1), Quantity(0.8, "ratio", 0.7, 0.9, 9), "holds"),
        (claim("below", 1), Quantity(1.1, "ratio", 1.0, 1.3, 9), "fails"),
        (claim("below", 1), Quantity(1.0, "ratio", 0.9, 1.3, 9), "below-noise"),
        (claim("between", (0.9, 1.1)), Quantity(1, "ratio", 0.9, 1.1, 9), "holds"),
        (claim("between", (0.9, 1.1)), Quantity(1.3, "ratio", 1.2, 1.4, 9), "fails"),
        (claim("between", (0.9, 1.1)), Quantity(1.0, "ratio", 0.8, 1.2, 9), "below-noise"),
        (claim("between", (0.9, 1.1)), Quantity(1.1, "ratio", 1.0, 1.2, 9), "below-noise"),
        (claim("equals", 5), Quantity(5.0, "ratio", 5, 5, 9), "holds"),
        (claim("equals", 5), Quantity(5, "ratio", 4, 6, 9), "below-noise"),
        (claim("is_true", True), Quantity(True, "ratio"), "holds"),
        (claim("is_true", True), Quantity(False, "ratio"), "fails"),
        (claim(kind="model"), Quantity(1.1, "ratio", 0.9, 1.3, 9), "holds"),
        (claim(kind="model"), Quantity(0.9, "ratio", 0.8, 1.3, 9), "fails"),
        (claim("equals", 10**16 + 1, kind="exact"), Quantity(10**16 + 1, "ratio"), "holds"),
        (claim("equals", 10**16 + 1, kind="exact"), Quantity(10**16, "ratio"), "fails"),
        (claim("equals", 4, kind="exact", tolerance=0.01), Quantity(4.039, "ratio"), "holds"),
        (claim("equals", 4, kind="exact", tolerance=0.01), Quantity(3.961, "ratio"), "holds"),
        (claim("equals", 4, kind="exact", tolerance=0.01), Quantity(4.041, "ratio"), "fails"),
        *(
            (claim(predicate, threshold, kind="model"), Quantity(float("nan"), "ratio"), "fails")
            for predicate, threshold in [("above", 1), ("below", 1), ("between", (0, 1)), ("equals", 1)]
        ),
    ],
)
def test_verdicts(item, quantity, verdict):
    outcome = evaluate(item, quantity, model_name="any")
    assert outcome.verdict == verdict
    assert outcome.note == ("spread" if verdict == "below-noise" else "")


@pytest.mark.parametrize(
    ("item", "quantity", "problem"),
    [
        (claim(), Quantity(2, "bytes"), "'ratio', not in 'bytes'"),
        (claim(), Quantity("2", "ratio"), "a number"),
        (claim(), Quantity(True, "ratio"), "a number"),
        (claim("is_true", True), Quantity(1, "ratio"), "true or false"),
    ],
)
def test_a_quantity_of_the_wrong_sort_is_refused(item, quantity, problem):
    with pytest.raises(UserError, match=r"first\.a needs .*" + problem):
        evaluate(item, quantity, model_name="any")


def test_the_chapters_number_is_compared_on_the_chapters_model_only():
    item = claim(kind="model", chapter_value=2, chapter_tolerance=0.1)
    near, far = Quantity(2.19, "ratio"), Quantity(1.79, "ratio")
    assert chapter_comparison(item, near, claims.CHAPTER_MODEL) == "agrees"
    assert chapter_comparison(item, far, claims.CHAPTER_MODEL) == "differs"
    assert chapter_comparison(item, far, "smollm2-135m") is None
    assert chapter_comparison(item, None, claims.CHAPTER_MODEL) is None
    assert chapter_comparison(claim(chapter_value=2), near, claims.CHAPTER_MODEL) is None
    assert evaluate(item, far, model_name=claims.CHAPTER_MODEL).note == "differs"
    assert evaluate(item, far, model_name=claims.CHAPTER_MODEL).verdict == "holds"


def test_the_chapters_units_are_the_ones_they_name():
    binary = claim(unit="bytes", chapter_value=2, chapter_unit="GiB", chapter_tolerance=0.001)
    decimal = claim(unit="bytes", chapter_value=2, chapter_unit="GB", chapter_tolerance=0.001)
    measured = Quantity(2 * 2**30, "bytes")
    assert chapter_comparison(binary, measured, claims.CHAPTER_MODEL) == "agrees"
    assert chapter_comparison(decimal, measured, claims.CHAPTER_MODEL) == "differs"
