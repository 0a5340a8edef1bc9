"""Quantising a model in place, and getting exactly the old model back."""

import pytest
import torch
from torch import nn
from transformers import GPT2Config

from cheap_inference.errors import UserError
from cheap_inference.models.load import random_model
from cheap_inference.quantize.in_place import projections, quantized, restored
from cheap_inference.quantize.schemes import INT4_GROUP64, INT8_ROW


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def model(request, make_model):
    return make_model(tie_word_embeddings=request.param)


def snapshot(model):
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def test_all_seven_matrices_of_each_layer_and_not_the_head(model):
    names = projections(model)
    assert len(names) == 2 * 7
    assert not [name for name in names if "lm_head" in name or "embed" in name]


def test_every_matrix_changes_inside_and_is_back_after(model):
    before = snapshot(model)
    with quantized(model, INT4_GROUP64):
        for name, linear in projections(model).items():
            assert torch.equal(linear.weight, INT4_GROUP64(before[f"{name}.weight"]))
            assert not torch.equal(linear.weight, before[f"{name}.weight"])
        assert torch.equal(model.get_input_embeddings().weight, before["model.embed_tokens.weight"])
        assert torch.equal(
            model.get_output_embeddings().weight,
            before.get("lm_head.weight", before["model.embed_tokens.weight"]),
        )
    after = snapshot(model)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_very_tensors_come_back(model):
    addresses = [linear.weight.data_ptr() for linear in projections(model).values()]
    with quantized(model, INT8_ROW):
        pass
    assert [linear.weight.data_ptr() for linear in projections(model).values()] == addresses


def test_an_exception_restores_too(model):
    before = snapshot(model)

    def scheme(weight):
        if weight.shape == (64, 96):
            raise KeyError("half-way")
        return weight * 0

    with pytest.raises(KeyError, match="half-way"), quantized(model, scheme):
        pytest.fail("the block must not run")
    with pytest.raises(ZeroDivisionError), quantized(model, INT8_ROW):
        raise ZeroDivisionError
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


def test_contexts_nest(model):
    before = snapshot(model)
    with quantized(model, INT8_ROW), restored(model) as layers:
        next(iter(layers.values())).weight.data = torch.zeros(64, 64)
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


def test_matrices_in_other_modules_are_not_skipped_in_silence():
    config = GPT2Config(n_layer=1, n_head=2, n_embd=32, vocab_size=64)
    with pytest.raises(UserError, match="outside plain linear layers such as transformer"):
        projections(random_model(config, dtype=torch.float32, seed=0))


def test_a_parameter_of_its_own_is_noticed(model):
    model.model.extra = nn.Parameter(torch.zeros(2, 2))
    with pytest.raises(UserError, match=r"such as model\.extra"):
        projections(model)
