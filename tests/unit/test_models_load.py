"""What a loaded model promises: dtype, no gradients, no sampling, nothing random, nothing foreign run."""

import json
import os
import subprocess
import sys

import huggingface_hub.constants as hub_constants
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, PreTrainedTokenizerFast, T5Config, T5Model

from cheap_inference.errors import UserError
from cheap_inference.models import hub, resolve
from cheap_inference.models import load as loading
from cheap_inference.models.load import chapter_config, default_dtype, load, random_model, zero_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def tiny_config(**changes):
    shape = {"vocab_size": 32, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    shape |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    return LlamaConfig(**(shape | {"eos_token_id": 1, "bos_token_id": None} | changes))


def save_tokenizer(folder):
    """A word tokenizer without BOS."""
    words = {word: i for i, word in enumerate(["<unk>", "<end>", "one", "two", "three"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", unk_token="<unk>").save_pretrained(
        folder
    )


def write_model(folder, *, config=None, **saving):
    random_model(config or tiny_config(), dtype=torch.float32, seed=0).save_pretrained(folder, **saving)
    save_tokenizer(folder)
    return folder


@pytest.fixture
def tiny(tmp_path):
    return write_model(tmp_path / "tiny")


def load_path(folder, **settings):
    return load(resolve(str(folder), device="cpu"), device="cpu", **settings)


def refusal(folder):
    with pytest.raises(UserError) as caught:
        load_path(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def edit_json(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# --- what loading gives ---


def test_a_local_model_is_ready_to_be_measured(tiny, capfd):
    lm = load_path(tiny)
    expected = random_model(tiny_config(), dtype=torch.float32, seed=0)
    assert all(map(torch.equal, lm.model.parameters(), expected.parameters()))
    assert not lm.model.training
    assert not any(parameter.requires_grad for parameter in lm.model.parameters())
    assert (lm.device, lm.dtype) == (torch.device("cpu"), torch.float32)
    assert lm.config is lm.model.config
    assert lm.config._attn_implementation == "sdpa"
    assert lm.spec.kind == "local"
    assert capfd.readouterr() == ("", "")


def test_a_sharded_model_loads(tmp_path):
    folder = write_model(tmp_path / "sharded", max_shard_size="60KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    expected = random_model(tiny_config(), dtype=torch.float32, seed=0)
    assert all(map(torch.equal, load_path(folder).model.parameters(), expected.parameters()))


def test_the_checkpoints_own_dtype_does_not_decide(tmp_path):
    folder = tmp_path / "half"
    random_model(tiny_config(), dtype=torch.bfloat16, seed=0).save_pretrained(folder)
    save_tokenizer(folder)
    assert {p.dtype for p in load_path(folder).model.parameters()} == {torch.float32}
    assert {p.dtype for p in load_path(folder, dtype=torch.float16).model.parameters()} == {torch.float16}


def test_a_tokenizer_without_bos_works(tiny):
    lm = load_path(tiny)
    assert lm.tokenizer.bos_token_id is None
    ids = lm.tokenizer("one two three", return_tensors="pt").input_ids
    assert ids.tolist() == [[2, 3, 4]]
    assert lm.model(ids).logits.shape == (1, 3, 32)


def test_stored_sampling_settings_are_dropped(tiny):
    sampled = {
        "do_sample": True,
        "repetition_penalty": 3.0,
        "temperature": 0.7,
        "top_k": 20,
        "eos_token_id": [1, 2],
    }
    edit_json(tiny / "generation_config.json", **sampled)
    settings = load_path(tiny).model.generation_config
    assert (settings.do_sample, settings.repetition_penalty) == (False, 1.0)
    assert settings.temperature in (None, 1.0)
    assert settings.top_k in (None, 50)
    assert settings.eos_token_id == [1, 2]


def test_a_sliding_window_survives_in_the_config(tmp_path):
    config = chapter_config()
    for name, value in tiny_config().to_dict().items():
        if name in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"):
            setattr(config, name, value)
    config.num_attention_heads, config.num_key_value_heads = 4, 2
    config.layer_types, config.sliding_window = ["full_attention", "sliding_attention"], 8
    folder = write_model(tmp_path / "sliding", config=config)
    assert load_path(folder).config.layer_types == ["full_attention", "sliding_attention"]


@pytest.mark.parametrize(("capability", "dtype"), [((7, 5), torch.float16), ((8, 0), torch.bfloat16)])
def test_bf16_is_for_gpus_that_compute_in_it(capability, dtype, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert default_dtype(torch.device("cuda")) == dtype
    assert default_dtype(torch.device("cpu")) == torch.float32


@pytest.mark.parametrize(("granted", "used"), [(1, 1), (2, 2), (8, 3)])
def test_threads_are_lowered_to_what_is_granted_and_never_raised(granted, used, tiny, monkeypatch):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        monkeypatch.setattr(loading.machine, "threads", lambda: granted)
        load_path(tiny)
        assert torch.get_num_threads() == used
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("set_to", "found"), [(None, "passive"), ("active", "active")])
def test_waiting_threads_sleep_unless_the_reader_decided(set_to, found):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {"OMP_WAIT_POLICY": set_to} if set_to else {}
    code = (
        "import cheap_inference.models, os, sys; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [found, "False"]


# --- what loading refuses ---


def test_missing_weights_are_refused_not_filled_with_random_numbers(tiny):
    edit_json(tiny / "config.json", num_hidden_layers=3)
    assert "lacks weights, such as model.layers.2." in refusal(tiny)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda f: (f / "model.safetensors").write_bytes(b""), "cannot be loaded"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\xff" * 100), "cannot be loaded"),
        (lambda f: os.truncate(f / "model.safetensors", 50_000), "cannot be loaded"),
        (lambda f: (f / "tokenizer.json").write_text("{"), "cannot be loaded"),
        (lambda f: (f / "tokenizer.json").unlink(), "cannot be loaded"),
        (lambda f: edit_json(f / "config.json", hidden_size=96), "cannot be loaded"),
        (lambda f: edit_json(f / "config.json", model_type="nothing-known"), "cannot be loaded"),
        (lambda f: edit_json(f / "config.json", model_type=None), "cannot be loaded"),
        (lambda f: edit_json(f / "config.json", num_attention_heads="many"), "cannot be loaded"),
    ],
)
def test_damaged_files_are_refused_in_one_line(damage, said, tiny):
    damage(tiny)
    assert said in refusal(tiny)


def test_code_in_a_models_folder_is_never_run(tiny):
    (tiny / "evil.py").write_text("raise SystemExit('ran')")
    edit_json(
        tiny / "config.json",
        model_type="evil",
        auto_map={"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"},
    )
    assert "cannot be loaded" in refusal(tiny)


def test_a_pickle_beside_safetensors_is_never_read(tiny):
    (tiny / "pytorch_model.bin").write_bytes(b"cos\nabort\n.")
    load_path(tiny)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            lambda: T5Model(T5Config(vocab_size=32, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2)),
            "encoder-decoder",
        ),
        (
            lambda: BertForMaskedLM(
                BertConfig(
                    vocab_size=32,
                    hidden_size=16,
                    intermediate_size=16,
                    num_hidden_layers=1,
                    num_attention_heads=2,
                )
            ),
            "no causal language-model head",
        ),
    ],
)
def test_other_architectures_are_refused(model, said, tmp_path):
    model().save_pretrained(tmp_path / "other")
    save_tokenizer(tmp_path / "other")
    assert said in refusal(tmp_path / "other")


def test_a_model_too_large_for_the_gpu_is_said(tiny, monkeypatch):
    def full(self, device):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("transformers.PreTrainedModel.to", full)
    with pytest.raises(UserError, match="does not fit"):
        load(resolve(str(tiny), device="cpu"), device="cuda", dtype=torch.float16)


# --- models of a published shape ---


def test_the_chapters_shape_has_the_chapters_parameters():
    with torch.device("meta"):
        model = random_model(chapter_config(), dtype=torch.float32, seed=0)
    assert sum(parameter.numel() for parameter in model.parameters()) == 494_032_768
    assert model.lm_head.weight is model.model.embed_tokens.weight
    config = model.config
    assert (config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads) == (24, 14, 2)
    assert (config.hidden_size, config.intermediate_size, config.vocab_size) == (896, 4864, 151936)
    assert config.max_position_embeddings == 32768
    assert model.model.layers[0].self_attn.head_dim == 64
    frequency = model.model.rotary_emb.config.rope_parameters["rope_theta"]
    assert frequency == 1_000_000


def test_random_weights_follow_the_seed_alone():
    torch.manual_seed(5)
    first = random_model(tiny_config(), dtype=torch.float32, seed=1)
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1))
    same, other = (random_model(tiny_config(), dtype=torch.float32, seed=seed) for seed in (1, 2))
    assert all(map(torch.equal, first.parameters(), same.parameters()))
    assert not torch.equal(first.lm_head.weight, other.lm_head.weight)
    assert not first.training
    assert not any(parameter.requires_grad for parameter in first.parameters())
    assert {p.dtype for p in random_model(tiny_config(), dtype=torch.bfloat16, seed=1).parameters()} == {
        torch.bfloat16
    }


