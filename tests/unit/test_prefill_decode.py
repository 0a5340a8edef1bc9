"""The section prefill-decode: clocks split, budgets divided, and what its views say of a record."""

import re
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig

from cheap_inference import probes, records
from cheap_inference.experiments import prefill_decode as experiment
from cheap_inference.experiments import prefill_decode_binding as binding
from cheap_inference.kv_cache import cache_length, forward
from cheap_inference.models.load import LoadedModel, random_model
from cheap_inference.quantity import Quantity
from cheap_inference.render.words import Words
from cheap_inference.views import prefill_decode as view
from cheap_inference.views import prefill_decode_binding as binding_view

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "prefill-decode.md"
WORDS = Words("en")
SIZES = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_size": 64,
    "intermediate_size": 96,
    "vocab_size": 128,
    "pad_token_id": None,
}


@pytest.fixture(scope="module")
def lm():
    config = LlamaConfig(**SIZES, max_position_embeddings=4096)
    model = random_model(config, dtype=torch.float32, seed=0)
    return LoadedModel(
        model, lambda text: {"input_ids": list(range(100))}, torch.device("cpu"), torch.float32, None
    )


def replayed(**parts):
    """Parts as a notebook's views get them."""
    return SimpleNamespace(**{name: records.decode(records.encode(part)) for name, part in parts.items()})


def text(display):
    return display.data["text/markdown"].replace("\u00a0", " ")


def measured(value, low=None, high=None, unit="ratio"):
    return Quantity(value, unit, value if low is None else low, value if high is None else high, 5)


# --- measuring ---


def test_the_clock_of_a_request_is_split_after_the_first_token():
    served = [[0.2, 0.3, 0.4], [0.4, 0.6, 0.8], [0.2, 0.3, 0.4]]
    found = experiment.split_clock(served, prompt_tokens=4)
    assert found.steps == 2
    assert found.first_token.value == pytest.approx(200)
    assert found.prompt_token.value == pytest.approx(50)
    assert found.decoded_token.value == pytest.approx(100)
    assert found.tokens_per_second.value == pytest.approx(10)
    assert found.ratio.value == pytest.approx(2)
    assert found.stamps == pytest.approx((200, 300, 400))
    assert found.ratio.n == 3


def test_a_request_is_served_by_the_loop_that_is_given(lm):
    calls = count()

    def serve(model, prompt, new_tokens, clock):
        assert (model, prompt.shape) == (lm.model, (1, 7))
        next(calls)
        assert new_tokens in (2, 5)  # two to warm up
        start = clock()
        return [clock() - start for _ in range(new_tokens)]

    found = experiment.time_request(lm, serve, prompt_tokens=7, new_tokens=5)
    assert next(calls) == experiment.REQUESTS + 1
    assert (found.prompt_tokens, found.steps, len(found.stamps)) == (7, 4, 5)
    assert all(earlier <= later for earlier, later in pairwise(found.stamps))


def test_every_prompt_length_is_timed(lm, monkeypatch):
    monkeypatch.setattr(experiment, "PROMPTS", (4, 8))
    rows = experiment.time_prefill(lm)
    assert [row.tokens for row in rows] == [4, 8]
    assert all(row.whole.value == pytest.approx(row.tokens * row.per_token.value) for row in rows)


def test_a_step_starts_from_a_cache_of_exactly_its_length(lm, monkeypatch):
    monkeypatch.setattr(experiment, "contexts_of", lambda config: (16, 1024))
    seen = []

    def step(model, token, cache):
        seen.append(cache_length(cache))
        return forward(model, token, cache)

    monkeypatch.setattr(experiment, "decode_step", step)
    found = experiment.time_decode(lm)
    assert sorted(seen) == sorted([16, 1024] * (experiment.STEP_REPEATS + 1))
    assert [row.context for row in found.rows] == [16, 1024]
    per_token = 2 * 2 * 2 * 16 * 4
    assert [row.cache_bytes for row in found.rows] == [16 * per_token, 1024 * per_token]
    assert found.share == 1024 * per_token / found.weight_bytes
    assert found.rows[1].predicted == pytest.approx(
        (found.weight_bytes + 1024 * per_token) / (found.weight_bytes + 16 * per_token)
    )
    assert found.claimed_ratio == found.rows[1].ratio


@pytest.mark.parametrize(("longest", "last"), [(2048, 2048), (4096, 4096), (32768, 8192), (None, 2048)])
def test_long_contexts_are_for_models_made_for_them(longest, last):
    assert experiment.contexts_of(SimpleNamespace(max_position_embeddings=longest))[-1] == last


def test_share_of_the_chapters_model():
    assert experiment.chapter_share() == pytest.approx(12_288 * 1024 / (494_032_768 * 2))


