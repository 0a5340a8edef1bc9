"""Publishing with git: the built site as the one commit of its branch, the history as a commit of its own.

Only the standard library and git: the job that may write runs nothing else.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

AUTHOR = ("-c", "user.name=nightly run", "-c", "user.email=nightly@localhost")
#: Another push may come between fetching and pushing.
TRIES = 3


def publish_site(site: Path, remote: str, branch: str) -> None:
    """Make `branch` of `remote` hold the site and nothing else, in one commit without a past.

    Raises:
        FileNotFoundError: there is no built site.
        CalledProcessError: git failed; its message went to stderr.
    """
    if not (site / "index.html").is_file():
        raise FileNotFoundError(f"{site} holds no built site")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "site")
        shutil.copytree(site, work)
        (work / ".nojekyll").touch()  # else folders that begin with an underscore are not served
        _git(work, "init", "--quiet", "--initial-branch", branch)
        _git(work, "add", "--all", "--force")
        _git(work, *AUTHOR, "commit", "--quiet", "--message", "The built site")
        _git(work, "push", "--quiet", "--force", remote, branch)


def publish_history(history: Path, remote: str, branch: str) -> bool:
    """Add the lines of `history` that `branch` of `remote` lacks, as a commit; return whether there were any.

    Raises:
        CalledProcessError: git failed, three times over where the branch moved meanwhile.
    """
    for tried in range(1, TRIES + 1):
        try:
            return _push_history(history, remote, branch)
        except subprocess.CalledProcessError:
            if tried == TRIES:
                raise
    raise AssertionError("unreachable")


def _push_history(history: Path, remote: str, branch: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "checkout")
        _git(Path(folder), "clone", "--quiet", "--depth", "1", "--branch", branch, remote, str(work))
        kept = work / history.parent.name / history.name
        old = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
        new = [line for line in history.read_text(encoding="utf-8").splitlines() if line not in old]
        if not new:
            return False
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("".join(f"{line}\n" for line in (*old, *new)), encoding="utf-8")
        _git(work, "add", str(kept))
        _git(work, *AUTHOR, "commit", "--quiet", "--message", "History: the night's values")
        _git(work, "push", "--quiet", "origin", f"HEAD:{branch}")
        return True


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, env={**os.environ, **_credentials()})


def _credentials() -> dict[str, str]:
    """GITHUB_TOKEN as a header of git's requests, given where no list of processes shows it."""
    token = os.environ.get("GITHUB_TOKEN")
    if not token:
        return {}
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{server}/.extraheader",
        "GIT_CONFIG_VALUE_0": f"Authorization: basic {secret}",
    }
