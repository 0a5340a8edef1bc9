"""The section shared-heads: caches, products and times of a tiny model, and how the sentences word them."""

from types import SimpleNamespace

import pytest
import torch

from cheap_inference import records
from cheap_inference.experiments import shared_heads as experiment
from cheap_inference.quantity import Quantity
from cheap_inference.render.words import Words
from cheap_inference.views import shared_heads as view

EN = Words("en")


@pytest.fixture(scope="module")
def lm(tiny_llama):
    return SimpleNamespace(
        model=tiny_llama, config=tiny_llama.config, device=torch.device("cpu"), dtype=torch.float32
    )


def parts(**found):
    return SimpleNamespace(**{name: records.decode(records.encode(part)) for name, part in found.items()})


def plain(display):
    return display.data["text/plain"].replace("\u00a0", " ")


def test_real_caches_give_the_chapters_numbers(lm):
    caches = experiment.count_caches(lm)
    assert [(row.kv_heads, row.bytes_per_token) for row in caches.chapter] == [
        (14, 86_016),
        (7, 43_008),
        (2, 12_288),
        (1, 6_144),
    ]
    assert (caches.multi_head_bytes, caches.chapter_fold, caches.as_predicted) == (86_016, 7, True)
    assert [row.fold for row in caches.own] == [1, 2, 4]
    assert "7 × as much" in plain(view.answer(parts(caches=caches), EN))


def test_a_formula_that_is_wrong_is_found_out(lm, monkeypatch):
    monkeypatch.setattr(experiment.kv_cache, "bytes_per_token", lambda *_, **__: 1)
    assert not experiment.count_caches(lm).as_predicted


@pytest.mark.parametrize(
    ("heads", "kv_heads", "counts"),
    [(9, 3, (9, 3, 1)), (14, 2, (14, 7, 2, 1)), (32, 8, (32, 16, 8, 1)), (4, 4, (4, 2, 1)), (1, 1, (1,))],
)
def test_head_counts(lm, heads, kv_heads, counts):
    config = experiment.with_kv_heads(lm.config, kv_heads)
    config.num_attention_heads = heads
    assert experiment.head_counts(config) == counts


def test_products_of_the_chapters_shape():
    products = experiment.count_products(context=2048)
    assert products.scores_equal
    assert products.saved_macs == 33_030_144
    assert products.saved_share == pytest.approx(0.0845, abs=1e-4)
    assert products.rows[0].saved_macs == 0
    assert products.rows[0].score_macs == 2 * 14 * 64 * 2048 * 24


def test_the_seven_billion_class():
    seven = experiment.seven_billion()
    assert (seven.bytes_per_token, seven.weight_bytes) == (131_072, 14_000_000_000)
    assert seven.longest_cache_bytes == 16_777_216_000
    assert [row.context for row in seven.rows][-1] == 128_000
    assert all(row.multi_head == 4 * row.grouped == 32 * row.multi_query for row in seven.rows)
    assert (seven.crossing - 1) * 131_072 <= 14_000_000_000 < seven.crossing * 131_072


def attend(query, keys, values):
    return query


def test_times_come_with_sizes_and_ratios(lm):
    times = experiment.time_head_counts(lm, attend, context=32)
    assert [row.kv_heads for row in times.rows] == [4, 2, 1]
    assert [row.cache_bytes for row in times.rows] == [2 * 2 * n * 32 * 16 * 4 for n in (4, 2, 1)]
    assert times.rows[0].step_ratio == Quantity(1.0, "ratio", 1.0, 1.0, experiment.REPEATS)
    assert 1 > times.rows[1].floor_ratio > times.rows[2].floor_ratio > 0


def test_models_of_other_head_counts_share_all_other_weights(lm):
    models = experiment._random_models(lm, (4, 1))
    sizes = [
        {name: (weight.data_ptr(), weight.numel()) for name, weight in model.named_parameters()}
        for model in models.values()
    ]
    apart = {name for name in sizes[0] if sizes[0][name] != sizes[1][name]}
    assert {name.split(".")[-2] for name in apart} == {"k_proj", "v_proj"}
    assert all(sizes[0][name][1] == 4 * sizes[1][name][1] for name in apart)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.6, 0.8, "took 70% of the time"),
        (0.9, 1.1, "no difference beyond the noise"),
        (1.1, 1.3, "took longer"),
    ],
)
def test_the_verdict_follows_the_spread(low, high, words):
    ratio = Quantity((low + high) / 2, "ratio", low, high, 9)
    row = SimpleNamespace(kv_heads=2, attention_ratio=ratio, step_ratio=ratio, floor_ratio=0.8)
    times = SimpleNamespace(kv_heads=2, heads=4, rows=[row], noise=Quantity(1.0, "ratio", 0.9, 1.1, 9))
    assert plain(view.time(SimpleNamespace(times=times), EN)).count(words) == 2


def test_a_multi_head_model_is_spoken_of_by_its_fewest_heads():
    rows = [SimpleNamespace(kv_heads=n) for n in (4, 2, 1)]
    assert view._shared_row(SimpleNamespace(kv_heads=4, heads=4, rows=rows)).kv_heads == 1
    assert view._shared_row(SimpleNamespace(kv_heads=2, heads=4, rows=rows)).kv_heads == 2


def test_all_views_render_in_every_language(lm):
    record = parts(
        caches=experiment.count_caches(lm),
        products=experiment.count_products(context=64),
        times=experiment.time_head_counts(lm, attend, context=32),
        seven=experiment.seven_billion(),
    )
    for locale in ("en", "pl", "hi", "sv", "fr"):
        for name in (
            "cache_table",
            "products_table",
            "products",
            "time_table",
            "time",
            "seven_table",
            "seven",
        ):
            assert getattr(view, name)(record, Words(locale)).data["text/plain"]
    for name in ("time_figure", "seven_figure"):
        assert getattr(view, name)(record, EN).metadata["alt"]


def test_names_of_lines_that_end_together_stand_apart():
    assert view.apart([0.1, 0.7, 0.71], gap=0.2) == pytest.approx([0.1, 0.7, 0.9])
    assert view.apart([0.1, 0.71, 0.7], gap=0.2) == pytest.approx([0.1, 0.9, 0.7])
    assert view.apart([0.1, 0.4, 0.9], gap=0.2) == [0.1, 0.4, 0.9]
