"""The default model, over the real path, against the GGUF file's own bytes and its published shape."""

import gguf
import numpy as np
import pytest
import torch

from cheap_inference.models import resolve
from cheap_inference.models.cache import cache_root
from cheap_inference.models.load import load

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def lm():
    return load(resolve("smollm2-135m", device="cpu"), device="cpu")


@pytest.fixture(scope="module")
def stored(lm):
    """The GGUF file's tensors by name, dequantised by the gguf package; transformers has no part in it."""
    tensors = {
        tensor.name: tensor
        for tensor in gguf.GGUFReader(cache_root() / f"{lm.spec.sha256[:16]}.gguf").tensors
    }
    return lambda name: gguf.quants.dequantize(tensors[name].data, tensors[name].tensor_type)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("model.norm.weight", "output_norm.weight"),
        ("model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight"),
        ("model.layers.12.mlp.down_proj.weight", "blk.12.ffn_down.weight"),
        ("model.layers.29.mlp.gate_proj.weight", "blk.29.ffn_gate.weight"),
    ],
)
def test_weights_are_the_dequantised_ones_to_the_last_bit(ours, theirs, lm, stored):
    assert np.array_equal(lm.model.get_parameter(ours).numpy(), stored(theirs))


@pytest.mark.parametrize(("ours", "theirs", "heads"), [("q_proj", "attn_q", 9), ("k_proj", "attn_k", 3)])
def test_rotary_rows_are_reordered_from_pairs_to_halves(ours, theirs, heads, lm, stored):
    # GGUF interleaves the two halves that transformers rotates: row 2i is i, row 2i + 1 is i + 32.
    rows = stored(f"blk.5.{theirs}.weight").reshape(heads, 32, 2, 576).swapaxes(1, 2).reshape(heads * 64, 576)
    assert np.array_equal(lm.model.get_parameter(f"model.layers.5.self_attn.{ours}.weight").numpy(), rows)


def test_the_shape_is_the_published_one(lm):
    config = lm.config
    assert (config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads) == (30, 9, 3)
    assert (config.hidden_size, config.intermediate_size, config.vocab_size) == (576, 1536, 49152)
    assert lm.model.lm_head.weight is lm.model.model.embed_tokens.weight
    assert {parameter.dtype for parameter in lm.model.parameters()} == {torch.float32}


def test_text_survives_the_tokenizer_and_gets_no_bos(lm):
    text = "In 2024, 3.14 cafés opened.\n\n  नमस्ते"
    ids = lm.tokenizer(text)["input_ids"]
    assert ids[0] not in (lm.tokenizer.bos_token_id, lm.tokenizer.eos_token_id)
    assert lm.tokenizer.decode(ids) == text


def test_it_knows_a_capital(lm):
    ids = lm.tokenizer("The capital of France is", return_tensors="pt").input_ids
    with torch.inference_mode():
        best = lm.model(ids).logits[0, -1].argmax()
    assert lm.tokenizer.decode(best) == " Paris"
