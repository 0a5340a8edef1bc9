"""Our two loops against transformers' own `generate`, token for token, in fp32."""

import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

from cheap_inference.generation import generate_with_cache, generate_with_margins, generate_without_cache
from cheap_inference.models.load import load, random_model
from cheap_inference.models.registry import resolve

SIZES = {
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "intermediate_size": 96,
    "vocab_size": 256,
    "initializer_range": 0.3,  # wide enough that the greedy text does not repeat one token
    "pad_token_id": None,
    "eos_token_id": None,
    "tie_word_embeddings": False,
}
CONFIGS = {
    "llama": LlamaConfig(**SIZES),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3-wide-heads": Qwen3Config(**SIZES, head_dim=32),
    "mistral-window": MistralConfig(**SIZES, head_dim=8, sliding_window=6),
    "gemma3-alternating": Gemma3TextConfig(
        **SIZES,
        head_dim=32,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
}
PROMPT_TOKENS, NEW_TOKENS = 9, 24


def library_tokens(model, prompt_ids, new_tokens):
    output = model.generate(
        prompt_ids,
        attention_mask=torch.ones_like(prompt_ids),
        do_sample=False,
        repetition_penalty=1.0,
        max_new_tokens=new_tokens,
        eos_token_id=None,
        pad_token_id=0,
    )
    return output[0, prompt_ids.shape[1] :].tolist()


@pytest.mark.parametrize("name", CONFIGS)
def test_tiny_models_give_the_librarys_tokens(name):
    model = random_model(CONFIGS[name], dtype=torch.float32, seed=3)
    prompt_ids = torch.randint(0, 256, (1, PROMPT_TOKENS), generator=torch.Generator().manual_seed(4))
    expected = library_tokens(model, prompt_ids, NEW_TOKENS)
    assert len(set(expected)) > 5
    assert generate_with_cache(model, prompt_ids, NEW_TOKENS).tolist() == expected
    assert generate_without_cache(model, prompt_ids, NEW_TOKENS).tolist() == expected


@pytest.mark.model
def test_the_default_model_gives_the_librarys_tokens():
    lm = load(resolve("smollm2-135m", device="cpu"), device="cpu")
    prompt_ids = lm.tokenizer("The capital of France is", return_tensors="pt").input_ids
    expected = library_tokens(lm.model, prompt_ids, NEW_TOKENS)
    assert generate_with_cache(lm.model, prompt_ids, NEW_TOKENS).tolist() == expected
    assert generate_without_cache(lm.model, prompt_ids, NEW_TOKENS).tolist() == expected
    assert generate_with_margins(lm.model, prompt_ids, NEW_TOKENS).tokens == expected
