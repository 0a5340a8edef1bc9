"""Random models small enough that a test on one takes milliseconds."""

import pytest
from hypothesis import settings

# On a busy machine an example may take long for no reason of its own.
settings.register_profile("book", deadline=None)
settings.load_profile("book")

SIZES = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "intermediate_size": 96,
    "vocab_size": 128,
}


@pytest.fixture(scope="session")
def make_model():
    """Function: a model of SIZES in a family of transformers, fp32, with what else a test sets."""
    import torch
    import transformers

    from cheap_inference.models.load import random_model

    def make(family="Llama", **settings):
        config = getattr(transformers, f"{family}Config")(**SIZES, **settings)
        return random_model(config, dtype=torch.float32, seed=0)

    return make


@pytest.fixture(scope="session")
def tiny_llama(make_model):
    """Two layers, four query heads, two key-value heads, fp32, the same weights every time."""
    return make_model(head_dim=16, max_position_embeddings=512, tie_word_embeddings=True)
