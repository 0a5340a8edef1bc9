"""A random model small enough that a test on it takes milliseconds."""

import pytest


@pytest.fixture(scope="session")
def tiny_llama():
    """Two layers, four query heads, two key-value heads, fp32, the same weights every time."""
    from transformers import LlamaConfig

    from cheap_inference.models.load import random_model

    config = LlamaConfig(
        num_hidden_layers=2,
        hidden_size=64,
        intermediate_size=96,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        vocab_size=128,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )
    import torch

    return random_model(config, dtype=torch.float32, seed=0)
