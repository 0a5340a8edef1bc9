"""Sampling through a draft: the page's rule leaves the target's distribution alone, a plausible wrong one does not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from cheap_inference.acceptance_rule import (
    chi_square,
    enumerate_outputs,
    largest_difference,
    plain_outputs,
)
from cheap_inference.drafts import certain, sampling_draw
from cheap_inference.experiments import speculative_sampling as experiment
from cheap_inference.kv_cache import new_cache
from cheap_inference.models.load import random_model
from tests.unit.speculative_page import CONFIG, PAGE, filled

distributions = some.lists(some.floats(0.01, 1), min_size=3, max_size=3).map(
    lambda weights: torch.tensor(weights, dtype=torch.float64) / sum(weights)
)


def one_token(p, q, redraw=PAGE.redraw):
    """Distribution [V] of the token that comes out of one guess and its check."""
    outputs = enumerate_outputs(lambda _: p, lambda _: q, PAGE.keep, redraw, guesses=1, length=1)
    return torch.tensor([outputs.get((token,), 0.0) for token in range(len(p))], dtype=torch.float64)


@given(distributions, distributions)
def test_one_token_follows_the_target(p, q):
    torch.testing.assert_close(one_token(p, q), p, rtol=0, atol=1e-12)


@given(distributions)
def test_an_equal_draft_is_never_refused(p):
    assert all(PAGE.keep(p, p, token) == 1 for token in range(3))


def test_a_draft_that_is_certain_leaves_the_distribution_alone():
    p = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    for token in range(3):
        torch.testing.assert_close(one_token(p, certain(token, 3)), p, rtol=0, atol=1e-12)


@given(distributions, distributions)
def test_drawing_again_from_the_target_is_wrong_by_what_is_refused(p, q):
    kept = torch.minimum(p, q)
    expected = kept + (1 - kept.sum()) * p
    torch.testing.assert_close(one_token(p, q, PAGE.wrong_redraw), expected, rtol=0, atol=1e-12)


@settings(max_examples=15)
@given(some.integers(0, 1000), some.integers(1, 3), some.integers(1, 4))
def test_whole_texts_follow_the_target(seed, guesses, length):
    target, draft = experiment._random_model(2 * seed), experiment._random_model(2 * seed + 1)
    outputs = enumerate_outputs(target, draft, PAGE.keep, PAGE.redraw, guesses=guesses, length=length)
    assert sum(outputs.values()) == pytest.approx(1, abs=1e-12)
    assert largest_difference(outputs, plain_outputs(target, length=length)) < 1e-12


def test_the_enumeration_of_the_page_tells_the_rules_apart():
    found = experiment.enumerate_rules(PAGE.keep, PAGE.redraw, PAGE.wrong_redraw)
    assert found.exact
    assert found.right < 1e-12
    assert found.wrong > 0.01
    assert not experiment.enumerate_rules(PAGE.keep, PAGE.wrong_redraw, PAGE.wrong_redraw).exact


def test_a_rule_that_forgets_the_drafts_distribution_is_found_out():
    def keep(p, q, token):
        return float(p[token])

    target, draft = experiment._random_model(0), experiment._random_model(1)
    outputs = enumerate_outputs(target, draft, keep, PAGE.redraw, guesses=2, length=2)
    assert largest_difference(outputs, plain_outputs(target, length=2)) > 1e-3


def test_the_test_on_counts():
    even = torch.tensor([0.5, 0.5])
    found = chi_square([0] * 60 + [1] * 40, even)
    assert found.statistic == pytest.approx(4)
    assert found.degrees_of_freedom == 1
    assert found.p_value == pytest.approx(0.0455003, rel=1e-4)  # from the tables of the distribution
    three = chi_square([0] * 50 + [1] * 30 + [2] * 20, torch.tensor([0.5, 0.3, 0.2]))
    assert (three.statistic, three.p_value) == (pytest.approx(0, abs=1e-6), pytest.approx(1))


def test_rare_tokens_are_one_class():
    distribution = torch.tensor([0.6, 0.3, *[0.01] * 10])
    found = chi_square([0] * 60 + [1] * 30 + [5] * 10, distribution)
    assert found.degrees_of_freedom == 2
    assert found.statistic == pytest.approx(0, abs=1e-5)
    assert chi_square([0] * 50 + [1] * 50, torch.tensor([0.5, 0.48, 0.02])).degrees_of_freedom == 1


# --- the loop itself, on a model ---


@pytest.fixture(scope="module")
def pair():
    config = type(CONFIG)(**{**CONFIG.to_dict(), "vocab_size": 6, "initializer_range": 0.15})
    return [random_model(config, dtype=torch.float32, seed=seed) for seed in (5, 6)]


def drawn_texts(pair, redraw, *, runs, guesses, temperature=1.0):
    """The first two tokens of many runs of the page's loop, as one number."""
    target, small = pair
    prompt, found = [1, 4, 2], []
    generator = torch.Generator().manual_seed(0)
    draw = sampling_draw(temperature=temperature, vocabulary=6, width=6, generator=generator)
    judge = PAGE.sampled_judge(PAGE.keep, redraw, temperature, generator)
    for _ in range(runs):
        draft_cache = new_cache(small.config)
        made, _ = PAGE.speculate(
            target,
            filled(target, prompt),
            prompt,
            lambda ids, count, kept=draft_cache: PAGE.draft_tokens(small, kept, ids, count, draw),
            judge,
            guesses=guesses,
            new_tokens=2,
        )
        found.append(6 * made[0] + made[1])
    return found


def two_token_distribution(target, prompt, temperature=1.0):
    with torch.inference_mode():
        texts = torch.tensor([[*prompt, token] for token in range(6)])
        logits = target(texts).logits.double() / temperature
    first, second = logits[0, -2].softmax(dim=-1), logits[:, -1].softmax(dim=-1)
    return (first[:, None] * second).flatten()


def test_sampling_through_a_draft_follows_the_target_and_the_wrong_rule_does_not(pair):
    expected = two_token_distribution(pair[0], [1, 4, 2])
    right = chi_square(drawn_texts(pair, PAGE.redraw, runs=600, guesses=2), expected)
    wrong = chi_square(drawn_texts(pair, PAGE.wrong_redraw, runs=600, guesses=2), expected)
    assert wrong.p_value < 1e-3 < 0.01 < right.p_value


def test_at_a_low_temperature_sampling_is_greedy(pair):
    texts = drawn_texts(pair, PAGE.redraw, runs=3, guesses=2, temperature=1e-4)
    with torch.inference_mode():
        first = int(pair[0](torch.tensor([[1, 4, 2]])).logits[0, -1].argmax())
        second = int(pair[0](torch.tensor([[1, 4, 2, first]])).logits[0, -1].argmax())
    assert texts == [6 * first + second] * 3
