"""GGUF to safetensors: converted once, checked on every use, by one process at a time."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import pytest
import torch

from cheap_inference.errors import UserError
from cheap_inference.models import cache, convert, resolve
from cheap_inference.models.convert import MANIFEST, converted, is_intact
from cheap_inference.models.load import load

LAYERS, HIDDEN, HEADS, KV_HEADS, MLP = 2, 64, 4, 2, 128


def byte_symbols():
    """The 256 symbols that stand for bytes in GPT-2's vocabulary (Radford et al., 2019)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    symbol = {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [symbol[byte] for byte in range(256)]


def write_tiny_gguf(path, *, without=()):
    """A llama of two layers in 4-bit blocks with a tokenizer of bytes and no BOS; `without` drops tensors."""
    tokens = [*byte_symbols(), "he", "<|end|>"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (len(tokens) - 1) + [3])
    writer.add_token_merges(["h e"])
    writer.add_eos_token_id(len(tokens) - 1)
    for name, shape in tiny_shapes(len(tokens)).items():
        if name not in without:
            add_tensor(writer, name, shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tiny_shapes(vocabulary):
    kv_rows = HIDDEN // HEADS * KV_HEADS
    shapes = {"token_embd.weight": (vocabulary, HIDDEN), "output_norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        block = {"attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,)}
        block |= {"attn_q": (HIDDEN, HIDDEN), "attn_k": (kv_rows, HIDDEN), "attn_v": (kv_rows, HIDDEN)}
        block |= {"attn_output": (HIDDEN, HIDDEN), "ffn_down": (HIDDEN, MLP)}
        block |= {"ffn_gate": (MLP, HIDDEN), "ffn_up": (MLP, HIDDEN)}
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in block.items()}
    return shapes


def add_tensor(writer, name, shape):
    values = np.random.default_rng(len(name)).normal(0, 0.1, shape).astype(np.float32)
    if len(shape) == 1:
        return writer.add_tensor(name, values)
    kind = gguf.GGMLQuantizationType.Q4_1
    return writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CHEAP_INFERENCE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def writes(monkeypatch):
    """Replace the conversion by a fast one; the list it returns has an entry for each."""
    made = []

    def write_model(source, folder):
        made.append(source)
        (folder / "model.safetensors").write_bytes(source.read_bytes())
        (folder / "tokenizer.json").write_text("{}")

    monkeypatch.setattr(convert, "write_model", write_model)
    return made


def convert_tiny(tiny):
    return converted(digest(tiny), lambda root: tiny)


# --- the real conversion, of a tiny model ---


def test_a_gguf_file_loads_with_exactly_its_dequantised_weights(tiny, capfd):
    lm = load(resolve(str(tiny), device="cpu"), device="cpu")
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(tiny).tensors}["blk.1.ffn_down.weight"]
    expected = gguf.quants.dequantize(stored.data, stored.tensor_type)
    assert lm.dtype == torch.float32
    assert np.array_equal(lm.model.model.layers[1].mlp.down_proj.weight.numpy(), expected)
    assert lm.tokenizer.decode(lm.tokenizer("hé llo")["input_ids"]) == "hé llo"
    assert lm.tokenizer("he")["input_ids"] == [256]
    assert capfd.readouterr().err == ""


def test_a_second_load_converts_nothing(tiny, monkeypatch):
    spec = resolve(str(tiny), device="cpu")
    first = load(spec, device="cpu")
    monkeypatch.setattr(convert, "write_model", lambda *args: pytest.fail("converted again"))
    again = load(spec, device="cpu")
    assert all(map(torch.equal, first.model.parameters(), again.model.parameters()))


def test_files_beside_a_gguf_file_are_another_models(tiny, tmp_path):
    copy = tmp_path / "crowd" / "tiny.gguf"
    copy.parent.mkdir()
    copy.write_bytes(tiny.read_bytes())
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (copy.parent / name).write_text("nonsense")
    assert load(resolve(str(copy), device="cpu"), device="cpu").config.hidden_size == HIDDEN


@pytest.mark.parametrize("kept", [4, 24, 200, 4000, 0.5, 0.99])
def test_a_truncated_gguf_is_refused_and_leaves_nothing(kept, tiny, tmp_path, own_cache):
    content = tiny.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with pytest.raises(UserError, match="cut short") as caught:
        load(resolve(str(cut), device="cpu"), device="cpu")
    assert "\n" not in str(caught.value)
    assert {path.name for path in own_cache.iterdir()} <= {".lock"}


def test_garbage_behind_the_magic_is_refused(tmp_path):
    garbage = tmp_path / "garbage.gguf"
    garbage.write_bytes(b"GGUF" + np.random.default_rng(0).bytes(5000))
    with pytest.raises(UserError, match="damaged"):
        load(resolve(str(garbage), device="cpu"), device="cpu")


def test_a_gguf_that_lacks_a_tensor_is_refused_not_filled_with_random_numbers(tmp_path):
    holed = write_tiny_gguf(tmp_path / "holed.gguf", without=("blk.1.ffn_up.weight",))
    with pytest.raises(UserError, match=r"lacks weights, such as .*layers\.1\.mlp\.up_proj"):
        load(resolve(str(holed), device="cpu"), device="cpu")


