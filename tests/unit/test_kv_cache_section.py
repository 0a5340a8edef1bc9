"""The section kv-cache: what it measures on a tiny model, and how its sentences word what was found."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch

from cheap_inference import records
from cheap_inference.experiments import kv_cache as experiment
from cheap_inference.generation import generate_with_cache, generate_without_cache
from cheap_inference.quantity import Quantity
from cheap_inference.render.words import Words
from cheap_inference.views import kv_cache as view

EN = Words("en")


class Tokenizer:
    """One token a word, for a vocabulary of 128."""

    def __call__(self, text):
        return {"input_ids": [hash_of(word) for word in text.split()]}


def hash_of(word):
    return sum(map(ord, word)) % 128


@pytest.fixture(scope="module")
def lm(tiny_llama):
    return SimpleNamespace(
        model=tiny_llama, tokenizer=Tokenizer(), device=torch.device("cpu"), config=tiny_llama.config
    )


@pytest.fixture(scope="module")
def loops(lm):
    return experiment.compare_loops(
        lm, generate_without_cache, generate_with_cache, prompt_tokens=10, new_tokens=6
    )


def shown(view_function, **parts):
    found = {name: records.decode(records.encode(part)) for name, part in parts.items()}
    return view_function(SimpleNamespace(**found), EN)


def text(display):
    return display.data["text/plain"].replace("\u00a0", " ")


def test_both_loops_agree_and_are_counted(loops):
    assert loops.identical
    assert (loops.positions_without, loops.positions_with) == (sum(range(10, 16)), 15)
    assert loops.speedup.n == loops.token_with.n == 4  # two long runs, a short one before and after each
    assert (loops.noise.n, loops.token_without.n) == (3, 2)
    assert 0 <= loops.logit_noise < 1e-3


def test_a_loop_that_is_wrong_is_found_out(lm):
    def wrong(model, prompt, new_tokens):
        tokens = generate_with_cache(model, prompt, new_tokens)
        return (tokens + torch.tensor([0, 0, 0, 1, 0, 0])) % 128

    found = experiment.compare_loops(lm, generate_without_cache, wrong, prompt_tokens=10, new_tokens=6)
    assert not found.identical


@pytest.mark.parametrize(("margin", "tie"), [(0.019, True), (0.021, False)])
def test_a_difference_counts_as_a_tie_only_inside_the_noise(margin, tie):
    assert experiment.first_difference_is_a_tie([1, 2, 3], [1, 5, 3], [9.0, margin, 0.0], 0.01) is tie


def test_products_of_one_head_are_the_chapters(lm):
    products = experiment.count_products(lm)
    assert {row.tokens: (row.with_cache, row.without_cache) for row in products.head_rows} == {
        64: (266_240, 11_448_320),
        256: (4_210_688, 720_027_648),
        1024: (67_174_400, 45_880_115_200),
        4096: (1_074_003_968, 2_933_104_836_608),
    }
    assert products.ratio_is_closed_form
    assert products.counted_by_watching == products.counted_by_formula
    assert (products.crossing_tokens_chapter, products.crossing_tokens_default) == (8320, 3072)
    assert products.positions_chapter == 3048


def test_the_answer_words_what_was_found(loops):
    fast = dataclasses.replace(loops, speedup=Quantity(4.2, "ratio", 4.0, 4.5, 3))
    assert "4.20 × faster" in text(shown(view.answer, loops=fast))
    assert "the same tokens" in text(shown(view.answer, loops=fast))
    wrong = dataclasses.replace(fast, identical=False)
    assert "did not choose the same tokens" in text(shown(view.answer, loops=wrong))


@pytest.mark.parametrize(
    ("speedup", "says"),
    [
        (Quantity(0.5, "ratio", 0.4, 0.6, 3), "0.500 × the time"),
        (Quantity(1.02, "ratio", 0.9, 1.1, 3), "no difference beyond the noise"),
    ],
)
def test_the_answer_does_not_claim_a_gain_that_is_none(loops, speedup, says):
    assert says in text(shown(view.answer, loops=dataclasses.replace(loops, speedup=speedup)))


def test_the_speed_table_has_both_loops(loops):
    table = shown(view.speed_table, loops=loops)
    assert table.metadata["csv"].splitlines()[1].startswith("without the cache,6,75,")
    assert table.metadata["csv"].splitlines()[2].startswith("with the cache,6,15,")


def test_attention_written_out_fills_the_square_and_fused_does_not():
    def attention(query, key, value):
        return torch.softmax(query @ key.T / key.shape[-1] ** 0.5, dim=-1) @ value

    found = experiment.score_memory(attention, device=torch.device("cpu"))
    assert found.explicit_bytes == 67_108_864
    assert found.share < 1
