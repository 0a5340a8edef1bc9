"""Which model a name means, and what is refused before anything is downloaded."""

import hashlib
import json
import re
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import huggingface_hub.constants as hub_constants
import pytest

from cheap_inference.errors import UserError
from cheap_inference.models import KNOWN_MODELS, hub, registry, resolve

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GOOD_CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
NOBODY = "http://127.0.0.1:9"  # the discard port: refused at once


@pytest.fixture(autouse=True)
def no_hub(monkeypatch, tmp_path):
    """The hub out of reach and its cache empty, whatever this machine has."""
    monkeypatch.setattr(hub_constants, "ENDPOINT", NOBODY)
    monkeypatch.setattr(hub_constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    registry._hub_has_gpu_model.cache_clear()
    yield
    registry._hub_has_gpu_model.cache_clear()


def serve(answer):
    """A server on a free port that answers every GET with `answer(handler)`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture
def hub_that(monkeypatch):
    """Replace the hub by a local server: call with the status, headers and JSON body of its answers."""
    servers = []

    def start(status, body, **headers):
        def answer(handler):
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.end_headers()
            handler.wfile.write(json.dumps(body).encode())

        return start_with(answer)

    def start_with(answer):
        servers.append(serve(answer))
        monkeypatch.setattr(hub_constants, "ENDPOINT", f"http://127.0.0.1:{servers[-1].server_port}")

    start.with_answer = start_with
    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def model_folder(path, *, config=GOOD_CONFIG, weights=("model.safetensors",), **files):
    """A folder with the files of a model, empty of meaning but for config.json."""
    path.mkdir(parents=True)
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        (path / "config.json").write_text(text, encoding="utf-8")
    for name in weights:
        (path / name).write_bytes(b"weights of " + name.encode())
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return path


def sharded(path, weight_map, *, present):
    folder = model_folder(path, weights=present)
    text = weight_map if isinstance(weight_map, str) else json.dumps({"weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    return folder


def refusal(name, *, device="cpu"):
    """The one line with which `name` is refused."""
    with pytest.raises(UserError) as caught:
        resolve(name, device=device)
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


# --- known names and "auto" ---


def test_known_models_are_those_the_book_was_written_with():
    smollm, qwen = KNOWN_MODELS["smollm2-135m"], KNOWN_MODELS["qwen2.5-0.5b"]
    assert smollm.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert smollm.location.endswith("bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
    assert (qwen.location, qwen.revision) == (
        "Qwen/Qwen2.5-0.5B-Instruct",
        "7ae557604adf67be50417f59c2c2f167def9a775",
    )


@pytest.mark.parametrize("name", KNOWN_MODELS)
def test_a_known_name_needs_no_network(name):
    assert resolve(name, device="cpu").name == name


def test_auto_on_the_cpu_is_the_default_model_without_a_word(capsys):
    assert resolve("auto", device="cpu").name == "smollm2-135m"
    assert capsys.readouterr() == ("", "")


def test_auto_on_a_gpu_is_the_chapters_model_where_the_hub_answers(hub_that, capsys):
    hub_that(200, {"id": "Qwen/Qwen2.5-0.5B-Instruct", "sha": KNOWN_MODELS["qwen2.5-0.5b"].revision})
    assert resolve("auto", device="cuda").name == "qwen2.5-0.5b"
    assert capsys.readouterr() == ("", "")


def test_auto_on_a_gpu_without_the_hub_says_so_in_one_line(capsys):
    assert resolve("auto", device="cuda").name == "smollm2-135m"
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert "hub cannot be reached" in out
    assert err == ""


def test_the_hub_is_asked_once_in_a_process(monkeypatch):
    asked = []
    monkeypatch.setattr(hub, "available", lambda *of: asked.append(of))
    for _ in range(3):
        resolve("auto", device="cuda")
    assert len(asked) == 1


def test_auto_on_a_gpu_uses_an_earlier_download_where_the_hub_is_out_of_reach(tmp_path, capsys):
    revision = KNOWN_MODELS["qwen2.5-0.5b"].revision
    model_folder(tmp_path / f"hub-cache/models--Qwen--Qwen2.5-0.5B-Instruct/snapshots/{revision}")
    assert resolve("auto", device="cuda").name == "qwen2.5-0.5b"
    assert capsys.readouterr().out == ""


def test_a_hub_that_never_answers_costs_seconds_not_minutes(hub_that, monkeypatch):
    release = Event()
    monkeypatch.setattr(hub, "TIMEOUT_SECONDS", 0.3)
    hub_that.with_answer(lambda handler: release.wait(20))
    try:
        assert resolve("auto", device="cuda").name == "smollm2-135m"
    finally:
        release.set()


def test_a_name_server_that_never_answers_costs_seconds_too(monkeypatch):
    release = Event()
    monkeypatch.setattr(hub, "TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *args, **settings: release.wait(8))
    start = time.monotonic()
    assert resolve("auto", device="cuda").name == "smollm2-135m"
    assert time.monotonic() - start < 4
    release.set()


def test_naming_a_model_needs_neither_torch_nor_transformers():
    code = (
        "import sys; from cheap_inference.models import resolve, resolve_device;"
        "import cheap_inference.models.folder;"
        "resolve('auto', device=resolve_device('cpu'));"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- names that are refused ---


@pytest.mark.parametrize(
    "name",
    [
        "",
        "   ",
        "\n",
        "smollm2-135m\n",
        "a\0b",
        None,
        3,
        "gpt5",
        "Auto",
        "SMOLLM2-135M",
        "org/../name",
        "org/..",
        "org/name@",
        "org/name@../../etc",
        "org/name@a b",
        "org/na me",
        "org/name/extra",
        "org/",
        "-rf/name",
        "org\\name",
        "https://example.org/model",
        "x" * 5000,
        "x/" * 2000,
    ],
)
def test_a_name_that_is_no_model_is_refused_with_what_would_be_one(name):
    message = refusal(name)
    for form in (*KNOWN_MODELS, "local folder", ".gguf file", "hub id"):
        assert form in message


@pytest.mark.parametrize(
    "name", ["./missing", "../up", "/no/such/folder", "~/no-such-model-here", "missing.gguf"]
)
def test_a_path_to_nothing_is_refused(name, monkeypatch, tmp_path):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    if name == "../up":
        assert "no such" in refusal("../up/and/away").lower()
    assert "No such folder or file" in refusal(name)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda p: model_folder(p, config=None), "no config.json"),
        (lambda p: model_folder(p, config="{"), "cannot be read as JSON"),
        (lambda p: model_folder(p, config="[]"), "not a JSON object"),
        (
            lambda p: model_folder(p, config="\udcff".encode("utf-8", "surrogateescape").decode("latin-1")),
            "JSON",
        ),
        (lambda p: model_folder(p, weights=()), "has no model.safetensors"),
        (lambda p: model_folder(p, weights=("pytorch_model.bin",)), "nothing is ever unpickled"),
        (lambda p: model_folder(p, weights=("weights.pt",)), "nothing is ever unpickled"),
        (lambda p: model_folder(p, weights=("m.gguf",)), "name the .gguf file itself"),
        (lambda p: model_folder(p, weights=("adapter_model.safetensors",)), "has no model.safetensors"),
        (
            lambda p: model_folder(p, config={"architectures": ["BertForMaskedLM"]}),
            "no causal language-model head",
        ),
        (lambda p: model_folder(p, config={}), "no causal language-model head"),
        (lambda p: model_folder(p, config=GOOD_CONFIG | {"is_encoder_decoder": True}), "encoder-decoder"),
        (
            lambda p: model_folder(p, config=GOOD_CONFIG | {"quantization_config": {"bits": 4}}),
            "quantised already",
        ),
        (lambda p: sharded(p, {"a": "b.safetensors"}, present=()), "lacks b.safetensors"),
        (
            lambda p: sharded(p, {"a": "../b.safetensors"}, present=()),
            "does not list safetensors files of its own",
        ),
        (
            lambda p: sharded(p, {"a": "b.bin"}, present=("b.bin",)),
            "does not list safetensors files of its own",
        ),
        (lambda p: sharded(p, {}, present=()), "does not list safetensors files of its own"),
        (lambda p: sharded(p, "[1]", present=()), "not a JSON object"),
    ],
)
def test_a_folder_that_is_no_model_is_refused(build, said, tmp_path):
    assert said in refusal(str(build(tmp_path / "model")))


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("notes.txt", b"GGUF", "not a .gguf"),
        ("empty.gguf", b"", "is not a GGUF file"),
        ("html.gguf", b"<html>404</html>", "is not a GGUF file"),
        ("m-00001-of-00003.gguf", b"GGUF....", "one part of a split"),
        ("model.safetensors", b"....", "not a .gguf"),
    ],
)
def test_a_file_that_is_no_model_is_refused(file, content, said, tmp_path):
    (tmp_path / file).write_bytes(content)
    assert said in refusal(str(tmp_path / file))


# --- local models ---


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.safetensors", "other weights"),
        ("config.json", '{"architectures": ["LlamaForCausalLM"], "rope_theta": 5}'),
        ("tokenizer.json", "{}"),
    ],
)
def test_a_local_folder_is_known_by_what_decides_its_answers(tmp_path, name, content):
    first, copy = model_folder(tmp_path / "a" / "tiny"), model_folder(tmp_path / "b" / "tiny")
    spec = resolve(str(first), device="cpu")
    assert (spec.kind, spec.location, len(spec.sha256)) == ("local", str(first), 64)
    assert resolve(str(copy), device="cpu").name == spec.name
    (copy / name).write_text(content)
    assert resolve(str(copy), device="cpu").name != spec.name


def test_every_shard_counts_for_a_models_digest(tmp_path):
    names = ("model-1.safetensors", "model-2.safetensors")
    folder = sharded(tmp_path / "m", {"x": names[0], "y": names[1], "z": names[0]}, present=names)
    before = resolve(str(folder), device="cpu").sha256
    (folder / names[1]).write_bytes(b"changed")
    assert resolve(str(folder), device="cpu").sha256 != before


def test_a_relative_path_with_one_slash_is_a_folder_where_there_is_one(tmp_path, monkeypatch):
    model_folder(tmp_path / "org" / "name")
    monkeypatch.chdir(tmp_path)
    assert resolve("org/name", device="cpu").kind == "local"


def test_a_gguf_file_is_known_by_its_hash(tmp_path):
    (tmp_path / "Some Model.Q4.gguf").write_bytes(b"GGUF and more")
    spec = resolve(str(tmp_path / "Some Model.Q4.gguf"), device="cpu")
    digest = hashlib.sha256(b"GGUF and more").hexdigest()
    assert (spec.kind, spec.sha256, spec.name) == ("gguf", digest, f"some-model.q4-{digest[:8]}")


@pytest.mark.parametrize(
    "title",
    ["plain", "Ünï cödé", "हिन्दी", "...", "a" * 200, "con", "smollm2-135m", "semi;colon $(x)", "-dash"],
)
def test_a_local_models_name_is_safe_as_a_folders_name(title, tmp_path):
    name = resolve(str(model_folder(tmp_path / title)), device="cpu").name
    assert re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,69}", name)
    assert name not in KNOWN_MODELS


# --- hub models ---


def test_a_hub_id_becomes_the_commit_that_its_branch_is_now(hub_that):
    hub_that(200, {"id": "Org/Name-1B", "sha": COMMIT})
    spec = resolve("Org/Name-1B", device="cpu")
    assert (spec.kind, spec.location, spec.revision, spec.sha256) == ("hub", "Org/Name-1B", COMMIT, None)
    assert spec.name == "org-name-1b-01234567"


def test_a_full_commit_is_taken_as_it_is():
    assert resolve(f"org/name@{COMMIT}", device="cpu").revision == COMMIT


def test_a_branch_is_looked_up_in_the_hubs_cache_where_the_hub_is_out_of_reach(tmp_path):
    repo = tmp_path / "hub-cache/models--org--name"
    model_folder(repo / "snapshots" / COMMIT)
    (repo / "refs").mkdir()
    (repo / "refs/main").write_text(COMMIT)
    assert resolve("org/name", device="cpu").revision == COMMIT


@pytest.mark.parametrize(
    ("header", "said"), [("RepoNotFound", "no public model"), ("RevisionNotFound", "no revision 'v9'")]
)
def test_what_the_hub_does_not_have_is_refused(header, said, hub_that):
    hub_that(404, {}, X_Error_Code=header)
    assert said in refusal("org/name@v9")


def test_offline_mode_never_asks_the_hub(hub_that, monkeypatch):
    hub_that(200, {"id": "org/name", "sha": COMMIT})
    monkeypatch.setattr(hub_constants, "HF_HUB_OFFLINE", True)
    assert "the hub cannot be reached" in refusal("org/name")


def test_a_hub_id_without_hub_or_cache_is_refused():
    assert "the hub cannot be reached" in refusal("org/name")
