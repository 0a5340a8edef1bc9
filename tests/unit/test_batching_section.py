"""The section batching: the sweep, its knee and its answers on a tiny model, and how the sentences word them."""

import csv
import io
from types import SimpleNamespace

import pytest
import torch

from cheap_inference import records
from cheap_inference.experiments import batching as experiment
from cheap_inference.generation import decode_step
from cheap_inference.quality import greedy_continuations
from cheap_inference.quantity import Quantity
from cheap_inference.render.words import Words
from cheap_inference.views import batching as view

EN = Words("en")
CPU = torch.device("cpu")


class Tokenizer:
    """One token a word, for a vocabulary of 128."""

    def __call__(self, text):
        return {"input_ids": [sum(map(ord, word)) % 128 for word in text.split()]}


@pytest.fixture(scope="module")
def lm(tiny_llama):
    return SimpleNamespace(
        model=tiny_llama,
        tokenizer=Tokenizer(),
        config=tiny_llama.config,
        device=CPU,
        dtype=torch.float32,
        spec=None,
    )


def decode_batch(model, ids, cache):
    return decode_step(model, ids, cache).argmax(dim=-1, keepdim=True)


def largest(sizes, throughputs):
    return sizes[throughputs.index(max(throughputs))]


def sweep(lm, monkeypatch, *, fits=lambda *_: True, largest_batch=8):
    rate = Quantity(1e9, "", 1e9, 1e9, 3)
    monkeypatch.setattr(experiment.probes, "matmul_throughput", lambda *_, **__: rate)
    monkeypatch.setattr(experiment.probes, "read_bandwidth", lambda *_: rate)
    monkeypatch.setattr(experiment, "fits_in_memory", fits)
    return experiment.sweep(lm, decode_batch, largest, cached_tokens=6, largest_batch=largest_batch)


def decoded(**parts):
    return SimpleNamespace(**{name: records.decode(records.encode(part)) for name, part in parts.items()})


def plain(display):
    return display.data["text/plain"].replace("\u00a0", " ")


def test_the_sweep_measures_every_power_of_two(lm, monkeypatch):
    found = sweep(lm, monkeypatch, largest_batch=11)
    assert [row.batch_size for row in found.rows] == [1, 2, 4, 8]
    assert found.largest == 8
    assert found.rows[0].throughput_ratio.value == found.rows[0].wait_ratio.value == 1
    assert found.rows[0].gain is None
    assert (
        found.rows[2].cache_bytes == 4 * 6 * 2 * 2 * 2 * 16 * 4
    )  # rows, tokens, k and v, layers, heads, d, bytes
    assert sum(item.share for item in found.knee_shares) == pytest.approx(1)
    assert found.sixteen_throughput is None
    for row in found.rows:
        assert row.throughput.value * row.step.value == pytest.approx(1000 * row.batch_size, rel=0.5)


def test_sizes_without_room_are_shown_as_such(lm, monkeypatch):
    found = sweep(lm, monkeypatch, fits=lambda lm, size, tokens: size < 4, largest_batch=8)
    assert [row.step is None for row in found.rows] == [False, False, True, True]
    assert found.largest == 2
    html = view.sweep_table(decoded(sweep=found), EN).data["text/html"]
    assert html.count('<td class="number varies">–</td>') == 8


def test_running_out_of_memory_ends_the_list(lm):
    def greedy(model, ids, cache):
        if len(ids) == 4:
            raise torch.cuda.OutOfMemoryError
        return decode_batch(model, ids, cache)

    with torch.inference_mode():
        assert list(experiment._step_samples(lm, greedy, [1, 2, 4, 8], 6)) == [1, 2]


def test_memory_is_counted_before_it_is_asked_for(lm, monkeypatch):
    monkeypatch.setattr(experiment, "free_bytes", lambda device: 1_000_000)
    assert experiment.fits_in_memory(lm, 1, 64)
    assert not experiment.fits_in_memory(lm, 64, 64)
    monkeypatch.undo()
    assert 2**20 < experiment.free_bytes(CPU) < 2**50


def test_the_knee_is_drawn_again_with_whole_rounds():
    samples = {1: [1.0] * 9, 2: [1.9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.9]}
    shares = experiment.knee_shares(samples, largest)
    assert [share.batch_size for share in shares] == [2]
    samples = {1: [1.0] * 9, 2: [2.2, 1.0, 2.2, 1.0, 2.2, 1.0, 2.2, 1.0, 2.2]}
    shares = {share.batch_size: share.share for share in experiment.knee_shares(samples, largest)}
    assert 0.05 < shares[2] < 0.95
    assert experiment.knee_shares(samples, largest) == experiment.knee_shares(samples, largest)


