"""Both loops on a tiny random model: same tokens, and the positions that each one feeds."""

import pytest
import torch
from transformers import LlamaConfig

from cheap_inference import generation, kv_cache
from cheap_inference.models.load import random_model

PROMPT_TOKENS = 5


@pytest.fixture(scope="module")
def model():
    config = LlamaConfig(
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=64,
        intermediate_size=96,
        vocab_size=128,
        initializer_range=0.3,  # wide enough that the greedy text does not repeat one token
        pad_token_id=None,
    )
    return random_model(config, dtype=torch.float32, seed=0)


@pytest.fixture
def prompt_ids():
    return torch.randint(0, 128, (1, PROMPT_TOKENS), generator=torch.Generator().manual_seed(2))


@pytest.fixture
def fed(model):
    """Lengths of the sequences given to the model, in order."""
    lengths = []
    hook = model.get_input_embeddings().register_forward_pre_hook(
        lambda _, inputs: lengths.append(inputs[0].shape[1])
    )
    yield lengths
    hook.remove()


@pytest.mark.parametrize("new_tokens", [1, 2, 20])
def test_the_loops_agree(model, prompt_ids, new_tokens):
    plain = generation.generate_without_cache(model, prompt_ids, new_tokens)
    spared = generation.generate_without_cache(model, prompt_ids, new_tokens, logits_to_keep=1)
    cached = generation.generate_with_cache(model, prompt_ids, new_tokens)
    assert plain.shape == (new_tokens,)
    assert plain.tolist() == spared.tolist() == cached.tolist()


def test_the_text_is_varied_enough_for_agreement_to_mean_something(model, prompt_ids):
    tokens = generation.generate_with_cache(model, prompt_ids, 20).tolist()
    assert len(set(tokens)) > 10


def test_without_a_cache_the_whole_sequence_is_fed_again(model, prompt_ids, fed):
    generation.generate_without_cache(model, prompt_ids, 4)
    assert fed == [5, 6, 7, 8]


def test_with_a_cache_the_prompt_is_fed_once(model, prompt_ids, fed):
    generation.generate_with_cache(model, prompt_ids, 4)
    assert fed == [5, 1, 1, 1]


def test_end_of_text_does_not_stop_generation(model, prompt_ids, monkeypatch):
    first = int(generation.generate_with_cache(model, prompt_ids, 1)[0])
    monkeypatch.setattr(model.config, "eos_token_id", first)
    monkeypatch.setattr(model.generation_config, "eos_token_id", first)
    assert len(generation.generate_with_cache(model, prompt_ids, 6)) == 6
    assert len(generation.generate_without_cache(model, prompt_ids, 6)) == 6


def test_margins_are_those_of_the_logits(model, prompt_ids):
    result = generation.generate_with_margins(model, prompt_ids, 6)
    assert result.tokens == generation.generate_with_cache(model, prompt_ids, 6).tolist()
    ids = torch.cat([prompt_ids, torch.tensor([result.tokens])], dim=1)
    logits = kv_cache.forward(model, ids)[0, PROMPT_TOKENS - 1 : -1]  # [6, V]
    best = logits.sort(dim=-1, descending=True).values
    torch.testing.assert_close(torch.tensor(result.margins), best[:, 0] - best[:, 1], rtol=1e-3, atol=1e-5)
    assert min(result.margins) >= 0


def test_prefill_and_step_give_the_next_logits_and_grow_the_cache(model, prompt_ids):
    cache = kv_cache.new_cache(model.config)
    logits = generation.prefill(model, prompt_ids, cache)
    assert logits.shape == (1, 128)
    assert kv_cache.cache_length(cache) == PROMPT_TOKENS
    step = generation.decode_step(model, prompt_ids[:, :1], cache)
    assert kv_cache.cache_length(cache) == PROMPT_TOKENS + 1
    whole = kv_cache.forward(model, torch.cat([prompt_ids, prompt_ids[:, :1]], dim=1))
    torch.testing.assert_close(torch.stack([logits, step], dim=1), whole[:, -2:])
    assert not step.requires_grad