# --- the hub's cache, without the hub ---

FROM_HUB = """
from cheap_inference.models import resolve
from cheap_inference.models.load import load
lm = load(resolve("org/tiny", device="cpu"), device="cpu")
print(lm.spec.revision, lm.spec.name, lm.config.hidden_size)
"""


@pytest.fixture
def hub_home(tmp_path):
    """HF_HOME with one model, laid out as the hub's client does."""
    repo = tmp_path / "home/hub/models--org--tiny"
    write_model(repo / "snapshots" / COMMIT)
    (repo / "refs").mkdir()
    (repo / "refs/main").write_text(COMMIT)
    return tmp_path / "home"


def test_a_hub_model_on_this_disk_needs_no_hub(hub_home):
    environment = os.environ | {"HF_HOME": str(hub_home), "HF_ENDPOINT": "http://127.0.0.1:9"}
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", FROM_HUB], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == ([COMMIT, "org-tiny-01234567", "64"], "")


def test_a_hub_model_without_its_weights_on_this_disk_is_refused(hub_home, monkeypatch):
    monkeypatch.setattr(hub_constants, "HF_HUB_CACHE", str(hub_home / "hub"))
    monkeypatch.setattr(hub_constants, "HF_HUB_OFFLINE", True)
    for file in hub_home.rglob("model.safetensors"):
        file.unlink()
    with pytest.raises(UserError, match=r"has no model\.safetensors"):
        load(resolve("org/tiny", device="cpu"), device="cpu")


