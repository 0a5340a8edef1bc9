"""Perplexity, divergence and agreement on tiny random models."""

import math

import pytest
import torch
from torch.nn import functional

from cheap_inference import quality
from cheap_inference.errors import UserError
from cheap_inference.kv_cache import forward
from cheap_inference.quantize.in_place import quantized
from cheap_inference.quantize.kv_cache_rounding import rounded_cache
from cheap_inference.quantize.schemes import INT4_GROUP64, INT8_ROW


@pytest.fixture(scope="module")
def model(make_model):
    return make_model(initializer_range=0.2)


@pytest.fixture
def ids():
    return torch.randint(0, 128, (1, 300), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("length", "window", "stride"), [(10, 4, 2), (9, 4, 3), (300, 100, 100), (5, 8, 4)])
def test_every_token_after_the_first_is_scored_once_with_context(length, window, stride):
    scored = []
    for start, end, first in quality.windows(length, window=window, stride=min(stride, window - 1)):
        assert start < first < end <= start + window
        scored += range(first, end)
    assert scored == list(range(1, length))


def test_losses_in_one_window_are_the_models_own(model, ids):
    logits = forward(model, ids)[0]
    expected = functional.cross_entropy(logits[:-1], ids[0, 1:], reduction="none")
    torch.testing.assert_close(quality.token_losses(model, ids), expected, rtol=1e-5, atol=1e-5)


def test_later_windows_score_with_their_own_context(model, ids, monkeypatch):
    cut = lambda length: windows(length, window=100, stride=60)  # noqa: E731
    windows = quality.windows
    monkeypatch.setattr(quality, "windows", cut)
    losses = quality.token_losses(model, ids)
    assert losses.shape == (299,)
    second = forward(model, ids[:, 60:160])[0]  # scores tokens 100 ... 159
    expected = functional.cross_entropy(second[39:99], ids[0, 100:160], reduction="none")
    torch.testing.assert_close(losses[99:159], expected, rtol=1e-5, atol=1e-5)


def test_perplexity_is_the_exponential_of_the_mean_not_a_mean_of_exponentials():
    assert quality.perplexity(torch.tensor([0.0, 2.0])) == pytest.approx(math.e)


def test_bits_per_byte_by_hand():
    # Two tokens of 4 bits each over 4 bytes of text.
    assert quality.bits_per_byte(torch.full((2,), 4 * math.log(2)), text_bytes=4) == pytest.approx(2)


def test_a_model_beside_itself(model, ids):
    found = quality.compare(model, ids, quality.predicting_states(model, ids))
    assert found.divergences.abs().max() < 1e-5
    assert not found.flips.any()
    torch.testing.assert_close(found.losses, quality.token_losses(model, ids))


def test_divergence_and_flips_against_their_definitions(model, ids):
    reference = quality.predicting_states(model, ids)
    before = forward(model, ids)[0, :-1].log_softmax(-1)
    with quantized(model, INT4_GROUP64):
        found = quality.compare(model, ids, reference)
        after = forward(model, ids)[0, :-1].log_softmax(-1)
    expected = functional.kl_div(after, before, log_target=True, reduction="none").sum(-1)
    torch.testing.assert_close(found.divergences, expected, rtol=1e-3, atol=1e-4)
    assert torch.equal(found.flips, before.argmax(-1) != after.argmax(-1))
    assert found.flips.any()
    assert found.divergences.min() > -1e-5


def test_finer_rounding_diverges_less(model, ids):
    reference = quality.predicting_states(model, ids)
    means = []
    for scheme in (INT8_ROW, INT4_GROUP64):
        with quantized(model, scheme):
            means.append(float(quality.compare(model, ids, reference).divergences.mean()))
    assert means[0] < 0.1 * means[1]


def test_a_cache_can_be_judged(model, ids):
    plain = quality.token_losses(model, ids)
    rounded = quality.token_losses(
        model, ids, make_cache=lambda: rounded_cache(model.config, bits=4, keys="token")
    )
    assert not torch.allclose(plain, rounded)


def test_logits_that_change_after_the_head_are_refused(make_model):
    model = make_model("Granite", initializer_range=0.2, logits_scaling=8.0)
    with pytest.raises(UserError, match="changes its logits after the head"):
        quality.token_losses(model, torch.arange(20)[None])


def test_a_model_agrees_with_its_own_continuation(model):
    prompts = torch.randint(0, 128, (3, 10), generator=torch.Generator().manual_seed(1))
    continuations = quality.greedy_continuations(model, prompts, 8)
    assert quality.agreements(model, prompts, continuations).all()
    with quantized(model, INT4_GROUP64):
        found = quality.agreements(model, prompts, continuations)
        ids = torch.cat([prompts, continuations], dim=1)
        expected = forward(model, ids)[:, 9:-1].argmax(-1) == continuations
    assert torch.equal(found, expected)
    assert not found.all()
