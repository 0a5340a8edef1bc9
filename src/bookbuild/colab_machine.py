"""A stand-in for a machine of Colab: the libraries that are installed there, and nothing of this checkout.

What is real: pip, the package index, git, the kernel. What stands in: the versions are those of the
environment that this runs in, reached through links that pip cannot change, and `google.colab` is empty.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from packaging.requirements import Requirement

from cheap_inference.models.cache import CACHE_VARIABLE

from .files import emptied

#: What Colab has of all that a section could import. Not gguf, and none of what builds the book.
SHIPPED = (
    "accelerate",
    "Babel",
    "filelock",
    "huggingface_hub",
    "ipykernel",
    "matplotlib",
    "numpy",
    "pandas",
    "platformdirs",
    "requests",
    "safetensors",
    "torch",
    "tqdm",
    "transformers",
)
#: What a reader's machine has not: the settings of a build, other paths of Python, anybody's token.
UNKNOWN_THERE = ("CHEAP_INFERENCE_", "PYTHON", "VIRTUAL_ENV", "HF_TOKEN", "GITHUB_", "PYTEST_")
#: What venv itself puts there (the second one before Python 3.12).
OF_VENV = ("pip", "setuptools")


@dataclass(frozen=True)
class ColabMachine:
    """A fresh environment in `folder`.

    Attributes:
        site_packages: where pip installs.
        content: the folder that a notebook runs in, empty.
    """

    folder: Path
    site_packages: Path
    content: Path

    def kernel(self) -> AsyncKernelManager:
        """A kernel of the environment, not started."""
        specs = KernelSpecManager(kernel_dirs=[str(self.folder / "kernels")], ensure_native_kernel=False)
        return AsyncKernelManager(kernel_name="colab", kernel_spec_manager=specs)

    def installed(self) -> dict[str, metadata.Distribution]:
        """What pip has installed there, by name."""
        found = {each.name: each for each in metadata.distributions(path=[str(self.site_packages)])}
        return {name: each for name, each in found.items() if name not in OF_VENV}


def make_machine(folder: Path) -> ColabMachine:
    """Make a fresh environment in `folder`, which must not exist."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "python")], check=True)
    (site_packages,) = (folder / "python").glob("lib/python*/site-packages")
    link_shipped(emptied(folder / "shipped"))
    # Files of this kind in the linked folder are not read: an editable install stays out of sight.
    (site_packages / "shipped.pth").write_text(f"{folder / 'shipped'}\n", encoding="utf-8")
    (emptied(site_packages / "google" / "colab") / "__init__.py").touch()
    spec = {
        "argv": [str(folder / "python/bin/python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Colab",
    }
    (emptied(folder / "kernels" / "colab") / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return ColabMachine(folder, site_packages, emptied(folder / "content"))


def link_shipped(folder: Path) -> None:
    """Fill `folder` with links to what Colab has, as far as this environment has it."""
    for distribution in with_requirements(SHIPPED):
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            link = folder / top
            if not link.exists():
                link.symlink_to(distribution.locate_file(top))


def with_requirements(names: tuple[str, ...]) -> Iterator[metadata.Distribution]:
    """The distributions of these names and all that they require here."""
    waiting, seen = list(names), set()
    while waiting:
        name = waiting.pop()
        if name.lower() in seen:
            continue
        seen.add(name.lower())
        distribution = metadata.distribution(name)
        yield distribution
        required = map(Requirement, distribution.requires or ())
        waiting += [each.name for each in required if not each.marker or each.marker.evaluate({"extra": ""})]


def environment_there(environment: dict[str, str]) -> dict[str, str]:
    """The environment of a kernel there: this one without what belongs to a build or a person.

    The cache of models is kept: what a first download costs is no matter of the notebook.
    """
    return {
        name: value
        for name, value in environment.items()
        if name == CACHE_VARIABLE or not name.startswith(UNKNOWN_THERE)
    }