def test_only_files_that_cannot_hold_code_are_downloaded(monkeypatch, tmp_path):
    asked = {}
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download", lambda repo, **rest: asked.update(rest) or str(tmp_path)
    )
    monkeypatch.setattr(hub, "_online_commit", lambda repo, revision: COMMIT)
    hub.snapshot("org/tiny", COMMIT)
    from huggingface_hub.utils import filter_repo_objects

    listed = ["model.safetensors", "config.json", "merges.txt", "tokenizer.model", "chat_template.jinja"]
    others = [
        "pytorch_model.bin",
        "modeling.py",
        "original/config.json",
        "consolidated.safetensors",
        "training.pt",
    ]
    kept = filter_repo_objects(
        listed + others, allow_patterns=asked["allow_patterns"], ignore_patterns=asked["ignore_patterns"]
    )
    assert list(kept) == listed
    assert asked["token"] is False
    assert asked["revision"] == COMMIT


def test_a_download_that_breaks_off_is_said(monkeypatch):
    def break_off(repo, **rest):
        raise ConnectionError("reset by peer\nsecond line")

    monkeypatch.setattr("huggingface_hub.snapshot_download", break_off)
    monkeypatch.setattr(hub, "_online_commit", lambda repo, revision: COMMIT)
    with pytest.raises(UserError, match=r"org/tiny cannot be downloaded \(reset by peer\)"):
        hub.snapshot("org/tiny", COMMIT)


def test_a_zero_model_has_the_shape_and_no_values():
    config = chapter_config()
    config.num_hidden_layers, config.vocab_size = 1, 64
    model = zero_model(config, dtype=torch.float16)
    like = random_model(config, dtype=torch.float16, seed=0)
    assert {n: p.shape for n, p in model.named_parameters()} == {
        n: p.shape for n, p in like.named_parameters()
    }
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight  # tied
    assert all(p.dtype == torch.float16 and not p.any() and not p.requires_grad for p in model.parameters())
