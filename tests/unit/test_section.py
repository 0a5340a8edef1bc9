"""A notebook's section: measure once, replay what can be trusted, forget no claim."""

import json
from dataclasses import dataclass

import pytest

from cheap_inference import claims, records
from cheap_inference.errors import UserError
from cheap_inference.models import registry
from cheap_inference.quantity import Quantity
from cheap_inference.render.words import Words
from cheap_inference.section import open_section, resolve_model
from cheap_inference.settings import between

CELL = "from cheap_inference import quantity\nx = 1\n"


@dataclass(frozen=True)
class Result:
    speed: Quantity


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A folder of records and a folder with the notebook that runs."""
    monkeypatch.setenv("CHEAP_INFERENCE_RECORDS", str(tmp_path / "records"))
    monkeypatch.setenv("CHEAP_INFERENCE_NOTEBOOKS", str(tmp_path))
    monkeypatch.delenv("CHEAP_INFERENCE_MODE", raising=False)
    write_notebook(tmp_path, CELL)
    return tmp_path


def write_notebook(folder, code, parameters="new_tokens = 48"):
    cells = [
        {"cell_type": "code", "source": [parameters], "metadata": {"tags": ["parameters"]}},
        {"cell_type": "code", "source": [code], "metadata": {}},
    ]
    (folder / "kv-cache.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")


def opened(locale="en", **settings):
    return open_section(
        "kv-cache", model="smollm2-135m", device="cpu", locale=locale, **(settings or {"new_tokens": 48})
    )


class Measurement:
    """Counts how often it was really run."""

    def __init__(self, value=8.0):
        self.runs = 0
        self.value = value

    def __call__(self):
        self.runs += 1
        return Result(Quantity(self.value, "ratio", self.value - 1, self.value + 1, 3))


def test_what_was_measured_is_replayed_in_every_language(kept):
    measurement = Measurement()
    first = opened().measure("loops", measurement)
    again = opened("pl").measure("loops", measurement)
    assert measurement.runs == 1
    assert first.speed == again.speed == Quantity(8.0, "ratio", 7.0, 9.0, 3)


def test_without_a_folder_of_records_everything_is_measured(monkeypatch):
    monkeypatch.delenv("CHEAP_INFERENCE_RECORDS", raising=False)
    monkeypatch.delenv("CHEAP_INFERENCE_NOTEBOOKS", raising=False)
    measurement = Measurement()
    for _ in range(2):
        opened().measure("loops", measurement)
    assert measurement.runs == 2


@pytest.mark.parametrize("change", ["code", "settings", "threads", "damage"])
def test_a_stale_record_is_measured_again(kept, change, monkeypatch):
    measurement = Measurement()
    page = opened()
    page.measure("loops", measurement)
    settings = {}
    if change == "code":
        write_notebook(kept, CELL.replace("x = 1", "x = 2"))
    elif change == "settings":
        settings = {"new_tokens": 47}
    elif change == "threads":
        monkeypatch.setenv("OMP_NUM_THREADS", "63")
    else:
        page.path.write_text(page.path.read_text(encoding="utf-8")[:200], encoding="utf-8")
    opened(**settings).measure("loops", measurement)
    assert measurement.runs == 2


def test_another_default_in_the_parameters_cell_alone_changes_nothing(kept):
    measurement = Measurement()
    opened().measure("loops", measurement)
    write_notebook(kept, CELL, parameters="new_tokens = 12")
    opened().measure("loops", measurement)
    assert measurement.runs == 1


def test_fresh_measures_and_replay_refuses(kept, monkeypatch):
    measurement = Measurement()
    opened().measure("loops", measurement)
    monkeypatch.setenv("CHEAP_INFERENCE_MODE", "fresh")
    opened().measure("loops", measurement)
    assert measurement.runs == 2
    monkeypatch.setenv("CHEAP_INFERENCE_MODE", "replay")
    assert opened().measure("loops", measurement).speed.value == 8.0
    with pytest.raises(UserError, match="No trusted record of 'head'"):
        opened().measure("head", measurement)
    assert measurement.runs == 2


def test_an_interrupted_measurement_keeps_the_parts_before_it(kept):
    def interrupted():
        raise KeyboardInterrupt

    first = Measurement()
    page = opened()
    page.measure("loops", first)
    with pytest.raises(KeyboardInterrupt):
        page.measure("head", interrupted)
    page = opened()
    page.measure("loops", first)
    page.measure("head", Measurement())
    assert first.runs == 1


def registered(page, skip=None):
    for claim in claims.claims_of("kv-cache"):
        if claim.id != skip:
            value = claim.threshold if claim.predicate in ("equals", "is_true") else None
            page.claim(claim.id, {"above": 2.0, "below": 0.5}.get(claim.predicate, value))


def test_verdicts_keep_every_claim_in_the_record(kept):
    page = opened()
    registered(page)
    html = page.verdicts().data["text/html"]
    assert html.count("<tr>") == 1 + len(claims.claims_of("kv-cache"))
    assert "holds here" in html
    kept_claims = records.read(page.path).claims
    assert list(kept_claims) == [claim.id for claim in claims.claims_of("kv-cache")]


@pytest.mark.parametrize("claim", claims.claims_of("kv-cache"), ids=lambda claim: claim.id)
def test_a_forgotten_claim_is_named(claim):
    page = opened()
    registered(page, skip=claim.id)
    with pytest.raises(AssertionError, match=f"claims without a value: {claim.id}"):
        page.verdicts()


def test_an_exact_claim_that_does_not_hold_stops_the_build():
    page = opened()
    registered(page)
    page.claim("kv-cache.positions", 3047)
    with pytest.raises(AssertionError, match=r"exact claims that do not hold: kv-cache\.positions"):
        page.verdicts()


def test_a_machine_claim_that_does_not_hold_is_only_reported():
    page = opened()
    registered(page)
    page.claim("kv-cache.faster", Quantity(0.5, "ratio", 0.4, 0.6, 5))
    assert "does not hold here" in page.verdicts().data["text/html"]


def test_a_claim_that_cannot_be_measured_here_is_said_to_be_so(kept):
    page = opened()
    registered(page)
    page.claim("kv-cache.faster", None)
    assert "– not measured" in page.verdicts().data["text/html"]
    assert records.read(page.path).claims["kv-cache.faster"] is None


def test_an_unknown_claim_is_an_error():
    with pytest.raises(KeyError):
        opened().claim("kv-cache.nonsense", 1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"locale": "de"}, "locale must be one of auto, en, pl, hi, sv, fr"),
        ({"locale": None}, "locale must be one of"),
        ({"device": "tpu"}, "device"),
        ({"device": 3}, "device"),
        ({"model": "no-such-model"}, "model"),
        ({"model": ""}, "model"),
        ({"model": None}, "model"),
        ({"new_tokens": between(1, 0, 512)}, "new_tokens must be a whole number from 1 to 512"),
        ({"new_tokens": between(1, "48", 512)}, "new_tokens must be a whole number"),
    ],
)
def test_bad_parameters_get_one_line_before_anything_runs(changes, says):
    wanted = {"model": "smollm2-135m", "device": "cpu", "locale": "en", **changes}
    with pytest.raises(UserError, match=says) as caught:
        open_section("kv-cache", **wanted)
    assert "\n" not in str(caught.value)
    assert caught.value._render_traceback_() == [f"UserError: {caught.value}"]


@pytest.fixture
def hub_reached(monkeypatch):
    """Say whether the hub can be reached, and forget what was found before."""
    registry._hub_has_gpu_model.cache_clear()
    yield lambda reached: monkeypatch.setattr(registry.hub, "available", lambda *of: reached)
    registry._hub_has_gpu_model.cache_clear()


@pytest.mark.parametrize(
    ("locale", "words"),
    [
        ("en", "The model hub cannot be reached"),
        ("pl", "Hub modeli jest nieosiągalny"),
        ("hi", "Model hub तक पहुँच नहीं है"),
        ("sv", "Det går inte att nå modellhubben"),
        ("fr", "Le hub de modèles est inaccessible"),
    ],
)
def test_what_auto_could_not_have_is_said_in_the_pages_language(hub_reached, capsys, locale, words):
    hub_reached(False)
    assert resolve_model("auto", device="cuda", words=Words(locale)).name == "smollm2-135m"
    said = capsys.readouterr().out
    assert said.startswith(words)
    assert said.count("\n") == 1
    assert "SmolLM2-135M-Instruct" in said
    assert "Qwen2.5-0.5B-Instruct" in said


@pytest.mark.parametrize(("device", "name"), [("cuda", "qwen2.5-0.5b"), ("cpu", "smollm2-135m")])
def test_where_auto_has_what_it_wants_nothing_is_said(hub_reached, capsys, device, name):
    hub_reached(device == "cuda")
    assert resolve_model("auto", device=device, words=Words("pl")).name == name
    assert capsys.readouterr().out == ""


def test_a_bad_mode_is_refused(monkeypatch):
    monkeypatch.setenv("CHEAP_INFERENCE_MODE", "sometimes")
    with pytest.raises(UserError, match="CHEAP_INFERENCE_MODE must be one of"):
        opened()


@pytest.mark.parametrize(
    ("locale", "variable", "language"),
    [("auto", "pl", "pl"), ("auto", None, "en"), ("auto", "", "en"), ("en", "pl", "en"), ("sv", None, "sv")],
)
def test_the_language_is_the_readers_choice_or_the_notebooks_own(monkeypatch, locale, variable, language):
    monkeypatch.delenv("CHEAP_INFERENCE_LOCALE", raising=False)
    if variable is not None:
        monkeypatch.setenv("CHEAP_INFERENCE_LOCALE", variable)
    opened = open_section("kv-cache", model="smollm2-135m", device="cpu", locale=locale)
    assert opened.words.locale == language


def test_an_environment_with_a_language_that_the_book_has_not_is_one_line(monkeypatch):
    monkeypatch.setenv("CHEAP_INFERENCE_LOCALE", "de")
    with pytest.raises(UserError, match=r"^CHEAP_INFERENCE_LOCALE must be one of en, .*, not 'de'"):
        open_section("kv-cache", model="smollm2-135m", device="cpu", locale="auto")
