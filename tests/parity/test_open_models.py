"""Every published shape of the table, built again by transformers without weights, has those parameters and caches."""

import pytest
import torch
import transformers

from cheap_inference.fits import cache_bytes, open_models

LLAMA, QWEN3 = transformers.LlamaConfig, transformers.Qwen3Config


def config(kind, layers, heads, kv_heads, hidden, intermediate, vocab, *, tied=False, **more):
    return kind(
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        hidden_size=hidden,
        intermediate_size=intermediate,
        vocab_size=vocab,
        tie_word_embeddings=tied,
        pad_token_id=0,
        **more,
    )


def qwen3(*dimensions, kind=QWEN3, **more):
    return config(kind, *dimensions, 151_936, head_dim=128, **more)


def gemma3(*dimensions, head_dim):
    kind = transformers.Gemma3TextConfig
    return config(kind, *dimensions, 262_208, tied=True, head_dim=head_dim, sliding_window=1024)


CONFIGS = {
    "SmolLM2-135M": lambda: config(LLAMA, 30, 9, 3, 576, 1536, 49_152, tied=True),
    "Qwen2.5-0.5B": lambda: config(transformers.Qwen2Config, 24, 14, 2, 896, 4864, 151_936, tied=True),
    "SmolLM3-3B": lambda: config(transformers.SmolLM3Config, 36, 16, 4, 2048, 11_008, 128_256, tied=True),
    "Llama-3.2-3B": lambda: config(LLAMA, 28, 24, 8, 3072, 8192, 128_256, tied=True),
    "Qwen3-4B-2507": lambda: qwen3(36, 32, 8, 2560, 9728, tied=True),
    "Llama-3.1-8B": lambda: config(LLAMA, 32, 32, 8, 4096, 14_336, 128_256),
    "Qwen3-8B": lambda: qwen3(36, 32, 8, 4096, 12_288),
    "Gemma-3-12B": lambda: gemma3(48, 16, 8, 3840, 15_360, head_dim=256),
    "OLMo-2-13B": lambda: config(transformers.Olmo2Config, 40, 40, 40, 5120, 13_824, 100_352),
    "Phi-4": lambda: config(transformers.Phi3Config, 40, 40, 10, 5120, 17_920, 100_352),
    "gpt-oss-20b": lambda: config(
        transformers.GptOssConfig, 24, 64, 8, 2880, 2880, 201_088, head_dim=64, num_local_experts=32
    ),
    "Mistral-Small-24B": lambda: config(
        transformers.MistralConfig, 40, 32, 8, 5120, 32_768, 131_072, head_dim=128, sliding_window=None
    ),
    "Qwen3-30B-A3B-2507": lambda: qwen3(
        48, 32, 4, 2048, 6144, kind=transformers.Qwen3MoeConfig, moe_intermediate_size=768, num_experts=128
    ),
    "Gemma-4-31B": lambda: config(
        transformers.Gemma4TextConfig,
        *(60, 32, 16, 5376, 21_504, 262_144),
        tied=True,
        head_dim=256,
        global_head_dim=512,
        num_global_key_value_heads=4,
        attention_k_eq_v=True,
        sliding_window=1024,
        hidden_size_per_layer_input=0,
    ),
    "Llama-3.3-70B": lambda: config(LLAMA, 80, 64, 8, 8192, 28_672, 128_256),
    "gpt-oss-120b": lambda: config(
        transformers.GptOssConfig, 36, 64, 8, 2880, 2880, 201_088, head_dim=64, num_local_experts=128
    ),
}


def build(name):
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(CONFIGS[name](), dtype=torch.bfloat16)


def test_every_model_of_the_table_is_built_here():
    assert CONFIGS.keys() == {model.name for model in open_models()}


@pytest.mark.parametrize("model", open_models(), ids=lambda model: model.name)
def test_parameters(model):
    assert sum(weight.numel() for weight in build(model.name).parameters()) == model.parameters


@pytest.mark.parametrize("name", ["Llama-3.2-3B", "Gemma-3-12B", "Gemma-4-31B", "gpt-oss-20b"])
@pytest.mark.parametrize("tokens", [100, 1500])
def test_cache_of_a_pass_over_many_tokens(name, tokens):
    """The tensors that transformers keeps (without storage, on the meta device) are the formula's bytes."""
    model = build(name)
    ids = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    output = model(
        ids, position_ids=torch.arange(tokens, device="meta")[None], use_cache=True, logits_to_keep=1
    )
    kept = [tensor for layer in output.past_key_values.layers for tensor in (layer.keys, layer.values)]
    expected = next(known for known in open_models() if known.name == name)
    assert sum(tensor.nbytes for tensor in kept) == cache_bytes(expected, tokens=tokens)
