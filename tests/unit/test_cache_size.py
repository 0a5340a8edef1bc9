"""The section cache-size: its counts on small shapes, and what its views say of them."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, MistralConfig

from cheap_inference import kv_cache, records
from cheap_inference.experiments import cache_size as experiment
from cheap_inference.models.load import chapter_config
from cheap_inference.render.words import Words
from cheap_inference.views import cache_size as view

WORDS = Words("en")
SIZES = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,  # hidden / heads is 16
    "hidden_size": 64,
    "intermediate_size": 96,
    "vocab_size": 128,
    "pad_token_id": None,
}


def notebook_formula():
    page = (Path(__file__).parents[2] / "notebooks" / "cache-size.md").read_text(encoding="utf-8")
    cells = re.findall(r"```{code-cell}\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(next(code for code in cells if "def bytes_per_token" in code), names)
    return names["bytes_per_token"]


bytes_per_token = notebook_formula()


def loaded(config):
    return SimpleNamespace(config=config, dtype=torch.float32, spec=SimpleNamespace(title="Tiny"))


def replayed(**parts):
    """Parts as a notebook's views get them."""
    return SimpleNamespace(**{name: records.decode(records.encode(part)) for name, part in parts.items()})


def text(display):
    return display.data["text/markdown"]


@pytest.mark.parametrize("config", [LlamaConfig(**SIZES), chapter_config()])
def test_the_notebooks_formula_is_the_packages(config):
    assert bytes_per_token(config, 2) == kv_cache.bytes_per_token(config, bytes_per_element=2)


@pytest.fixture(scope="module")
def formula():
    return experiment.count_three_ways(loaded(LlamaConfig(**SIZES)), bytes_per_token, tokens=11)


def test_five_shapes_agree_three_ways(formula):
    assert [row.name for row in formula.rows] == list(view._shape_words(WORDS))
    assert [row.per_token for row in formula.rows] == [768, 12_288, 1536, 384, 8192]
    assert all(row.formula == row.tensors == row.allocator == 11 * row.per_token for row in formula.rows)
    assert (formula.own_agrees, formula.chapter_agrees, formula.others_agree) == (True, True, True)


def test_a_formula_that_divides_instead_is_caught(formula):
    def dividing(config, bytes_per_element):
        head_dim = config.hidden_size // config.num_attention_heads
        return 2 * config.num_hidden_layers * config.num_key_value_heads * head_dim * bytes_per_element

    row = experiment.shape_row("own", LlamaConfig(**SIZES), dividing, tokens=5, dtype=torch.float32)
    assert not row.agree
    assert row.tensors == row.allocator != row.formula
    said = text(view.answer(replayed(formula=replace(formula, rows=(row, *formula.rows[1:]))), WORDS))
    assert "**not** agree for: this model." in said


def test_a_short_window_bounds_what_is_counted():
    config = MistralConfig(**SIZES, sliding_window=8)
    row = experiment.shape_row("own", config, bytes_per_token, tokens=20, dtype=torch.float32)
    assert row.tokens == 7
    assert row.agree


def test_a_sliding_layer_keeps_one_position_less_than_its_window(formula):
    assert (formula.sliding.kept_full, formula.sliding.kept_sliding) == (295, experiment.WINDOW - 1)
    assert formula.sliding.formula == formula.sliding.tensors


def test_the_chapters_cache():
    found = experiment.count_chapter(bytes_per_token)
    assert (found.per_token, found.bytes, found.tensors) == (12_288, 3_624_960, 48)
    assert found.tensor_shape == (1, 2, 295, 64)
    assert "(1, 2, 295, 64), 3,624,960 bytes" in text(view.chapter(replayed(chapter=found), WORDS))


def test_only_the_total_of_tokens_counts():
    users = experiment.count_users(loaded(LlamaConfig(**SIZES)))
    assert len(users.rows) <= 8
    same = [row for row in users.rows if row.resident == 65_536]
    assert [(row.users, row.tokens) for row in same] == [(32, 2048), (64, 1024), (128, 512)]
    assert {row.chapter_bytes for row in same} == {users.same_total_bytes} == {768 * 2**20}
    assert {row.own_bytes for row in same} == {65_536 * 384}
    shown = view.users_table(replayed(users=users), WORDS).data["text/html"]
    assert shown.count('class="marked"') == 3
    assert "768 MiB" in text(view.crowd(replayed(users=users), WORDS)).replace("\u00a0", " ")


def test_a_crossing_is_the_first_token_that_outweighs_the_weights():
    curves = experiment.draw_curves(loaded(LlamaConfig(**SIZES)))
    assert [line.name for line in curves.lines] == ["own", "chapter", "7b"]
    assert [line.crossing for line in curves.lines[1:]] == [80_409, 106_812]
    for line in curves.lines:
        assert line.crossing * line.per_token > line.weight_bytes >= (line.crossing - 1) * line.per_token


def test_the_chapters_own_model_is_drawn_once():
    curves = experiment.draw_curves(loaded(chapter_config()))
    assert [line.name for line in curves.lines] == ["chapter", "7b"]
    assert view.growth_figure(replayed(curves=curves), WORDS).data["image/png"]


def test_a_cache_that_stops_growing_has_no_crossing():
    curves = experiment.draw_curves(loaded(MistralConfig(**SIZES, sliding_window=8)))
    assert curves.lines[0].crossing is None
    record = replayed(curves=curves)
    assert "Tiny: every layer has a window" in text(view.crossings(record, WORDS))
    assert view.growth_figure(record, Words("pl")).data["image/png"]


def test_the_table_of_counts_has_a_row_a_shape(formula):
    shown = view.formula_table(replayed(formula=formula), WORDS)
    lines = shown.metadata["csv"].splitlines()
    assert len(lines) == 6
    assert lines[2].endswith("12288,135168,135168,135168")
    assert "2 × 2 × 2 × 24 × 4" in shown.data["text/html"]


def test_what_the_quotient_would_have_said(formula):
    said = text(view.head_dimension(replayed(formula=formula), WORDS))
    assert "head dimension of 128" in said
    assert "2,048 bytes a token; the tensors hold 8,192" in said
    assert "kept 127 positions" in text(view.sliding(replayed(formula=formula), WORDS))
