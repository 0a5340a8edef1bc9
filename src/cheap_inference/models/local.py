"""What a model on the reader's disk must have, and the digest that tells it apart."""

from __future__ import annotations

import json
import re
from hashlib import file_digest, sha256
from pathlib import Path

from ..errors import UserError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
SETTINGS = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
)
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
CAUSAL_HEADS = ("ForCausalLM", "LMHeadModel")


def existing_path(name: str) -> Path | None:
    """The absolute path of the folder or file `name`, or None where there is none."""
    try:
        path = Path(name).expanduser().resolve(strict=True)
        return path if path.is_dir() or path.is_file() else None
    except (OSError, RuntimeError, ValueError):  # not there, too long, no such home, a loop of links
        return None


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def folder_digest(folder: Path) -> str:
    """SHA-256 of the list of digests of the folder's weights, configuration and tokenizer.

    The same weights answer differently under another configuration or another tokenizer.
    Raises UserError for a folder that holds no model this book can run.
    """
    check_config(folder)
    settings = (folder / name for name in SETTINGS)
    files = [*weight_files(folder), *(path for path in settings if path.is_file())]
    lines = "".join(f"{_readable_digest(file)}  {file.name}\n" for file in files)
    return sha256(lines.encode()).hexdigest()


def gguf_digest(path: Path) -> str:
    """SHA-256 of a GGUF file. Raises UserError for another kind of file, or one part of several."""
    if path.suffix.lower() != ".gguf":
        raise UserError(f"{path} is a file but not a .gguf: name the model's folder, or a .gguf file.")
    if re.search(r"-\d{5}-of-\d{5}$", path.stem):
        raise UserError(f"{path} is one part of a split GGUF file: merge the parts first.")
    digest = _readable_digest(path)
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise UserError(f"{path} is not a GGUF file: its first four bytes say so.")
    return digest


def weight_files(folder: Path) -> list[Path]:
    """The folder's safetensors files. Raises UserError where there are none, or one is missing."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        return _shards(folder)
    suffixes = {path.suffix for path in folder.iterdir()}
    if suffixes & set(PICKLES):
        raise UserError(
            f"{folder} holds only pickled weights, and nothing is ever unpickled: convert them to safetensors."
        )
    if ".gguf" in suffixes:
        raise UserError(f"{folder} holds a .gguf file and no {WEIGHTS}: name the .gguf file itself.")
    raise UserError(f"{folder} has no {WEIGHTS}: it is not a model's folder, or its download was cut short.")


def _shards(folder: Path) -> list[Path]:
    index = _json(folder / INDEX)
    weight_map = index.get("weight_map")
    names = sorted(set(map(str, weight_map.values()))) if isinstance(weight_map, dict) else []
    if not names or any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
        raise UserError(f"{folder / INDEX} does not list safetensors files of its own folder.")
    for name in names:
        if not (folder / name).is_file():
            raise UserError(f"{folder} lacks {name}, which its index lists: complete the download.")
    return [folder / name for name in names]


def check_config(folder: Path) -> None:
    """Raise UserError unless config.json describes an unquantised causal language model."""
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} has no config.json: name the folder that holds a model's own files.")
    config = _json(folder / "config.json")
    heads = config.get("architectures") or []
    if config.get("is_encoder_decoder"):
        raise UserError(f"{folder.name} is an encoder-decoder: the book runs decoder-only language models.")
    if not any(str(head).endswith(CAUSAL_HEADS) for head in heads):
        told = ", ".join(map(str, heads)) or "nothing"
        raise UserError(f"{folder.name} has no causal language-model head (its config.json names {told}).")
    if config.get("quantization_config"):
        raise UserError(f"{folder.name} is quantised already: use the model it was made from.")


def _json(path: Path) -> dict:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a JSON object.")
    return content


def _readable_digest(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
