"""SmoothQuant, GPTQ and AWQ: small cases by hand, and what each promises on calibration data."""

from types import SimpleNamespace

import pytest
import torch

from cheap_inference.kv_cache import forward
from cheap_inference.quantize.activation_rounding import per_tensor
from cheap_inference.quantize.awq import (
    awq_factors,
    awq_quantized,
    best_factors,
    foldable,
    scaled_rounding,
)
from cheap_inference.quantize.calibration import InputGroup, input_groups, input_statistic
from cheap_inference.quantize.gptq import gptq, gptq_quantized, hessian, inverse_factor
from cheap_inference.quantize.in_place import projections, quantized
from cheap_inference.quantize.schemes import INT4_GROUP64, INT4_GROUP128, INT4_ROW, INT8_ROW
from cheap_inference.quantize.smoothquant import smoothed, smoothing_factors


@pytest.fixture(scope="module")
def model(make_model):
    return make_model(initializer_range=0.3)


@pytest.fixture
def ids():
    return torch.randint(0, 128, (2, 32), generator=torch.Generator().manual_seed(0))


def correlated_inputs(tokens=256, features=96, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(features, features, generator=generator) / 4
    inputs = torch.randn(tokens, features, generator=generator) @ mixing
    inputs[:, 5] *= 30  # an outlier dimension
    return inputs


def output_error(weight, rounded, inputs):
    return float(((rounded - weight) @ inputs.T).norm())


# --- what the layers see ---


def test_layers_that_read_one_tensor_are_found_together(model):
    groups = input_groups(model)
    kinds = [(tuple(name.split(".")[-1] for name in group.names), group.norm_fed) for group in groups]
    layer = [
        (("q_proj", "k_proj", "v_proj"), True),
        (("o_proj",), False),
        (("gate_proj", "up_proj"), True),
        (("down_proj",), False),
    ]
    assert kinds == layer * 2


def test_statistics_are_those_of_the_real_inputs(model, ids):
    groups = input_groups(model)
    maxima = input_statistic(model, ids, groups, lambda inputs: inputs.abs().amax(dim=0))
    seen = []
    hook = projections(model)[groups[3].names[0]].register_forward_pre_hook(lambda _, x: seen.append(x[0]))
    forward(model, ids)
    hook.remove()
    torch.testing.assert_close(maxima[3], seen[0].abs().amax(dim=(0, 1)))


# --- SmoothQuant ---


def test_smoothing_by_hand():
    # Inputs up to 16 and 1, weights up to 1 and 4, alpha 1/2: s = sqrt(16 / 1), sqrt(1 / 4).
    factors = smoothing_factors(torch.tensor([16.0, 1.0, 0.0]), torch.tensor([1.0, 4.0, 2.0]), alpha=0.5)
    assert factors.tolist() == pytest.approx([4, 0.5, 1])


@pytest.mark.parametrize("everywhere", [True, False])
def test_smoothing_alone_leaves_the_float_output(model, ids, everywhere):
    before = forward(model, ids)
    with smoothed(model, ids, alpha=0.7, everywhere=everywhere, weights=lambda w: w, activations=lambda x: x):
        changed = projections(model)["model.layers.0.self_attn.q_proj"].weight.clone()
        torch.testing.assert_close(forward(model, ids), before, rtol=1e-4, atol=1e-4)
    assert torch.equal(forward(model, ids), before)
    assert not torch.allclose(changed, projections(model)["model.layers.0.self_attn.q_proj"].weight)


def test_as_published_only_norm_fed_layers_are_smoothed(model, ids):
    with smoothed(model, ids, alpha=0.5, everywhere=False, weights=lambda w: w, activations=lambda x: x):
        inside = {name: linear.weight.clone() for name, linear in projections(model).items()}
    same = {
        name.split(".")[-1]
        for name, linear in projections(model).items()
        if torch.equal(linear.weight, inside[name])
    }
    assert same == {"o_proj", "down_proj"}


def test_smoothing_shrinks_the_error_that_an_outlier_dimension_makes():
    inputs, weight = correlated_inputs(), torch.randn(32, 96, generator=torch.Generator().manual_seed(1))
    factors = smoothing_factors(inputs.abs().amax(0), weight.abs().amax(0), alpha=0.5)
    plain = per_tensor(inputs) @ INT8_ROW(weight).T - inputs @ weight.T
    smooth = per_tensor(inputs / factors) @ INT8_ROW(weight * factors).T - inputs @ weight.T
    assert smooth.norm() < 0.5 * plain.norm()


# --- GPTQ ---


def test_gptq_on_independent_inputs_is_plain_rounding():
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(gptq(weight, torch.eye(64), bits=4, group_size=32), _groups_of_32(weight))


def _groups_of_32(weight):
    return torch.cat([INT4_ROW(part) for part in weight.split(32, dim=1)], dim=1)


def test_gptq_by_hand():
    # Two inputs that are always equal: the error of column 0 moves whole to column 1.
    # Scale 1 (largest 7 stands in column 2, which is independent). 2.4 -> 2, so 1.3 becomes 1.7 -> 2.
    weight = torch.tensor([[2.4, 1.3, 7.0]])
    inputs = torch.tensor([[100.0, 100, 0], [0, 0, 1]])
    assert INT4_ROW(weight).tolist() == [[2, 1, 7]]
    assert gptq(weight, inputs, bits=4, group_size=3).tolist() == [[2, 2, 7]]


def test_the_factor_is_that_of_the_inverse_hessian():
    squared = hessian(correlated_inputs().double().float())
    factor = inverse_factor(squared).double()
    assert factor.tril(-1).eq(0).all()
    torch.testing.assert_close(
        factor.T @ factor @ squared.double(), torch.eye(96).double(), rtol=0, atol=1e-2
    )


@pytest.mark.parametrize("group_size", [32, 64, 96])
def test_gptq_has_less_error_on_its_calibration_data_than_rounding(group_size):
    inputs, weight = correlated_inputs(), torch.randn(16, 96, generator=torch.Generator().manual_seed(1))
    plain = torch.cat([INT4_ROW(part) for part in weight.split(group_size, dim=1)], dim=1)
    compensated = gptq(weight, inputs, bits=4, group_size=group_size)
    assert output_error(weight, compensated, inputs) < 0.8 * output_error(weight, plain, inputs)


def test_gptq_stays_on_the_grid_of_fp16_scales():
    inputs, weight = correlated_inputs(), torch.randn(4, 96, generator=torch.Generator().manual_seed(1))
    rounded = gptq(weight, inputs, bits=4, group_size=96)
    assert all(row.abs().unique().numel() <= 8 for row in rounded)


def test_gptq_survives_dead_inputs_and_zero_groups():
    weight = torch.randn(4, 64)
    weight[:, 32:] = 0
    assert gptq(weight, torch.zeros(8, 64), bits=4, group_size=32).isfinite().all()
    inputs = torch.randn(8, 64)
    inputs[:, :10] = 0
    rounded = gptq(weight, inputs, bits=4, group_size=32)
    assert rounded.isfinite().all()


@pytest.mark.parametrize("sequential", [True, False])
def test_every_matrix_has_less_calibration_error_in_the_model(model, ids, sequential):
    before = {name: linear.weight.clone() for name, linear in projections(model).items()}
    groups = input_groups(model)
    inputs = input_statistic(model, ids, groups, lambda inputs: inputs)
    with gptq_quantized(model, ids, bits=4, group_size=64, sequential=sequential):
        after = {name: linear.weight.clone() for name, linear in projections(model).items()}
    assert all(torch.equal(before[name], linear.weight) for name, linear in projections(model).items())
    if sequential:  # judged on inputs that have moved, except in the first group
        groups = groups[:1]
    for group, seen in zip(groups, inputs, strict=False):
        for name in group.names:
            plain = output_error(before[name], INT4_GROUP64(before[name]), seen)
            assert output_error(before[name], after[name], seen) < plain


def test_sequential_gptq_sees_the_rounded_layers_before(model, ids):
    results = []
    for sequential in (False, True):
        with gptq_quantized(model, ids, bits=4, group_size=64, sequential=sequential):
            results.append({name: linear.weight.clone() for name, linear in projections(model).items()})
    one_shot, sequential = results
    same = [name for name in one_shot if torch.equal(one_shot[name], sequential[name])]
    assert {name.split(".")[-1] for name in same} == {"q_proj", "k_proj", "v_proj"}
    assert all(name.startswith("model.layers.0.") for name in same)


# --- AWQ ---


def test_awq_factors_by_hand():
    # Means 4 and 1, alpha 1/2: 2 and 1, divided by sqrt(2 * 1).
    assert awq_factors(torch.tensor([4.0, 1.0]), alpha=0.5).tolist() == pytest.approx([2**0.5, 2**-0.5])
    assert awq_factors(torch.tensor([4.0, 0.0]), alpha=0.0).tolist() == [1, 1]


def test_a_scaled_dimension_lands_on_a_finer_grid():
    # Scale 1 rounds 0.4 to 0; enlarged four times it is 1.6, which rounds to 2 and comes back as 0.5.
    weight = torch.tensor([[7.0, 0.4]])
    assert scaled_rounding(weight, torch.tensor([1.0, 4.0]), INT4_ROW).tolist() == [[7, 0.5]]


def test_awq_never_does_worse_than_plain_rounding_on_its_inputs():
    inputs, weight = correlated_inputs(), torch.randn(16, 96, generator=torch.Generator().manual_seed(1))
    factors = best_factors([weight], inputs, INT4_GROUP128)
    plain = output_error(weight, INT4_GROUP128(weight), inputs)
    assert output_error(weight, scaled_rounding(weight, factors, INT4_GROUP128), inputs) < 0.9 * plain


def test_shared_heads_leave_the_attention_output_alone(model, ids):
    group = InputGroup(("model.layers.0.self_attn.o_proj",), norm_fed=False)
    assert not foldable(group, model.config)
    assert foldable(group, SimpleNamespace(num_key_value_heads=4, num_attention_heads=4))
    name = group.names[0]
    with quantized(model, INT4_GROUP64):
        plain = projections(model)[name].weight.clone()
    with awq_quantized(model, ids, INT4_GROUP64):
        assert torch.equal(projections(model)[name].weight, plain)
        assert not torch.equal(projections(model)["model.layers.0.mlp.down_proj"].weight, plain)


def test_awq_restores(model, ids):
    before = forward(model, ids)
    with awq_quantized(model, ids, INT4_GROUP64):
        assert not torch.equal(forward(model, ids), before)
    assert torch.equal(forward(model, ids), before)
