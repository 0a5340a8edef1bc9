"""Sections continuous-batching and paged-cache from measurement to page, on a tiny random model."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers

from cheap_inference import paged_kv_cache as blocks
from cheap_inference import records, scheduling
from cheap_inference.experiments import block_accounting, long_prompt, serving_loads
from cheap_inference.experiments import continuous_batching as continuous
from cheap_inference.experiments import paged_cache as paged
from cheap_inference.models.load import random_model
from cheap_inference.render.words import Words
from cheap_inference.settings import LOCALES
from cheap_inference.views import continuous_batching as continuous_views
from cheap_inference.views import paged_cache as paged_views

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CONFIG = transformers.LlamaConfig(
    vocab_size=300,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=4096,
    tie_word_embeddings=False,
)


@pytest.fixture(scope="module")
def lm():
    model = random_model(CONFIG, dtype=torch.float32, seed=3)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.mul_(5)
    return SimpleNamespace(
        model=model,
        config=model.config,
        device=torch.device("cpu"),
        dtype=torch.float32,
        tokenizer=lambda text: {"input_ids": [ord(letter) % 300 for letter in text]},
    )


def recorded(part):
    """As a notebook sees a part: through its JSON form."""
    return records.decode(records.encode(part))


SEEDS = serving_loads.SEEDS


@pytest.fixture(scope="module")
def few_seeds():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving_loads, "SEEDS", 20)
        yield


@pytest.fixture(scope="module")
def continuous_record(lm, few_seeds):
    record = SimpleNamespace(workload=recorded(continuous.describe_workload()))
    record.engine = recorded(continuous.run_policies(lm, scheduling.admit, slots=8))
    record.costs = recorded(continuous.cost_by_rows(lm, record.engine))
    record.loads = recorded(serving_loads.sweep_loads(record.costs))
    record.promise = recorded(serving_loads.loads_under_promise(record.costs, promised_steps=50))
    record.long_prompt = recorded(long_prompt.interrupt_with_long_prompt(lm))
    return record


@pytest.fixture(scope="module")
def paged_record(lm):
    allocator = blocks.BlockAllocator
    return SimpleNamespace(
        schemes=recorded(block_accounting.compare_schemes(lm, allocator)),
        engines=recorded(paged.run_engines(lm, allocator, block_size=16)),
        sharing=recorded(block_accounting.share_system_prompt(lm, allocator)),
        fork=recorded(paged.fork_in_mid_block(lm, allocator, block_size=16)),
        limits=recorded(block_accounting.limit_memory(allocator, block_size=16)),
        holders=recorded(block_accounting.memory_over_time(lm, allocator, block_size=16)),
    )


def source(slug):
    return (NOTEBOOKS / f"{slug}.md").read_text(encoding="utf-8")


def shown_views(slug):
    return re.findall(r"page\.show\(view\.(\w+)\)", source(slug))


def test_both_policies_give_every_request_its_own_tokens_in_the_simulators_steps(continuous_record):
    assert continuous_views.tokens_equal(continuous_record)
    assert continuous_views.steps_equal(continuous_record)
    steps = {run.policy: run.steps for run in continuous_record.engine.runs}
    assert steps == {"static": 700, "continuous": 292}


def test_enough_seeds_are_averaged():
    assert SEEDS >= 200


def test_the_loads_reach_from_almost_idle_to_all_at_once(continuous_record):
    rows = continuous_record.loads.rows
    assert [row.load for row in rows] == [*serving_loads.LOADS, None]
    assert all(row.throughput.n == continuous_record.loads.seeds for row in rows)
    assert rows[0].throughput.value < rows[-1].throughput.value
    static, continuous_row = continuous_record.promise.rows
    assert static.load.value < continuous_row.load.value


def test_every_store_gives_the_same_tokens_and_half_the_memory_finishes(paged_record):
    assert paged_views.tokens_equal(paged_record)
    assert paged_views.all_finish(paged_record)
    contiguous, ample, refuse, preempt = paged_record.engines.rows
    assert refuse.blocks == preempt.blocks == -(-ample.blocks // 2)
    for row in (ample, refuse, preempt):
        assert (
            row.cache_bytes == row.blocks * 16 * paged_record.schemes.bytes_per_token < contiguous.cache_bytes
        )
    assert preempt.preemptions > 0
    assert preempt.steps < refuse.steps
    assert [row.blocks_left_over for row in paged_record.engines.rows] == [0] * 4


def test_accounting_by_hand(paged_record):
    """A prompt of 512 in blocks of 16 is 32; 35 own tokens are 3 more, for each user."""
    sharing = paged_record.sharing
    assert (sharing.prompt_blocks, sharing.own_tokens) == (32, 35)
    for row in sharing.rows:
        assert (row.blocks_apart, row.blocks_shared) == (35 * row.users, 32 + 3 * row.users)
    schemes = {(row.scheme, row.block_size): row for row in paged_record.schemes.rows}
    assert schemes["contiguous-maximum", None].fitting == 8
    assert paged_record.schemes.bytes_per_token == 2 * 2 * 2 * 16 * 4
    waste = [schemes["paged", size].wasted for size in block_accounting.BLOCK_SIZES]
    assert waste == sorted(waste)
    fork = paged_record.fork
    # 45 tokens fill 2 blocks and 13 places of a third; each branch ends with 57 tokens in 4.
    assert (fork.blocks_before, fork.blocks_apart, fork.blocks_after) == (3, 8, 6)
    assert fork.parent_equal
    assert fork.child_equal


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize(
    ("slug", "module", "fixture"),
    [
        ("continuous-batching", continuous_views, "continuous_record"),
        ("paged-cache", paged_views, "paged_record"),
    ],
)
def test_every_view_of_the_page_renders(slug, module, fixture, locale, request):
    record = request.getfixturevalue(fixture)
    for name in shown_views(slug):
        shown = getattr(module, name)(record, Words(locale))
        assert shown.data["text/plain"].strip()
        if "table" in shown.metadata:
            assert shown.data["text/html"].count('scope="row"') <= 8, name
