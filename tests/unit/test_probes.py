"""The probes' arithmetic on a tiny model: what they run, what they divide by, what they leave as it was."""

import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig, Qwen2Config

from cheap_inference import probes
from cheap_inference.cost import Shape
from cheap_inference.models.load import random_model

CPU = torch.device("cpu")
SIZES = {
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "hidden_size": 96,
    "intermediate_size": 128,
    "vocab_size": 200,
    "pad_token_id": None,
}


@pytest.fixture
def rates(monkeypatch):
    """What each probe says it read or computed, instead of how fast."""
    seen = []

    def record(function, *, work, unit, device):
        function()
        seen.append((work, unit))

    monkeypatch.setattr(probes, "_best_rate", record)
    return seen


def test_a_rate_is_quoted_at_its_best_sample(monkeypatch):
    durations = iter([[1.0], [0.5, 0.25, 1.0]])
    monkeypatch.setattr(probes, "interleaved", lambda *_, **__: {"probe": next(durations)})
    rate = probes._best_rate(lambda: None, work=100, unit="bytes/s", device=CPU)
    assert (rate.value, rate.low, rate.high, rate.n) == (400, 100, 400, 3)


def test_the_bandwidth_probe_reads_more_than_the_cache_can_hold(rates, monkeypatch):
    monkeypatch.setattr(probes, "_BUFFER_BYTES", 4096)
    monkeypatch.setattr(probes, "_last_level_cache_bytes", lambda: 8192)
    probes.read_bandwidth(CPU)
    assert rates == [(4 * 8192, "bytes/s")]


@pytest.mark.parametrize(("text", "expected"), [("32768K\n", 32 * 2**20), ("?", 0), (None, 0)])
def test_size_of_the_last_level_cache(tmp_path, monkeypatch, text, expected):
    path = tmp_path / "size"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(probes, "_LAST_LEVEL_CACHE", path)
    assert probes._last_level_cache_bytes() == expected


def test_a_square_product_costs_n_cubed(rates):
    probes.matmul_throughput(CPU, dtype=torch.float32)
    assert rates == [(512**3, "MACs/s")]


def test_the_matvec_probe_reads_every_matrix_once_a_tied_head_too(rates):
    model = random_model(LlamaConfig(**SIZES, tie_word_embeddings=True), dtype=torch.float32, seed=0)
    probes.matvec_bandwidth(model)
    shape = Shape.from_config(model.config)
    assert rates == [(4 * (shape.projection_weights + shape.head_weights), "bytes/s")]


@pytest.mark.parametrize("kind", [LlamaConfig, Qwen2Config, Gemma3TextConfig])
def test_the_model_without_width_keeps_depth_and_kinds_of_layers(kind):
    config = kind(**SIZES)
    before = config.to_dict()
    narrow = probes._narrow(config)
    assert narrow.num_hidden_layers == 3
    assert getattr(narrow, "layer_types", None) == getattr(config, "layer_types", None)
    assert narrow.num_attention_heads > narrow.num_key_value_heads  # grouped as the original
    wide, thin = (Shape.from_config(c).projection_weights for c in (config, narrow))
    assert thin < wide / 10
    assert config.to_dict() == before


@pytest.mark.parametrize("kind", [LlamaConfig, Gemma3TextConfig])
def test_dispatch_is_the_time_of_a_step(kind):
    step = probes.dispatch_overhead(kind(**SIZES), dtype=torch.float32, device=CPU, repeats=3)
    assert step.unit == "s"
    assert step.n == 3
    assert step.value > 0


def test_counting_puts_the_attention_back_as_it_was():
    model = random_model(LlamaConfig(**SIZES), dtype=torch.float32, seed=0)
    chosen = model.config._attn_implementation
    assert chosen != "eager"
    probes.counted_macs(model, torch.zeros(1, 4, dtype=torch.long))
    assert model.config._attn_implementation == chosen
    with pytest.raises(IndexError):
        probes.counted_macs(model, torch.full((1, 4), 10_000))
    assert model.config._attn_implementation == chosen
