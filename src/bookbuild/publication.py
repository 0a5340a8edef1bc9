"""Where the book is published: its repository and commit, the branch with the built site, its address."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import yaml

from .errors import BuildError

COLAB = "https://colab.research.google.com/github"
#: The one host that Colab opens notebooks from.
GITHUB = re.compile(r"https://github\.com/(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)")
ADDRESS = re.compile(r"(https|file)://\S+")


@dataclass(frozen=True)
class Publication:
    """What the pages and notebooks of one build say of where they come from.

    Attributes:
        repository: address that git clones; None: no one knows it.
        commit: what the book is built from, in 40 digits; None: not known.
        branch: of the repository, with the built site at its root.
        site: address of the site's root without a slash at its end; None: not known.
    """

    repository: str | None = None
    commit: str | None = None
    branch: str = ""
    site: str | None = None

    @property
    def requirement(self) -> str | None:
        """What pip installs to get this build's package; None where that cannot be said."""
        if not (self.repository and self.commit):
            return None
        return f"git+{self.repository}@{self.commit}"

    def colab(self, path: str) -> str | None:
        """Address that opens a notebook of the site in Colab; None where Colab could not, or could not run it.

        Args:
            path: from the root of the site.
        """
        github = GITHUB.fullmatch(self.repository or "")
        if not github or not self.requirement:
            return None
        return f"{COLAB}/{github['owner']}/{github['name']}/blob/{quote(self.branch)}/{quote(path)}"


def read_publication(root: Path, environment: Mapping[str, str] = os.environ) -> Publication:
    """What CI's environment and `_config.yml` say of the checkout at `root`.

    CI goes first: in a fork the commit lies in the fork, whatever address its configuration has kept.

    Raises:
        BuildError: an address in the configuration is none.
    """
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    own = config["publication"]
    repository = _ci_repository(environment) or _address("repository: url", config["repository"]["url"])
    repository = repository.removesuffix(".git") if repository else None
    site = _address("publication: site", own["site"]) or _pages_site(repository)
    commit = _head(root) or environment.get("GITHUB_SHA")
    return Publication(repository, commit or None, own["branch"], site)


def _ci_repository(environment: Mapping[str, str]) -> str | None:
    name = environment.get("GITHUB_REPOSITORY")
    return f"{environment.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}" if name else None


def _address(setting: str, value: str | None) -> str | None:
    if not value:
        return None
    if not ADDRESS.fullmatch(value):
        raise BuildError(f"_config.yml, {setting}: {value!r} is no address: begin it with https://")
    return value.rstrip("/")


def _pages_site(repository: str | None) -> str | None:
    """Where GitHub Pages puts a repository's site unless told otherwise."""
    github = GITHUB.fullmatch(repository or "")
    if not github:
        return None
    host = f"{github['owner'].lower()}.github.io"
    return f"https://{host}" if github["name"].lower() == host else f"https://{host}/{github['name']}"


def _head(root: Path) -> str | None:
    git = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
