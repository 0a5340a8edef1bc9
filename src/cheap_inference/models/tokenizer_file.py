"""The tokenizer of a model on the hub, without its weights: one file of a few megabytes. No torch here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import hub
from .quiet import quiet

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FILE = "tokenizer.json"


def hub_tokenizer(repo: str, revision: str) -> Tokenizer | None:
    """The tokenizer, from the hub or an earlier download; None, after seconds, where neither can be had."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from tokenizers import Tokenizer

    path = try_to_load_from_cache(repo, FILE, revision=revision)
    if not isinstance(path, str):  # never asked for, or known to be missing
        if not hub.available(repo, revision):
            return None
        try:
            with quiet():
                path = hf_hub_download(repo, FILE, revision=revision, token=False)
        except Exception:  # as in `hub`: whatever fails on the way means "not now"
            return None
    return Tokenizer.from_file(path)
