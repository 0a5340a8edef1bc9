"""The analytic counts against what watches or owns the real thing: torch's FLOP counter, the parameters.

The counter sees the explicit attention path, which computes all n x n scores and multiplies all of them
with the values; the causal mask only overwrites half of them. So the full square is what must agree.
"""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

from cheap_inference import cost, probes
from cheap_inference.cost import Shape
from cheap_inference.kv_cache import forward, new_cache
from cheap_inference.models.load import chapter_config, random_model

WINDOW = 8
SIZES = {
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "hidden_size": 96,
    "intermediate_size": 160,
    "vocab_size": 250,
    "pad_token_id": None,
}
CONFIGS = {
    "multi-head": LlamaConfig(**SIZES),
    "grouped": LlamaConfig(**SIZES, num_key_value_heads=2),
    "one-kv-head": LlamaConfig(**SIZES, num_key_value_heads=1),
    "biases": LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True),
    "untied": LlamaConfig(**SIZES, num_key_value_heads=2, tie_word_embeddings=False),
    "tied": LlamaConfig(**SIZES, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen2": Qwen2Config(**SIZES, num_key_value_heads=2),
    "qwen3-wide-heads": Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=40),
    "gemma": GemmaConfig(**SIZES, num_key_value_heads=1, head_dim=32),
    "mistral-window": MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=WINDOW),
    "gemma2-alternating": Gemma2Config(**SIZES, num_key_value_heads=2, head_dim=32, sliding_window=WINDOW),
    "gemma3": Gemma3TextConfig(**SIZES, num_key_value_heads=2, head_dim=32, sliding_window=WINDOW),
}


@pytest.fixture(params=CONFIGS, scope="module")
def model(request):
    # Gemma 2 has no fused path, and the count is made on the explicit one anyway.
    return AutoModelForCausalLM.from_config(CONFIGS[request.param], attn_implementation="eager").eval()


def random_ids(length):
    return torch.randint(0, 250, (1, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("logits_to_keep", "head"), [(0, "all"), (1, "last")])
@pytest.mark.parametrize("tokens", [1, 5, 3 * WINDOW])
def test_a_pass_without_a_cache(model, tokens, logits_to_keep, head):
    expected = cost.pass_macs(Shape.from_config(model.config), queries=tokens, keys=tokens, head=head)
    assert probes.counted_macs(model, random_ids(tokens), logits_to_keep=logits_to_keep) == expected


@pytest.mark.parametrize("prompt_tokens", [4, WINDOW - 1, WINDOW, 2 * WINDOW])
def test_prefill_then_a_step_then_a_chunk(model, prompt_tokens):
    shape, cache = Shape.from_config(model.config), new_cache(model.config)
    keys = 0
    for queries in (prompt_tokens, 1, 3, 1):
        keys += queries
        counted = probes.counted_macs(model, random_ids(queries), cache)
        assert counted == cost.pass_macs(shape, queries=queries, keys=keys)


def test_parameters(model):
    assert Shape.from_config(model.config).parameters == model.num_parameters()


def test_fused_attention_is_invisible_to_the_counter_on_a_cpu():
    model = random_model(CONFIGS["grouped"], dtype=torch.float32, seed=0)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        forward(model, random_ids(20))
    shape = Shape.from_config(model.config)
    missing = probes.counted_macs(model, random_ids(20)) - counter.get_total_flops() // 2
    rotary = 20 * shape.head_dim // 2  # an outer product in some versions of transformers
    assert missing == pytest.approx(cost.attention_macs(shape, queries=20, keys=20), abs=rotary)


def test_the_chapters_model_at_its_true_shape():
    with torch.device("meta"):
        model = random_model(chapter_config(), dtype=torch.float32, seed=0)
    shape = Shape.from_config(model.config)
    assert shape.parameters == model.num_parameters() == 494_032_768
    ids = torch.zeros(1, 40, dtype=torch.long, device="meta")
    assert probes.counted_macs(model, ids, new_cache(model.config)) == cost.pass_macs(
        shape, queries=40, keys=40
    )
