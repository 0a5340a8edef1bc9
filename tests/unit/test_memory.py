"""The allocator's account, checked on allocations whose peak is known by hand."""

import subprocess
import sys

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaConfig

from cheap_inference import generation, kv_cache, memory
from cheap_inference.models.load import random_model

CPU = torch.device("cpu")
N, M, K = 1_000_000, 600_000, 300_000  # bytes


def block(size):
    return torch.empty(size, dtype=torch.uint8)


def release_then_allocate():
    a, b = block(N), block(M)
    del a
    c = block(K)
    return b, c


def test_peak_is_what_was_live_together():
    assert memory.peak_allocation(release_then_allocate, device=CPU) == memory.Peak(N + M, None)


def test_blocks_live_at_the_peak_are_marked():
    blocks = memory.allocations(release_then_allocate, device=CPU)
    assert [(b.bytes, b.live_at_peak) for b in blocks] == [(N, True), (M, True), (K, False)]
    assert {b.operator for b in blocks} == {"aten::empty"}


def test_a_later_peak_replaces_an_earlier_one():
    def function():
        a = block(N)
        del a
        b, c = block(M), block(M)
        return b, c

    blocks = memory.allocations(function, device=CPU)
    assert [b.live_at_peak for b in blocks] == [False, True, True]
    assert memory.peak_allocation(function, device=CPU).allocated_bytes == 2 * M


def test_memory_from_before_the_call_is_not_counted_nor_credited():
    held = [block(N)]

    def function():
        held.clear()
        return block(K)

    assert memory.peak_allocation(function, device=CPU).allocated_bytes == K


def test_memory_from_an_earlier_profile_is_not_credited_either():
    held = []
    memory.allocations(lambda: held.append(block(N)), device=CPU)

    def function():
        held.clear()
        return block(K)

    assert memory.peak_allocation(function, device=CPU).allocated_bytes == K


def test_growth_counts_the_result_and_not_what_made_it():
    def function():
        block(N)
        return block(M)

    assert memory.growth(function, device=CPU) == M


def test_small_blocks_can_be_left_out():
    blocks = memory.allocations(release_then_allocate, device=CPU, at_least=M)
    assert [b.bytes for b in blocks] == [N, M]


def test_a_label_names_the_blocks_inside_it():
    def function():
        with torch.profiler.record_function("scores"):
            return block(N)

    assert memory.allocations(function, device=CPU) == [memory.Allocation(N, "scores", True)]


def test_fused_attention_never_allocates_the_score_matrix():
    n, d = 2048, 32
    query = torch.randn(1, 1, n, d)
    scores = 4 * n * n

    def explicit():
        return (query @ query.transpose(-1, -2)).softmax(dim=-1) @ query

    assert memory.peak_allocation(explicit, device=CPU).allocated_bytes == 2 * scores  # and their softmax
    fused = memory.allocations(lambda: scaled_dot_product_attention(query, query, query), device=CPU)
    assert max(b.bytes for b in fused) < scores / 4


@pytest.mark.parametrize("cached", [True, False])
def test_the_last_step_alone_has_the_peak_of_the_whole_loop(cached):
    config = LlamaConfig(
        num_hidden_layers=3, num_attention_heads=4, hidden_size=64, intermediate_size=96, vocab_size=512
    )
    model = random_model(config, dtype=torch.float32, seed=0)
    prompt, new_tokens = torch.arange(4)[None], 60
    loop = generation.generate_with_cache if cached else generation.generate_without_cache
    tokens = loop(model, prompt, new_tokens)
    ids = torch.cat([prompt, tokens[None, :-1]], dim=1)  # what the last pass has seen
    cache = kv_cache.new_cache(config)
    generation.prefill(model, ids[:, :-1], cache)

    def last_step():
        if cached:
            generation.decode_step(model, ids[:, -1:], kv_cache.copy_cache(cache))
        else:
            generation.generate_without_cache(model, ids, 1)

    whole = memory.peak_allocation(lambda: loop(model, prompt, new_tokens), device=CPU).allocated_bytes
    assert memory.peak_allocation(last_step, device=CPU).allocated_bytes == pytest.approx(whole, rel=0.005)


def test_on_cuda_the_peak_is_the_allocators_less_the_baseline(monkeypatch):
    calls = []
    figures = {"memory_allocated": 100, "memory_reserved": 200}
    figures |= {"max_memory_allocated": 350, "max_memory_reserved": 600}
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats", *figures):
        monkeypatch.setattr(torch.cuda, name, lambda *_, name=name: calls.append(name) or figures.get(name))
    peak = memory.peak_allocation(lambda: calls.append("run"), device=torch.device("cuda"))
    assert peak == memory.Peak(250, 400)
    run = calls.index("run")
    assert {"memory_allocated", "reset_peak_memory_stats"} <= set(calls[:run])
    assert calls[run + 1] == "synchronize"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_on_cuda_a_known_peak():
    device = torch.device("cuda")
    mebibyte = 2**20

    def function():
        a, b = (torch.empty(4 * mebibyte, dtype=torch.uint8, device=device) for _ in range(2))
        del a
        return b, torch.empty(2 * mebibyte, dtype=torch.uint8, device=device)

    peak = memory.peak_allocation(function, device=device)
    assert peak.allocated_bytes == 8 * mebibyte
    assert peak.reserved_bytes >= peak.allocated_bytes
    assert memory.growth(function, device=device) == 6 * mebibyte


def test_the_profiler_prints_nothing():
    code = (
        "import torch; from cheap_inference import memory;"
        "memory.peak_allocation(lambda: torch.empty(1000), device=torch.device('cpu'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
