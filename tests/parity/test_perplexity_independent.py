"""Perplexity against one forward pass a token, and the repetition penalty against transformers' own."""

import math

import pytest
import torch
from transformers import LlamaConfig, RepetitionPenaltyLogitsProcessor

from cheap_inference import corpus, quality
from cheap_inference.battery import penalised
from cheap_inference.models.load import load, random_model
from cheap_inference.models.registry import resolve
from cheap_inference.quantize.in_place import quantized
from cheap_inference.quantize.schemes import INT4_GROUP128


@torch.inference_mode()
def perplexity_token_by_token(model, ids):
    """exp of the mean loss, every prefix a pass of its own."""
    loss = 0.0
    for position in range(1, ids.shape[1]):
        logits = model(ids[:, :position], use_cache=False).logits[0, -1].double()
        loss += float(logits.logsumexp(0) - logits[ids[0, position]])
    return math.exp(loss / (ids.shape[1] - 1))


def test_a_tiny_model_has_the_perplexity_of_single_passes():
    config = LlamaConfig(
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=64,
        intermediate_size=96,
        vocab_size=256,
        initializer_range=0.3,
    )
    model = random_model(config, dtype=torch.float32, seed=0)
    ids = torch.randint(0, 256, (1, 80), generator=torch.Generator().manual_seed(0))
    expected = perplexity_token_by_token(model, ids)
    assert quality.perplexity(quality.token_losses(model, ids)) == pytest.approx(expected, rel=1e-4)


@pytest.mark.model
def test_the_default_model_has_the_perplexity_of_single_passes():
    lm = load(resolve("smollm2-135m", device="cpu"), device="cpu")
    ids = corpus.token_ids(lm.tokenizer, "evaluation", count=24)
    expected = perplexity_token_by_token(lm.model, ids)
    assert quality.perplexity(quality.token_losses(lm.model, ids)) == pytest.approx(expected, rel=1e-4)
    with quantized(lm.model, INT4_GROUP128):
        expected = perplexity_token_by_token(lm.model, ids)
        found = quality.perplexity(quality.token_losses(lm.model, ids))
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("penalty", [1.0, 1.1, 2.0])
def test_the_penalty_is_that_of_transformers(penalty):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 50, generator=generator)
    ids = torch.randint(0, 50, (4, 9), generator=generator)
    seen = torch.zeros(4, 50, dtype=torch.bool).scatter_(1, ids, True)
    expected = RepetitionPenaltyLogitsProcessor(penalty)(ids, logits.clone())
    assert torch.equal(penalised(logits, seen, penalty), expected)
