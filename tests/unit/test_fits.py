"""The one sum: the chapter's tables cell by cell, windows, quantised caches, and settings outside sense."""

import math

import pytest

from cheap_inference.cost import Shape, kv_bytes, kv_bytes_per_token
from cheap_inference.errors import UserError
from cheap_inference.fits import (
    GIB,
    MODEL_7B,
    MODEL_13B,
    MODEL_70B,
    MOST_TOKENS,
    CacheLayers,
    Model,
    cache_bytes,
    fit,
    open_model,
    open_models,
)

MODELS = {"7B": MODEL_7B, "13B": MODEL_13B, "70B": MODEL_70B}
#: Tokens at fp16, int8 and 4.125 bits; None: the weights do not fit.
CHAPTER = {
    ("7B", 8): (None, None, 25_710),
    ("13B", 8): (None, None, 337),
    ("70B", 8): (None, None, None),
    ("7B", 16): (11_972, 65_378, 91_246),
    ("13B", 16): (None, 3_136, 10_822),
    ("70B", 16): (None, None, None),
    ("7B", 24): (77_508, 130_914, 156_782),
    ("13B", 24): (None, 13_622, 21_308),
    ("70B", 24): (None, None, None),
}
CELLS = [
    (name, card, bits, tokens)
    for (name, card), row in CHAPTER.items()
    for bits, tokens in zip((16, 8, 4.125), row, strict=True)
]


@pytest.mark.parametrize(("name", "card", "bits", "tokens"), CELLS)
def test_the_chapters_tables(name, card, bits, tokens):
    found = fit(MODELS[name], card_bytes=card * GIB, bits_per_weight=bits)
    assert found.weights_fit == (tokens is not None)
    assert found.tokens == (tokens or 0)


def test_what_the_answer_hangs_on():
    small = {"card_bytes": 8 * GIB, "bits_per_weight": 4.125}
    assert fit(MODEL_13B, **small, reserve_bytes=0).tokens == 2_303
    grouped = Model("13B, 8 KV heads", MODEL_13B.parameters, (CacheLayers(40, 8, 128),))
    assert fit(grouped, **small).tokens == 1_685
    seven, thirteen = (fit(m, card_bytes=16 * GIB, bits_per_weight=8) for m in (MODEL_7B, MODEL_13B))
    assert seven.tokens / thirteen.tokens == pytest.approx(20.85, abs=0.01)
    assert seven.room_bytes / thirteen.room_bytes == pytest.approx(3.335, abs=0.001)
    assert thirteen.token_bytes / seven.token_bytes == 6.25
    assert (seven.token_bytes, thirteen.token_bytes) == (128 * 1024, 800 * 1024)
    missing = fit(MODEL_7B, card_bytes=8 * GIB, bits_per_weight=8).room_bytes
    assert round(-missing / 2**20) == 20
    assert (
        round(fit(MODEL_7B, card_bytes=GIB, bits_per_weight=16, reserve_bytes=0).weight_bytes / GIB, 1)
        == 13.0
    )
    assert (
        round(fit(MODEL_13B, card_bytes=GIB, bits_per_weight=4.125, reserve_bytes=0).weight_bytes / GIB, 1)
        == 6.2
    )


def test_users_share_the_room_and_a_smaller_cache_element_makes_more_of_it():
    settings = {"card_bytes": 16 * GIB, "bits_per_weight": 8, "context": 4096}
    plain = fit(MODEL_7B, **settings)
    assert plain.users == plain.tokens // 4096 == 15
    assert fit(MODEL_7B, **settings, cache_bits=8).users == 31
    assert fit(MODEL_70B, **settings).users == 0
    with_scales = fit(MODEL_7B, **settings, cache_bits=8.25)
    assert plain.users < with_scales.users < 31


def test_one_token_more_than_the_answer_does_not_fit():
    found = fit(MODEL_13B, card_bytes=8 * GIB, bits_per_weight=4.125)
    assert cache_bytes(MODEL_13B, tokens=found.tokens) <= found.room_bytes
    assert cache_bytes(MODEL_13B, tokens=found.tokens + 1) > found.room_bytes