def test_a_second_turn_gives_the_same_token_both_ways(lm, monkeypatch):
    monkeypatch.setattr(experiment, "HISTORIES", (32, 64))
    found = experiment.time_second_turn(lm)
    assert [row.history for row in found.rows] == [32, 64]
    assert all(row.same_token for row in found.rows)
    assert max(row.logit_difference for row in found.rows) < 1e-4
    assert [row.cache_bytes for row in found.rows] == [32 * 512, 64 * 512]
    assert all(row.recomputed.n == experiment.TURN_REPEATS for row in found.rows)


SECONDS = {
    "weight_bytes": 100,
    "macs": 40,
    "bandwidth": 10_000,
    "throughput": 10_000,
}  # floor 10 ms, compute 4


@pytest.mark.parametrize(
    ("samples", "products", "dispatch", "bound"),
    [
        ([0.020], 0.012, 0.003, ["memory"]),
        ([0.050], 0.035, 0.003, ["kernel"]),
        ([0.050], 0.012, 0.030, ["overhead"]),
        ([0.048, 0.050, 0.056], 0.0215, 0.003, ["kernel", "memory"]),
    ],
)
def test_the_largest_share_names_the_bound(samples, products, dispatch, bound):
    found = binding.budget(samples, positions=1, products=products, dispatch=dispatch, **SECONDS)
    assert list(found.bound) == bound
    assert (found.floor, found.compute) == pytest.approx((10, 4))
    assert found.kernel == pytest.approx(1000 * products - 10)
    total = found.floor + found.kernel + found.overhead + found.rest
    assert total == pytest.approx(found.measured.value)
    assert found.macs_per_byte == 0.4


def test_products_that_outlast_the_reads_make_a_pass_compute_bound():
    more = SECONDS | {"macs": 400}  # 40 ms
    found = binding.budget([0.060], positions=40, products=0.045, dispatch=0.003, **more)
    assert found.bound == ("compute",)
    assert found.kernel == pytest.approx(5)
    assert found.rest == pytest.approx(60 - 45 - 3)


def test_both_phases_get_a_budget(lm, monkeypatch):
    monkeypatch.setattr(probes, "_SECONDS", 0.01)
    found = binding.find_bounds(lm, prompt_tokens=8)
    assert (found.prefill.positions, found.decode.positions) == (8, 1)
    assert found.prefill.macs_per_byte > 2 * found.decode.macs_per_byte
    assert found.above_floor.value == pytest.approx(found.decode.measured.value / found.decode.floor)
    assert found.above_floor.unit == "ratio"
    assert (found.product_rows, found.product_columns) == (64, 96)


# --- telling ---


def phases(ratio):
    stamps = tuple(100.0 + 50 * step for step in range(5))
    ms, rate = measured(10, unit="ms"), measured(20, unit="tokens/s")
    return experiment.Phases(40, 4, ms, ms, ms, ms, rate, rate, ratio, stamps)


def budget(bound=("kernel",), rest=2.0, compute=2.0):
    return binding.Budget(1, measured(40.0, 38, 42, "ms"), 10.0, compute, 20.0, 8.0, rest, 0.25, bound)


def bounds(decode):
    rate = measured(2**30, unit="bytes/s")
    prefill = binding.Budget(40, measured(90.0, unit="ms"), 10.0, 50.0, 20.0, 8.0, 12.0, 10.0, ("compute",))
    return binding.Bounds(rate, rate, rate, 576, 1536, prefill, decode, measured(4.0))


def decode(*ratios, predicted=1.1):
    ms = measured(2.0, unit="ms")
    rows = [
        experiment.DecodeRow(n, measured(40 * ratio.value, unit="ms"), ratio, guess, n * 512, n / 1e4, ms, ms)
        for n, ratio, guess in zip(
            (16, 1024, 2048), (measured(1.0), *ratios), (1.0, predicted, predicted), strict=True
        )
    ]
    return experiment.Decode(10**8, tuple(rows), ratios[0], 1024, 0.088, 0.0127)


def turn(ratio, same=True, moved=1e-5):
    ms = measured(9.0, unit="ms")
    row = experiment.TurnRow(2048, ms, ms, ratio, 2048 * 512, same, moved)
    return experiment.Turn(32, (row,))


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (measured(6.5, 6, 7), "took **6.50 ×** as long"),
        (measured(0.8, 0.7, 0.9), "**less** time"),
        (measured(1.1, 0.9, 1.3), "could **not** be told apart"),
    ],
)
def test_the_answer_follows_the_ratio(ratio, said):
    assert said in text(view.answer(replayed(phases=phases(ratio)), WORDS))


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (measured(1.3, 1.2, 1.4), "**more** than the 1.10 ×"),
        (measured(1.0, 0.95, 1.05), "**less** than the 1.10 ×"),
        (measured(1.1, 1.0, 1.2), "**agrees** with the 1.10 ×"),
    ],
)
def test_the_slope_is_compared_with_its_prediction(ratio, said):
    assert text(view.slope(replayed(decode=decode(ratio, ratio)), WORDS)).count(said) == 2


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (measured(1.02, 0.98, 1.05), "lost in the noise"),
        (measured(1.3, 1.2, 1.4), "more than its bytes"),
        (measured(1.03, 1.02, 1.04), "less than its bytes"),
        (measured(1.1, 1.05, 1.2), "what its bytes say"),
    ],
)
def test_the_figure_of_contexts_is_titled_by_what_was_found(ratio, said):
    assert said in view._decode_title(decode(ratio, ratio).rows[-1], WORDS)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (budget(), ["**kernel-bound**", "unexplained, 5%"]),
        (budget(("memory",)), ["**memory-bound**"]),
        (budget(("overhead", "compute")), ["**undecided between overhead-bound and compute-bound**"]),
        (budget(rest=-3.0), ["3.00 ms **more** than the step took"]),
    ],
)
def test_the_verdict_names_what_binds(step, said):
    shown = text(binding_view.verdict(replayed(bounds=bounds(step)), WORDS))
    assert all(words in shown for words in said)