def test_a_gguf_that_changed_since_it_was_named_is_refused(tiny, tmp_path, writes):
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(tiny.read_bytes())
    spec = resolve(str(copy), device="cpu")
    copy.write_bytes(tiny.read_bytes() + b"more")
    with pytest.raises(UserError, match="has changed"):
        load(spec, device="cpu")
    assert writes == []


def test_a_full_disk_while_saving_is_said(tiny, monkeypatch):
    def save(self, folder):
        raise RuntimeError(
            'Error while serializing: I/O error: Os { code: 28, message: "No space left on device" }'
        )

    monkeypatch.setattr("transformers.PreTrainedModel.save_pretrained", save)
    with pytest.raises(UserError, match="No space on the disk"):
        convert_tiny(tiny)


# --- the manifest ---


def test_the_manifest_names_every_file_and_the_source(tiny, writes):
    folder = convert_tiny(tiny)
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["source_sha256"] == digest(tiny)
    assert set(manifest["versions"]) == {"transformers", "gguf"}
    assert set(manifest["files"]) == {path.name for path in folder.iterdir()} - {MANIFEST}
    for name, entry in manifest["files"].items():
        assert entry == {"size": (folder / name).stat().st_size, "sha256": digest(folder / name)}


def edit_manifest(folder, **changes):
    path = folder / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: flip_a_byte(f / "model.safetensors"),
        lambda f: (f / "model.safetensors").write_bytes(b""),
        lambda f: (f / "tokenizer.json").unlink(),
        lambda f: (f / "tokenizer.json").write_text("[]"),
        lambda f: (f / MANIFEST).unlink(),
        lambda f: (f / MANIFEST).write_text(""),
        lambda f: (f / MANIFEST).write_text("[]"),
        lambda f: (f / MANIFEST).write_text('{"format": 1}'),
        lambda f: (f / "adapter_config.json").write_text("{}"),
        lambda f: edit_manifest(f, format=0),
        lambda f: edit_manifest(f, source_sha256="0" * 64),
        lambda f: edit_manifest(f, files={}),
        lambda f: edit_manifest(f, files=None),
    ],
)
def test_damage_is_noticed_said_once_and_repaired(damage, tiny, writes, capsys):
    folder = convert_tiny(tiny)
    damage(folder)
    assert not is_intact(folder, digest(tiny))
    assert convert_tiny(tiny) == folder
    assert is_intact(folder, digest(tiny))
    assert len(writes) == 2
    assert capsys.readouterr().out.count("damaged") == 1


def test_a_file_managers_hidden_file_is_no_damage(tiny, writes):
    (convert_tiny(tiny) / ".DS_Store").write_text("")
    convert_tiny(tiny)
    assert len(writes) == 1


# --- interruptions and company ---


@pytest.mark.parametrize("moment", ["while writing", "before the rename"])
def test_an_interrupted_conversion_is_not_trusted(moment, tiny, monkeypatch, own_cache, writes):
    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(convert if moment == "while writing" else convert.os, *interrupted(moment), interrupt)
        with pytest.raises(KeyboardInterrupt):
            convert_tiny(tiny)
    assert {path.name for path in own_cache.iterdir()} <= {".lock"}
    assert is_intact(convert_tiny(tiny), digest(tiny))


def interrupted(moment):
    return ["write_model"] if moment == "while writing" else ["replace"]


def test_too_little_space_for_the_conversion_is_said(tiny, monkeypatch, writes):
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda path: SimpleNamespace(free=4096))
    with pytest.raises(UserError, match="GiB are needed"):
        convert_tiny(tiny)
    assert writes == []


# Converts slowly, noting each conversion in a file; argv: GGUF file, its SHA-256, the note.
SLOW_PROCESS = """
import sys, time
from pathlib import Path
from cheap_inference.models import convert
source, digest, note = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])

def write_model(gguf, folder):
    with note.open("a") as file:
        file.write("started\\n")
    (folder / "model.safetensors").write_bytes(b"half")
    time.sleep(float(sys.argv[4]))
    (folder / "model.safetensors").write_bytes(b"whole")

convert.write_model = write_model
print(convert.converted(digest, lambda root: source))
"""


def start_slow(tiny, note, seconds):
    arguments = [str(tiny), digest(tiny), str(note), str(seconds)]
    return subprocess.Popen(
        [sys.executable, "-c", SLOW_PROCESS, *arguments], stdout=subprocess.PIPE, text=True
    )


def test_of_two_processes_one_converts_and_the_other_waits(tiny, tmp_path):
    note = tmp_path / "note"
    outputs = [
        process.communicate(timeout=60)[0] for process in [start_slow(tiny, note, 2.5) for _ in range(2)]
    ]
    assert note.read_text() == "started\n"
    folders = {Path(output.splitlines()[-1]) for output in outputs}
    assert len(folders) == 1
    assert (folders.pop() / "model.safetensors").read_bytes() == b"whole"
    assert sum("waiting for it" in output for output in outputs) == 1


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal on this system")
def test_a_killed_conversion_blocks_nobody_and_is_not_trusted(tiny, tmp_path, writes, own_cache):
    process = start_slow(tiny, tmp_path / "note", 60)
    deadline = time.monotonic() + 30
    while not list(own_cache.glob("*/model/model.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert list(own_cache.glob(f"{cache.SCRATCH_PREFIX}*"))
    folder = convert_tiny(tiny)
    assert (folder / "model.safetensors").read_bytes() == tiny.read_bytes()
    assert not list(own_cache.glob(f"{cache.SCRATCH_PREFIX}*"))
