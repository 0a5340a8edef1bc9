"""Held to a limit, a real process reaches the sum's prediction and fails before the cache alone would fill it."""

import sys

import pytest

from cheap_inference import fits
from cheap_inference.experiments import bigger_or_smaller
from cheap_inference.experiments.fits import prove_limit
from cheap_inference.models.load import load
from cheap_inference.models.registry import DEFAULT_MODEL, KNOWN_MODELS

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def lm():
    return load(KNOWN_MODELS[DEFAULT_MODEL], device="cpu")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to a limit of its data")
def test_the_prediction_is_reached_and_the_limit_binds(lm):
    proof = prove_limit(lm, fits.fit)
    assert proof.predicted <= proof.reached < proof.most_tokens


def test_a_model_in_four_bits_against_itself_is_worse_and_smaller(lm):
    found = bigger_or_smaller.compare_sizes(lm, lm, evaluation_tokens=128)
    assert found.perplexity_ratio.value > 1
    assert found.smaller_bytes == 2 * 134_515_008
    assert found.bigger_bytes < 0.5 * found.smaller_bytes
    assert all(0 <= side.correct <= found.questions for side in found.sides)
