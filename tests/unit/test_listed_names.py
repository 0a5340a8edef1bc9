"""Names with commas of their own, in sentences that list them."""

from types import SimpleNamespace

import pytest

from cheap_inference.quantity import Quantity
from cheap_inference.render.words import Words
from cheap_inference.views import activation_outliers, quality, weight_quantization

EN = Words("en")
SCHEMES = {"int8-group128": 53.0, "int4-group128": 80.0, "nf4-group64": 60.0, "int4-row": 90.0}


def plain(display):
    return display.data["text/markdown"].replace("\u00a0", " ")


@pytest.fixture
def scores():
    rows = [
        SimpleNamespace(scheme=scheme, distinguishable=False, score=SimpleNamespace(perplexity=value))
        for scheme, value in SCHEMES.items()
    ]
    setup = SimpleNamespace(vocabulary=100)
    return SimpleNamespace(scores=SimpleNamespace(rows=rows, setup=setup))


@pytest.mark.parametrize(
    ("locale", "names"),
    [
        ("en", "*NF4, blocks of 64*, *INT4, groups of 128*, and *INT4 per row*."),
        ("pl", "*NF4, bloki po 64*, *INT4, grupy po 128* i *INT4 na wiersz*."),
    ],
)
def test_schemes_are_told_apart_in_their_list(scores, locale, names):
    assert names in plain(quality.yardstick(scores, Words(locale)))


def test_schemes_that_cannot_be_told_apart_are_listed_with_an_and(scores):
    del scores.scores.rows[3]
    text = plain(quality.undecided(scores, Words("sv")))
    assert ": *INT4, grupper om 128* och *NF4, block om 64*." in text


def test_techniques_are_listed_in_italics():
    values = {"float": 1.0, "per-tensor": 2.0, "mixed": 1.001, "smooth-everywhere": 1.002}
    rows = [
        SimpleNamespace(name=name, score=SimpleNamespace(ratio=Quantity(value, "ratio", value, value, 9)))
        for name, value in values.items()
    ]
    text = plain(activation_outliers.remedies(SimpleNamespace(activations=SimpleNamespace(rows=rows)), EN))
    assert ": *inputs mixed, LLM.int8()* and *SmoothQuant, everywhere*." in text


@pytest.mark.parametrize(
    ("levels", "text"),
    [([0.0], "INT4 per tensor: 1 level here"), ([-1.0, 1.0], "INT4 per tensor: 2 levels here")],
)
def test_the_lens_counts_its_levels(levels, text, monkeypatch):
    drawings = []
    monkeypatch.setattr("cheap_inference.render.figure.break_long_texts", drawings.append)
    lens = SimpleNamespace(
        histogram_reach=5,
        histogram=[1, 2, 1],
        largest_in_deviations=14.4,
        strips=[SimpleNamespace(scheme="int4-tensor", levels=[*levels, 9.0])],
    )
    weight_quantization.lens_figure(SimpleNamespace(lens=lens), EN)
    assert text in [label.get_text() for label in drawings[0].axes[1].texts]