def test_a_size_that_is_better_in_both_is_noticed_beyond_the_spread_only():
    slow_two = {1: [1.0] * 5, 2: [2.0] * 5, 4: [1.5] * 5}
    assert experiment.faster_and_shorter(slow_two) == (4,)
    noisy = {1: [1.0] * 5, 2: [2.0] * 5, 4: [1.5, 2.1, 1.5, 2.1, 1.9]}
    assert experiment.faster_and_shorter(noisy) == ()


@pytest.fixture
def answers(lm, monkeypatch):
    def compare(generate):
        monkeypatch.setattr(experiment, "load", lambda *_, **__: lm)
        return experiment.compare_answers(lm, generate, prompt_tokens=8, new_tokens=5)

    return compare


def test_rows_that_agree_with_the_prompt_alone(answers):
    found = answers(greedy_continuations)
    assert found.same_in_fp32
    assert [(row.batch_size, row.changed, row.first_difference) for row in found.rows[:2]] == [
        (8, 0, None),
        (32, 0, None),
    ]
    assert "In fp32 no request" in plain(view.answers(decoded(answers=found), EN))


def test_a_row_that_differs_is_placed_and_weighed(answers):
    def disturbed(model, prompts, new_tokens):
        tokens = greedy_continuations(model, prompts, new_tokens)
        if len(prompts) == 32:
            tokens[9, 3] += 1  # prompt 1, fourth token
        return tokens

    found = answers(disturbed)
    assert not found.same_in_fp32
    changed = found.rows[1]
    assert (changed.batch_size, changed.changed, changed.first_difference) == (32, 1, 3)
    assert changed.margin > 0
    assert "1 of 4 answers changed, the first after 3 equal tokens" in plain(
        view.answers(decoded(answers=found), EN)
    )


def test_an_exact_tie_is_called_one():
    assert view._margin(0.0, EN) == "the two best logits were equal"
    assert "0.250 apart" in view._margin(0.25, EN)


def record_of(sizes, *, knee=None, better=()):
    one = Quantity(1.0, "ratio", 0.9, 1.1, 9)
    rows = [
        SimpleNamespace(
            batch_size=size,
            cache_bytes=size * 1024,
            step=Quantity(10.0 * size, "ms", 9.0 * size, 11.0 * size, 9),
            throughput=one,
            throughput_ratio=Quantity(1.0 + size, "ratio", 1.0, 2.0 + size, 9),
            wait_ratio=Quantity(1.0 * size, "ratio", size, size, 9),
            matrix_share=Quantity(0.4, "", 0.3, 0.45, 9),
            read_share=Quantity(0.4, "", 0.3, 0.45, 9),
        )
        for size in sizes
    ]
    rate = Quantity(5e10, "", 4e10, 5e10, 3)
    shares = [SimpleNamespace(batch_size=2, share=0.9), SimpleNamespace(batch_size=None, share=0.099)]
    shares.append(SimpleNamespace(batch_size=1, share=0.001))
    return SimpleNamespace(
        sweep=SimpleNamespace(
            rows=rows,
            cached_tokens=64,
            largest=sizes[-1],
            knee=knee,
            knee_shares=shares,
            faster_and_shorter=list(better),
            peak=rate,
            bandwidth=rate,
        )
    )


def test_the_sentences_word_what_was_found():
    sizes = [2**power for power in range(9)]
    assert "the knee lies beyond" in plain(view.answer(record_of(sizes), EN))
    assert "After 32 requests" in plain(view.answer(record_of(sizes, knee=32), EN))
    assert "at 2 in 90%, beyond the largest batch in 10% of the draws" in plain(
        view.knee(record_of(sizes), EN)
    )
    assert "paid for with the other" in plain(view.free_setting(record_of(sizes), EN))
    assert "2 batch sizes beat" in plain(view.free_setting(record_of(sizes, better=(4, 8)), EN))
    assert "not shown here" in plain(view.bound(record_of(sizes), EN))


@pytest.mark.parametrize(
    ("low", "high", "words"), [(0.51, 0.6, "compute-bound**."), (0.4, 0.6, "noise hides")]
)
def test_the_bound_is_judged_by_its_spread(low, high, words):
    assert words in view._bound_verdict(Quantity(0.55, "", low, high, 9), EN)


def test_a_long_table_shows_eight_rows_and_keeps_all_in_its_csv():
    shown = view.sweep_table(record_of([2**power for power in range(9)], knee=32), EN)
    assert shown.data["text/html"].count("<tr") == 1 + 8
    assert shown.data["text/html"].count('class="marked"') == 1
    rows = list(csv.reader(io.StringIO(shown.metadata["csv"])))
    assert [row[0] for row in rows[1:]] == [str(2**power) for power in range(9)]


def test_figures_render():
    record = record_of([1, 2, 4, 8], knee=4)
    for name in ("trade_figure", "bound_figure"):
        assert getattr(view, name)(record, Words("hi")).data["image/png"].startswith(b"\x89PNG")
