"""The section peak-memory: a peak is split by what is live in it, and the sentences follow the record."""

import copy
import dataclasses
from types import SimpleNamespace

import pytest
import torch

from cheap_inference import memory, records
from cheap_inference.experiments import peak_memory as experiment
from cheap_inference.kv_cache import bytes_per_token
from cheap_inference.models.load import random_model, zero_model
from cheap_inference.render.words import Words
from cheap_inference.views import peak_memory as view

VOCABULARY, WIDTH = 128, 4  # fp32


@pytest.fixture(scope="module")
def row(tiny_llama):
    return experiment.peak_row(tiny_llama, torch.arange(48)[None] % VOCABULARY, 32)


def split(peak, logits=0):
    return experiment.Split(peak, logits, 0, 0, peak - logits, None)


def shown(view_function, **parts):
    found = {name: records.decode(records.encode(part)) for name, part in parts.items()}
    return view_function(SimpleNamespace(**found), Words("en")).data["text/plain"].replace("\u00a0", " ")


def test_bytes_do_not_depend_on_the_values(row, tiny_llama):
    zero = zero_model(tiny_llama.config, dtype=torch.float32)
    assert experiment.peak_row(zero, torch.arange(48)[None] % VOCABULARY, 32) == row


def test_parts_add_up_to_the_peak(row):
    for name in ("all_logits", "last_logits", "with_cache", "prefill_all_logits"):
        found = getattr(row, name)
        parts = found.logits_bytes + found.attention_bytes + found.cache_bytes + found.rest_bytes
        assert parts == found.peak_bytes > 0


def test_logits_of_a_wide_vocabulary_are_found_in_the_peak(tiny_llama):
    config = copy.deepcopy(tiny_llama.config)
    config.vocab_size = 4096
    model = random_model(config, dtype=torch.float32, seed=0)
    row = experiment.peak_row(model, torch.arange(48)[None], 32)
    assert row.all_logits.logits_bytes == 47 * 4096 * WIDTH
    assert row.all_logits.logits_bytes > row.all_logits.peak_bytes / 2
    assert row.last_logits.peak_bytes < row.all_logits.peak_bytes


def test_the_cached_step_holds_its_whole_cache(row, tiny_llama):
    whole = 47 * bytes_per_token(tiny_llama.config, bytes_per_element=WIDTH)
    assert row.with_cache.cache_bytes >= whole - whole // 47


@pytest.mark.parametrize(
    ("bytes_", "operator", "kind"),
    [
        (100, "aten::linear", "logits"),
        (7, "aten::scaled_dot_product_attention", "attention"),
        (7, "cache", "cache"),
        (7, "aten::cat", "cache"),
        (7, "aten::silu", "rest"),
        (7, "", "rest"),
    ],
)
def test_a_block_is_told_by_size_or_operator(bytes_, operator, kind):
    assert experiment.kind_of(memory.Allocation(bytes_, operator, True), 100) == kind


def test_both_loops_agree_and_a_wrong_model_would_not(tiny_llama, monkeypatch):
    prompt = torch.arange(9)[None]
    assert experiment.loops_agree(tiny_llama, prompt, 12)
    real = experiment.generate_with_margins

    def wrong(*arguments):
        written = real(*arguments)
        return dataclasses.replace(written, tokens=[(token + 1) % VOCABULARY for token in written.tokens])

    monkeypatch.setattr(experiment, "generate_with_margins", wrong)
    assert not experiment.loops_agree(tiny_llama, prompt, 12)


@pytest.mark.parametrize(("identical", "says"), [(True, "The first 64 tokens"), (False, "do not write")])
def test_the_page_says_how_many_tokens_both_loops_wrote(identical, says):
    peaks = SimpleNamespace(identical=identical, headline=256, compared_tokens=64)
    text = view.identity(SimpleNamespace(peaks=peaks), Words("en")).data["text/plain"]
    assert says in text.replace("\u00a0", " ")


def make_row(every, last, cached, first):
    return experiment.Row(
        new_tokens=256,
        all_logits=split(every),
        last_logits=split(last),
        with_cache=split(cached),
        prefill_all_logits=split(first),
        ratio_all=every / cached,
        ratio_last=last / cached,
        ratio_plain=every / max(cached, first),
    )


@pytest.mark.parametrize(("last", "says"), [(50, "less than the cached loop"), (200, "2.0 × what")])
def test_the_answer_says_which_loop_needs_less_once_unread_logits_are_gone(last, says):
    peaks = SimpleNamespace(
        headline=256, rows=[records.decode(records.encode(make_row(1000, last, 100, 10)))]
    )
    text = view.answer(SimpleNamespace(peaks=peaks), Words("en")).data["text/plain"].replace("\u00a0", " ")
    assert "10.0 × as much" in text
    assert says in text


@pytest.mark.parametrize(
    ("row", "nearest"),
    [
        (make_row(830, 200, 100, 10), "lies nearest to 8.3 ×"),
        (make_row(2300, 300, 100, 300), "lies nearest to 7.7 ×"),
        (make_row(9000, 800, 100, 300), "lies nearest to 8.0 ×"),
    ],
)
def test_the_nearest_way_of_counting_is_named(row, nearest):
    assert nearest in shown(view.chapter_ratio, chapter=row)
