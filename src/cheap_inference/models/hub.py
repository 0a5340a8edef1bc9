"""Public models of the hub: is it there, at which commit, and its files. Without a token, ever."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from ..errors import UserError

TIMEOUT_SECONDS = 4.0
# No pickles, no code. fnmatch's * crosses folders, so those are excluded by name.
WANTED_FILES = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"]
UNWANTED_FILES = ["*/*", "consolidated*"]


def is_repo_id(text: str) -> bool:
    """Whether `text` has the form org/name."""
    part = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_-])?"
    return bool(re.fullmatch(f"{part}/{part}", text)) and ".." not in text and "--" not in text


def is_revision(text: str) -> bool:
    """Whether `text` may be a branch, a tag or a commit."""
    return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}", text)) and ".." not in text


def available(repo: str, revision: str) -> bool:
    """Whether the model can be had, now from the hub or from an earlier download."""
    try:
        return _online_commit(repo, revision) is not None or _cached_folder(repo, revision) is not None
    except UserError:
        return False


def commit_of(repo: str, revision: str) -> str:
    """The commit (40 hexadecimal digits) that `revision` is now, or was at the last download.

    Raises UserError where the hub has no such public model, or can't be reached and it isn't on this disk.
    """
    if re.fullmatch(r"[0-9a-f]{40}", revision):
        return revision
    commit = _online_commit(repo, revision)
    if commit:
        return commit
    folder = _cached_folder(repo, revision)
    if folder:
        return folder.name
    raise _out_of_reach(repo)


def snapshot(repo: str, revision: str) -> Path:
    """The folder with the model's files, downloaded where need be. Raises UserError as `commit_of` does."""
    if _online_commit(repo, revision) is None:
        folder = _cached_folder(repo, revision)
        if folder is None:
            raise _out_of_reach(repo)
        return folder
    try:
        return _snapshot(repo, revision, local_files_only=False)
    except Exception as error:  # the hub's client has changed its HTTP library, and its errors, three times
        raise UserError(f"{repo} cannot be downloaded ({first_line(error)}): try again later.") from error


def first_line(error: BaseException) -> str:
    """The first line of an error's message, short enough to be part of another."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip(" .:")


def _out_of_reach(repo: str) -> UserError:
    return UserError(
        f"{repo} is neither a folder here nor in the hub's cache, and the hub cannot be reached: "
        "connect to the network, or name a local folder or a .gguf file."
    )


def _online_commit(repo: str, revision: str) -> str | None:
    """Ask the hub; None where it can't be reached in time. Raises UserError if it has no such model."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    def ask() -> str:
        return HfApi(token=False).model_info(repo, revision=revision, timeout=TIMEOUT_SECONDS).sha

    try:
        return _within(TIMEOUT_SECONDS, ask)
    except RevisionNotFoundError as error:
        raise UserError(f"The hub's {repo} has no revision {revision!r}.") from error
    except RepositoryNotFoundError as error:
        raise UserError(f"The hub has no public model {repo!r}, and there is no such folder here.") from error
    except Exception:  # offline mode, no route, a proxy's refusal: all of them mean "not now"
        return None


def _within(seconds: float, function: Callable[[], str]) -> str | None:
    """The function's result or error; None once the time is over (looking up a name has no timeout)."""
    outcome: list[str | Exception] = []

    def run() -> None:
        try:
            outcome.append(function())
        except Exception as error:
            outcome.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if outcome and isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0] if outcome else None


def _cached_folder(repo: str, revision: str) -> Path | None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = _snapshot(repo, revision, local_files_only=True)
    except (LocalEntryNotFoundError, OSError, ValueError):
        return None
    return folder if (folder / "config.json").is_file() else None


def _snapshot(repo: str, revision: str, *, local_files_only: bool) -> Path:
    from huggingface_hub import snapshot_download

    return Path(
        snapshot_download(
            repo,
            revision=revision,
            allow_patterns=WANTED_FILES,
            ignore_patterns=UNWANTED_FILES,
            token=False,
            local_files_only=local_files_only,
        )
    )
