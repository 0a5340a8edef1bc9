"""The section fits: tables by the reader's function, open models on any card, the proof and its wording."""

import csv
import io
import sys
from types import SimpleNamespace

import pytest
import torch

from cheap_inference import fits, records
from cheap_inference.experiments import bigger_or_smaller
from cheap_inference.experiments import fits as experiment
from cheap_inference.models.registry import KNOWN_MODELS
from cheap_inference.quantity import Quantity
from cheap_inference.render.words import Words
from cheap_inference.views import fits as view

EN = Words("en")


@pytest.fixture(scope="module")
def lm(tiny_llama):
    return SimpleNamespace(
        model=tiny_llama,
        config=tiny_llama.config,
        device=torch.device("cpu"),
        dtype=torch.float32,
        spec=SimpleNamespace(title="Tiny", name="tiny"),
    )


def decoded(**parts):
    return SimpleNamespace(**{name: records.decode(records.encode(part)) for name, part in parts.items()})


def plain(display):
    return display.data["text/plain"].replace("\u00a0", " ")


def test_the_tables_are_the_chapters():
    tables = experiment.chapter_tables(fits.fit)
    assert tables.equal_to_chapter
    assert len(tables.cells) == 27
    assert (tables.tokens_13b_4bit_8gib, tables.tokens_7b_int8_16gib, tables.tokens_13b_int8_16gib) == (
        337,
        65_378,
        3_136,
    )
    assert (tables.weights_7b_fp16, tables.weights_13b_4bit) == (14_000_000_000, 6_703_125_000)
    assert (tables.token_bytes_7b, tables.token_bytes_13b) == (131_072, 819_200)


def test_a_sum_that_is_wrong_is_found_out():
    def without_reserve(model, **settings):
        return fits.fit(model, **{**settings, "reserve_bytes": 0})

    assert not experiment.chapter_tables(without_reserve).equal_to_chapter


def test_what_it_hangs_on():
    found = experiment.what_it_hangs_on(fits.fit)
    assert (found.tokens, found.without_reserve, found.with_fewer_heads) == (337, 2_303, 1_685)
    assert found.missing_bytes == 20_678_144
    assert found.room_ratio * found.token_bytes_ratio == pytest.approx(found.token_ratio, rel=1e-3)
    assert found.int8_tokens_with_scales < found.int8_tokens == 65_378


@pytest.mark.parametrize("card_gib", [0.25, 24, 1024])
def test_open_models_on_any_card(lm, card_gib):
    found = experiment.open_models_on(
        lm, fits.fit, card_gib=card_gib, bits_per_weight=4.125, cache_bits=16, context=8192
    )
    assert len(found.rows) == len(fits.open_models()) >= 12
    assert found.own.model == "Tiny"
    assert found.own.parameters == sum(weight.numel() for weight in lm.model.parameters())
    for name in ("small_models", "large_models", "users_figure", "own_model", "sources"):
        assert getattr(view, name)(decoded(models=found), EN).data["text/plain"]


def test_the_csv_names_the_source_of_each_shape(lm):
    found = experiment.open_models_on(lm, fits.fit, card_gib=24, bits_per_weight=4, cache_bits=16, context=1)
    rows = list(csv.DictReader(io.StringIO(view.large_models(decoded(models=found), EN).metadata["csv"])))
    assert all(row["source"].startswith("https://") for row in rows)
    html = view.large_models(decoded(models=found), EN).data["text/html"]
    assert html.count("<tr") <= 1 + 8
    assert "https://" not in html


def test_the_proof_asks_the_process_for_what_the_sum_predicts(lm, monkeypatch):
    asked = {}
    monkeypatch.setattr(experiment, "_can_limit", lambda device: True)
    monkeypatch.setattr(experiment, "_reached", lambda lm, *numbers: asked.update(numbers=numbers) or 600)
    proof = experiment.prove_limit(lm, fits.fit)
    per_token = 2 * 2 * 2 * 16 * 4
    assert proof.token_bytes == per_token
    assert proof.predicted == experiment.PROOF_TOKENS
    assert proof.card_bytes == proof.weight_bytes + proof.reserve_bytes + proof.predicted * per_token
    assert proof.most_tokens == proof.predicted + proof.reserve_bytes // per_token
    assert asked["numbers"] == (proof.card_bytes, proof.predicted, proof.most_tokens)
    assert proof.generated_to_the_limit


@pytest.mark.parametrize(("reached", "holds"), [(511, False), (512, True), (10**9, False)])
def test_the_proof_can_fail(lm, monkeypatch, reached, holds):
    monkeypatch.setattr(experiment, "_can_limit", lambda device: True)
    monkeypatch.setattr(experiment, "_reached", lambda *_: reached)
    proof = experiment.prove_limit(lm, fits.fit)
    assert proof.generated_to_the_limit is holds
    words = {511: "before the prediction", 512: "generated to the prediction", 10**9: "did not bind"}
    assert words[reached] in plain(view.proof(decoded(proof=proof), EN))


def test_a_system_that_cannot_limit_says_so(lm, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    proof = experiment.prove_limit(lm, fits.fit)
    assert proof.reached is None
    assert proof.generated_to_the_limit is None
    assert "not tried here" in plain(view.proof(decoded(proof=proof), EN))


def test_chapter_views_render_in_every_language():
    record = decoded(tables=experiment.chapter_tables(fits.fit), hangs=experiment.what_it_hangs_on(fits.fit))
    for locale in ("en", "pl", "hi", "sv", "fr"):
        for name in ("answer", "tables", "seventy", "hangs_on", "ratio", "near_miss", "memory_figure"):
            assert getattr(view, name)(record, Words(locale)).data["text/plain"]
    assert "at 4.125 bits its weights are 33.6 GiB" in plain(view.seventy(record, EN))
    assert "20.8 × the tokens" in plain(view.ratio(record, EN))


def test_sizes_without_a_gpu_are_bytes_alone():
    found = bigger_or_smaller.bigger_or_smaller(KNOWN_MODELS["smollm2-135m"], None, device="cpu")
    assert (found.smaller_bytes, found.bigger_bytes) == (988_065_536, 1_142_606_848)
    assert found.perplexity_ratio is None
    assert "not measured here" in plain(view.sizes(decoded(sizes=found), EN))
    assert "no verdict" in plain(view.sizes_verdict(decoded(sizes=found), EN))


@pytest.mark.parametrize(
    ("low", "high", "words"), [(0.7, 0.9, "better"), (0.9, 1.1, "not distinguishable"), (1.1, 1.4, "worse")]
)
def test_sizes_are_judged_by_the_interval(low, high, words):
    step = Quantity(10.0, "ms", 9.0, 11.0, 9)
    sides = [
        SimpleNamespace(model=name, weight_bytes=10**9, perplexity=20.0, correct=9, step=step)
        for name in ("a", "b")
    ]
    ratio = Quantity((low + high) / 2, "ratio", low, high, 2047)
    record = SimpleNamespace(sizes=SimpleNamespace(sides=sides, questions=16, perplexity_ratio=ratio))
    assert words in plain(view.sizes_verdict(record, EN))
    assert "2,047 tokens" in plain(view.sizes(record, EN))