WINDOWED = Model("windowed", 10**9, (CacheLayers(2, 1, 4), CacheLayers(6, 1, 4, window=11)))


def test_a_full_window_stops_growing():
    by_hand = {1: 8 * 16, 10: 8 * 160, 11: 6 * 160 + 2 * 176, 1000: 6 * 160 + 2 * 16_000}
    assert {tokens: cache_bytes(WINDOWED, tokens=tokens) for tokens in by_hand} == by_hand


@pytest.mark.parametrize("room_tokens", [0, 1, 9, 10, 11, 12, 500])
def test_the_longest_conversation_of_a_windowed_model(room_tokens):
    weights = math.ceil(WINDOWED.parameters / 2)
    room = cache_bytes(WINDOWED, tokens=room_tokens) + 1
    found = fit(WINDOWED, card_bytes=weights + room, bits_per_weight=4, reserve_bytes=0)
    assert found.tokens == room_tokens


def test_a_model_whose_every_layer_slides_never_runs_out():
    sliding = Model("sliding", 10**9, (CacheLayers(2, 1, 4, window=8),))
    assert fit(sliding, card_bytes=GIB, bits_per_weight=4, reserve_bytes=0).tokens == MOST_TOKENS
    assert fit(sliding, card_bytes=10**9 // 2 + 5, bits_per_weight=4, reserve_bytes=0).tokens == 0


@pytest.mark.parametrize("sliding_layers", [0, 4])
def test_a_shape_gives_what_the_cost_formulas_give(sliding_layers):
    window = 16 if sliding_layers else None
    shape = Shape(6, 4, 2, 8, 32, 64, 100, sliding_layers=sliding_layers, window=window)
    model = Model.of_shape("x", shape)
    assert model.parameters == shape.parameters
    for tokens in (1, 15, 16, 17, 200):
        assert cache_bytes(model, tokens=tokens) == kv_bytes(shape, tokens=tokens, bytes_per_element=2)
    found = fit(model, card_bytes=GIB, bits_per_weight=16, reserve_bytes=0)
    assert found.token_bytes == kv_bytes_per_token(shape, bytes_per_element=2)


def test_the_table_of_open_models():
    models = open_models()
    assert len(models) >= 12
    assert len({model.name for model in models}) == len(models)
    assert [model.parameters for model in models] == sorted(model.parameters for model in models)
    assert all(model.source.startswith("https://huggingface.co/") for model in models)
    assert sum(any(group.window for group in model.cache_layers) for model in models) >= 3
    assert open_model("Llama-3.1-8B").cache_layers == (CacheLayers(32, 8, 128),)


def test_an_unknown_model_is_answered_with_the_known_ones():
    with pytest.raises(UserError, match=r"'Llama-9'.*Known: SmolLM2-135M, "):
        open_model("Llama-9")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"card_bytes": 0}, "card_bytes"),
        ({"card_bytes": 8.5}, "card_bytes"),
        ({"card_bytes": 10**18}, "card_bytes"),
        ({"bits_per_weight": 0}, "bits_per_weight"),
        ({"bits_per_weight": 65}, "bits_per_weight"),
        ({"bits_per_weight": math.nan}, "bits_per_weight"),
        ({"bits_per_weight": "4"}, "bits_per_weight"),
        ({"cache_bits": -8}, "cache_bits"),
        ({"context": 0}, "context"),
        ({"context": True}, "context"),
        ({"reserve_bytes": -1}, "reserve_bytes"),
        ({"reserve_bytes": 9 * GIB}, "reserve_bytes"),
    ],
)
def test_settings_outside_sense_are_named(change, named):
    with pytest.raises(UserError, match=f"^{named} must be") as caught:
        fit(MODEL_7B, **({"card_bytes": 8 * GIB, "bits_per_weight": 8} | change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CacheLayers(0, 8, 128),
        lambda: CacheLayers(32, 8, 128, window=1),
        lambda: CacheLayers(32, 2.5, 128),
        lambda: Model("x", 0, (CacheLayers(1, 1, 1),)),
        lambda: Model("x", 10, ()),
    ],
)
def test_shapes_that_no_model_has_are_refused(make):
    with pytest.raises(UserError):
        make()
