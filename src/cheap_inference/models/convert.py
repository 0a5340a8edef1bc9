"""GGUF files become safetensors and a tokenizer, once, so that a later load takes a second, not sixteen."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from ..errors import UserError
from .cache import cache_root, locked_cache, no_space, require_space, scratch_folder
from .hub import first_line
from .local import sha256_of
from .quiet import quiet

# Raised when what is written changes: older conversions are then made anew.
FORMAT = 1
MANIFEST = "manifest.json"
# A 4-bit file grows eightfold in fp32; finer ones less.
GROWTH = 8


def converted(gguf_sha256: str, source: Callable[[Path], Path]) -> Path:
    """The folder with the converted files of the GGUF file of this hash; every file is checked on every call.

    `source` returns the GGUF file, given the cache's folder; it is called only where a conversion is due.
    Raises UserError where the file is no GGUF model that transformers reads, or the disk does not allow it.
    """
    folder = cache_root() / gguf_sha256[:16]
    if is_intact(folder, gguf_sha256):
        return folder
    with locked_cache() as root:
        if is_intact(folder, gguf_sha256):  # another process made it while this one waited
            return folder
        if folder.exists():
            print("The converted model in the cache is damaged: converting it again.", flush=True)
            shutil.rmtree(folder)
        gguf = source(root)
        if sha256_of(gguf) != gguf_sha256:
            raise UserError(f"{gguf} has changed since it was named: run again.")
        require_space(root, GROWTH * gguf.stat().st_size)
        with scratch_folder(root) as scratch:
            _convert(gguf, gguf_sha256, scratch / "model")
            os.replace(scratch / "model", folder)
    return folder


def is_intact(folder: Path, gguf_sha256: str) -> bool:
    """Whether the manifest is there, is about this GGUF file, and every file is as it was written."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT or manifest["source_sha256"] != gguf_sha256:
            return False
        listed = manifest["files"]
        if _names(folder) != set(listed) or any(
            (folder / name).stat().st_size != entry["size"] for name, entry in listed.items()
        ):
            return False
        return all(sha256_of(folder / name) == entry["sha256"] for name, entry in listed.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _names(folder: Path) -> set[str]:
    """Files besides the manifest; hidden ones, which file managers leave, are not read by anything."""
    return {path.name for path in folder.iterdir() if path.name != MANIFEST and not path.name.startswith(".")}


def _convert(gguf: Path, gguf_sha256: str, folder: Path) -> None:
    folder.mkdir()
    write_model(gguf, folder)
    manifest = {
        "format": FORMAT,
        "source_sha256": gguf_sha256,
        "versions": {name: version(name) for name in ("transformers", "gguf")},
        "files": {
            name: {"size": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)}
            for name in sorted(_names(folder))
        },
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def write_model(gguf: Path, folder: Path) -> None:
    """Write the model's fp32 weights (dequantised values are exact there) and its tokenizer to `folder`."""
    with quiet():
        model, tokenizer = _read(gguf, folder.parent / "source")
        # save_pretrained refuses a model that still says it is quantised.
        model.hf_quantizer = None
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        try:
            model.save_pretrained(folder)
        except Exception as error:  # safetensors reports a full disk as an error of its own
            if "No space left" in str(error) or "os error 28" in str(error):
                raise no_space(folder.parent.parent) from error
            raise
        tokenizer.save_pretrained(folder)


def _read(gguf: Path, alone: Path):
    """Model (fp32) and tokenizer of a GGUF file, read from a folder that holds nothing else.

    transformers also reads the configuration files that lie beside a GGUF file; they may be another model's.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    alone.mkdir()
    try:
        os.symlink(gguf.absolute(), alone / "model.gguf")
    except OSError:  # Windows, without the privilege
        shutil.copyfile(gguf, alone / "model.gguf")
    try:
        model, report = AutoModelForCausalLM.from_pretrained(
            alone,
            gguf_file="model.gguf",
            dtype=torch.float32,
            output_loading_info=True,
            local_files_only=True,
        )
        tokenizer = AutoTokenizer.from_pretrained(alone, gguf_file="model.gguf", local_files_only=True)
    except Exception as error:  # a parser of foreign bytes: garbage raises whatever it runs into
        raise UserError(
            f"{gguf.name} is damaged, cut short, or of a kind that transformers cannot read "
            f"({type(error).__name__}: {first_line(error)}): download it again, or use another model."
        ) from error
    if report["missing_keys"]:
        raise UserError(f"{gguf.name} lacks weights, such as {sorted(report['missing_keys'])[0]}.")
    return model, tokenizer
