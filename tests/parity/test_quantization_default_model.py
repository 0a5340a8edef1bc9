"""What rounding does to the default model's real weights, on a text short enough for every run of the tests."""

import pytest
import torch

from cheap_inference import activations, corpus, quality
from cheap_inference.experiments.activation_outliers import outlier_prompts
from cheap_inference.models.load import load
from cheap_inference.models.registry import resolve
from cheap_inference.quantize.activation_rounding import activations_rounded, mixed, per_tensor, per_token
from cheap_inference.quantize.calibration import input_groups, input_statistic
from cheap_inference.quantize.gptq import gptq
from cheap_inference.quantize.in_place import projections, quantized
from cheap_inference.quantize.kv_cache_rounding import rounded_cache
from cheap_inference.quantize.schemes import (
    INT4_ASYMMETRIC_GROUP32,
    INT4_GROUP128,
    INT4_ROW,
    INT4_TENSOR,
    INT8_ROW,
    NF4_GROUP64,
)

pytestmark = pytest.mark.model
TOKENS = 512


@pytest.fixture(scope="module")
def lm():
    return load(resolve("smollm2-135m", device="cpu"), device="cpu")


@pytest.fixture(scope="module")
def ids(lm):
    return corpus.token_ids(lm.tokenizer, "evaluation", count=TOKENS)


@pytest.fixture(scope="module")
def reference(lm, ids):
    return quality.perplexity(quality.token_losses(lm.model, ids))


def perplexity(lm, ids, **cache):
    return quality.perplexity(quality.token_losses(lm.model, ids, **cache))


def test_all_projections_are_found(lm):
    layers = projections(lm.model)
    assert len(layers) == 210
    assert sum(linear.weight.numel() for linear in layers.values()) == 106_168_320


def test_four_bits_fall_apart_by_granularity_and_eight_do_not(lm, ids, reference):
    ratio = {}
    for scheme in (INT8_ROW, NF4_GROUP64, INT4_GROUP128, INT4_ROW, INT4_TENSOR):
        with quantized(lm.model, scheme):
            ratio[scheme.name] = perplexity(lm, ids) / reference
    assert 0.98 < ratio["int8-row"] < 1.02
    assert 1.05 < ratio["nf4-group64"] < ratio["int4-group128"] < ratio["int4-row"] < 10
    assert ratio["int4-tensor"] > 1000


def test_one_scale_erases_the_worst_matrix(lm):
    weight = projections(lm.model)["model.layers.27.mlp.gate_proj"].weight
    rounded = INT4_TENSOR(weight.data)
    assert (rounded - weight).norm() / weight.norm() > 0.9
    assert (rounded == 0).float().mean() > 0.99


def test_the_file_was_stored_in_asymmetric_blocks_of_32(lm):
    weight = projections(lm.model)["model.layers.12.mlp.down_proj"].weight.data
    assert torch.equal(INT4_ASYMMETRIC_GROUP32(weight), weight)


def test_activations_need_a_scale_per_token(lm, ids, reference):
    ratio = {}
    for rounding in (per_tensor, per_token, mixed):
        with quantized(lm.model, INT8_ROW), activations_rounded(lm.model, rounding):
            ratio[rounding.__name__] = perplexity(lm, ids) / reference
    assert ratio["per_tensor"] > 1.2
    assert 0.95 < ratio["per_token"] < 1.05
    assert 0.95 < ratio["mixed"] < 1.05


def test_an_int8_cache_costs_next_to_nothing(lm, ids, reference):
    found = perplexity(lm, ids, make_cache=lambda: rounded_cache(lm.config, bits=8, keys="token"))
    assert 0.98 < found / reference < 1.02


def test_one_dimension_of_the_first_position_stands_out_on_every_prompt(lm):
    for prompt in outlier_prompts(lm).values():
        found = activations.outlier(activations.residual_stream(lm.model, prompt)[20])
        assert (found.dimension, found.position) == (507, 0)
        assert found.magnitude > 100 * found.elsewhere


@pytest.mark.parametrize("layer", [0, 15, 29])
def test_gptq_has_less_calibration_error_than_rounding_on_every_matrix(lm, layer):
    calibration = corpus.token_ids(lm.tokenizer, "calibration", count=1024).view(2, 512)
    groups = [group for group in input_groups(lm.model) if f".layers.{layer}." in group.names[0]]
    inputs = input_statistic(lm.model, calibration, groups, lambda seen: seen)
    for group, seen in zip(groups, inputs, strict=True):
        for name in group.names:
            weight = projections(lm.model)[name].weight.data
            plain = ((INT4_GROUP128(weight) - weight) @ seen.T).norm()
            compensated = ((gptq(weight, seen, bits=4, group_size=128) - weight) @ seen.T).norm()
            assert compensated < plain, name