def test_the_shorter_of_reading_and_multiplying_is_left_out_of_the_stack():
    shown = text(binding_view.verdict(replayed(bounds=bounds(budget())), WORDS))
    assert "full bandwidth" in shown
    assert "full throughput" not in shown
    shown = text(binding_view.verdict(replayed(bounds=bounds(budget(compute=15.0))), WORDS))
    assert "full bandwidth" not in shown


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (turn(measured(12.0, 11, 13)), ["**12.0 × sooner**", "same first token every time"]),
        (turn(measured(1.0, 0.9, 1.1)), ["**no** measurable gain"]),
        (turn(measured(12.0, 11, 13), same=False), ["did **not** give the same first token"]),
        (turn(measured(12.0, 11, 13), moved=0.0), ["same logits every time, to the last bit"]),
    ],
)
def test_the_second_turn_says_what_it_saved(record, said):
    shown = text(view.turn(replayed(turn=record), WORDS))
    assert all(words in shown for words in said)


def prompt_rows(first, last):
    return [
        experiment.PrefillRow(n, measured(n * each.value, unit="ms"), each)
        for n, each in ((16, first), (1024, last))
    ]


def test_the_prompts_figure_claims_a_fall_only_where_there_is_one():
    rows = prompt_rows(measured(5.0, 4, 6), measured(2.0, 1.9, 2.1))
    assert view._prefill_title(rows, WORDS) == "In a longer prompt each token costs less"
    rows = prompt_rows(measured(5.0, 4, 6), measured(4.5, 3, 5))
    assert view._prefill_title(rows, WORDS) == "A longer prompt makes its tokens no cheaper"


def test_tables_have_their_rows():
    ratio = measured(1.1, 1.0, 1.2)
    record = replayed(
        phases=phases(measured(6.5, 6, 7)),
        bounds=bounds(budget()),
        decode=decode(ratio, ratio),
        turn=turn(measured(12.0)),
    )
    rows = {
        view.phases_table: 2,
        binding_view.budget_table: 6,
        binding_view.sides_table: 4,
        view.decode_table: 3,
        view.turn_table: 1,
    }
    for draw, expected in rows.items():
        shown = draw(record, WORDS)
        assert len(shown.metadata["csv"].splitlines()) == expected + 1, draw
        assert 'class="marked"' in shown.data["text/html"], draw
    html = binding_view.sides_table(record, WORDS).data["text/html"]
    assert "[40, 576] × [576, 1536]" in html
    assert "kernel-bound" in html


@pytest.mark.parametrize("rest", [2.0, -3.0])
def test_figures_are_drawn_in_either_case(rest):
    low, high = measured(1.05, 1.0, 1.1), measured(1.4, 1.3, 1.5)
    record = replayed(
        phases=phases(measured(6.5, 6, 7)),
        bounds=bounds(budget(rest=rest)),
        decode=decode(low if rest > 0 else high, low if rest > 0 else high),
        prefill=prompt_rows(measured(5.0, 4, 6), measured(2.0, 1.9, 2.1)),
    )
    for draw in (view.timeline, binding_view.step_figure, view.prefill_figure, view.decode_figure):
        assert draw(record, Words("hi")).data["image/png"], draw


def test_the_loop_of_the_notebook_prefills_once_and_then_feeds_single_tokens(lm):
    page = NOTEBOOK.read_text(encoding="utf-8")
    (cell,) = [
        code for code in re.findall(r"```{code-cell}\n(.*?)```", page, re.DOTALL) if "def serve" in code
    ]
    loop, fed = {}, []
    exec(cell, loop)

    def watched(model, ids, cache, **options):
        fed.append((tuple(ids.shape), cache_length(cache)))
        return forward(model, ids, cache, **options)

    loop["forward"] = watched
    ticks = count()
    stamps = loop["serve"](lm.model, torch.zeros(1, 7, dtype=torch.long), 4, lambda: next(ticks))
    assert stamps == [1, 2, 3, 4]
    assert fed == [((1, 7), 0), ((1, 1), 7), ((1, 1), 8), ((1, 1), 9)]
