"""The residual stream and its outliers, by hand."""

import pytest
import torch
from transformers import LlamaConfig

from cheap_inference import activations
from cheap_inference.models.load import random_model


@pytest.fixture(scope="module")
def model():
    config = LlamaConfig(
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=64,
        intermediate_size=96,
        vocab_size=128,
    )
    return random_model(config, dtype=torch.float32, seed=0)


def test_the_stream_starts_at_the_embedding_and_precedes_the_final_norm(model):
    ids = torch.arange(7)[None]
    stream = activations.residual_stream(model, ids)
    assert stream.shape == (4, 7, 64)
    library = model.model(ids, output_hidden_states=True)
    assert torch.equal(stream[0], model.get_input_embeddings()(ids)[0])
    assert torch.equal(stream[:3], torch.cat(library.hidden_states[:3]))
    assert torch.equal(model.model.norm(stream[3]), library.last_hidden_state[0])


def test_the_outlier_by_hand():
    state = torch.tensor([[1.0, -90.0, 2.0], [3.0, 4.0, -1.0], [-5.0, 1.0, 0.5]])
    found = activations.outlier(state)
    assert (found.magnitude, found.dimension, found.position) == (90, 1, 0)
    assert found.median_dimension == 5  # largest magnitudes 5, 90, 2
    assert found.elsewhere == 5


def test_octaves_have_stated_edges():
    found = activations.octaves(torch.tensor([0.0, 0.99, 1.0, 1.9, 2.0, 4.0, 9.0]))
    assert found == [(0, 2), (1, 2), (2, 1), (4, 1), (8, 1)]
    assert activations.octaves(torch.tensor([0.1])) == [(0, 1), (1, 0)]


def test_the_chapters_histogram_keeps_its_bins():
    counts = [254, 283, 226, 93, 18, 9, 7, 5, 0, 0, 0, 1]
    lower = [0.5, *(1.5 * 2**power for power in range(11))]
    maxima = torch.tensor([value for value, count in zip(lower, counts, strict=True) for _ in range(count)])
    assert [count for _, count in activations.octaves(maxima)] == counts
    assert sum(counts) == 896
    assert sum(counts[:4]) == 856


def test_int8_levels_by_hand():
    # Largest 127, scale 1: 0.4 and 0.2 become 0, 1.2 becomes 1.
    state = torch.tensor([[127.0, 0.4, 1.2, 0.2], [3.0, -0.4, -1.2, 0.2], [3.0, -0.4, 0.0, 0.1]])
    found = activations.int8_levels(state)
    assert found.scale == 1
    assert found.levels == 5  # 127, 3, 0, 1, -1
    assert found.ordinary == (1, 3, 2)


def test_leaving_out_the_largest_dimensions_keeps_the_order_of_the_rest():
    state = torch.tensor([[9.0, 1.0, -8.0, 2.0]])
    assert activations.without_largest_dimensions(state, 2).tolist() == [[1, 2]]
