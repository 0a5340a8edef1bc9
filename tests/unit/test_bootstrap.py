"""Intervals: known values, coverage, and pairs that are compared on the same resample."""

import numpy as np
import pytest

from cheap_inference import bootstrap


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),  # values of Wilson's formula as tables give them
        (10, 10, 0.7225, 1.0),
        (1, 2, 0.0945, 0.9055),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_wilson_against_published_values(successes, trials, low, high):
    interval = bootstrap.wilson(successes, trials)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-4)


def test_block_means_are_means_of_whole_blocks():
    values = np.arange(8.0)
    means = bootstrap.block_means(values, block_length=8)
    assert set(means.round(9)) == {3.5}  # a block as long as the text is the text, wherever it starts
    singles = bootstrap.block_means(values, tokens=1, block_length=1)
    assert set(singles) == set(values)


def test_blocks_wrap_around():
    means = bootstrap.block_means(np.array([0.0, 0.0, 0.0, 9.0]), tokens=2, block_length=2)
    assert set(means) == {0.0, 4.5}
    assert (means == 4.5).mean() == pytest.approx(0.5, abs=0.05)


def test_equal_losses_differ_by_nothing_at_all():
    losses = np.random.default_rng(0).exponential(3, 500)
    interval = bootstrap.perplexity_difference(losses, losses)
    assert (interval.low, interval.high) == (0, 0)
    assert interval.covers(0)


def test_a_pair_is_compared_on_the_same_tokens():
    losses = np.random.default_rng(0).exponential(3, 2000)
    paired = bootstrap.perplexity_ratio(losses, losses + 0.01)
    assert paired.low == pytest.approx(np.exp(0.01))
    assert not paired.covers(1)
    wide = bootstrap.interval(np.exp(bootstrap.block_means(losses)))
    assert wide.high / wide.low > 1.1


def test_dependent_tokens_need_a_wider_interval_than_independent_ones():
    generator = np.random.default_rng(0)
    independent = generator.normal(size=2048)
    dependent = np.repeat(generator.normal(size=128), 16)
    width = [
        np.ptp(np.quantile(bootstrap.block_means(values), [0.025, 0.975]))
        for values in (independent, dependent)
    ]
    assert width[1] > 2.5 * width[0]


def test_the_width_falls_with_the_square_root_of_the_text():
    values = np.random.default_rng(0).normal(size=2048)
    short, long = (
        np.ptp(np.quantile(bootstrap.block_means(values, tokens=tokens), [0.025, 0.975]))
        for tokens in (1024, 16384)
    )
    assert short / long == pytest.approx(4, rel=0.15)


def test_coverage_is_near_its_promise():
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        sample = generator.normal(size=512)
        covered += bootstrap.interval(bootstrap.block_means(sample)).covers(0)
    assert 0.86 <= covered / 200 <= 0.99


def test_agreement_is_resampled_by_prompt():
    by_prompt = [[True] * 24] * 3 + [[False] * 24] * 3
    interval = bootstrap.share_by_prompt(by_prompt)
    assert interval.high - interval.low > 0.6  # six draws, not 144
    assert bootstrap.share_by_prompt([[True, False]] * 6) == bootstrap.Interval(0.5, 0.5)


def test_the_seed_makes_it_repeatable():
    losses = np.random.default_rng(0).exponential(3, 300)
    assert bootstrap.perplexity_ratio(losses, losses**0.9) == bootstrap.perplexity_ratio(losses, losses**0.9)
