"""The held-out prose: chapters 1 to 12 of Moby-Dick, cut once into ranges that never overlap.

Ranges end at chapter ends, so they are the same text under every tokenizer. What is fitted (scales,
compensation, students) reads one range; what is judged reads another.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

from .errors import UserError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

Range = Literal["evaluation", "distillation", "calibration", "holdout"]

#: First and last chapter of each range.
CHAPTERS: dict[Range, tuple[int, int]] = {
    "evaluation": (1, 2),
    "distillation": (3, 4),
    "calibration": (5, 7),
    "holdout": (8, 12),
}
_HEADING = re.compile(r"^CHAPTER (\d+)\.", re.MULTILINE)


@cache
def whole_text() -> str:
    """The whole corpus."""
    return files(__package__).joinpath("data", "corpus", "moby_dick.txt").read_text(encoding="utf-8")


def sha256() -> str:
    """Digest of the corpus as UTF-8 bytes."""
    return hashlib.sha256(whole_text().encode()).hexdigest()


def text(name: Range) -> str:
    """The text of one range."""
    first, last = CHAPTERS[name]
    starts = {int(match[1]): match.start() for match in _HEADING.finditer(whole_text())}
    return whole_text()[starts[first] : starts.get(last + 1)]


def token_ids(tokenizer: PreTrainedTokenizerBase, name: Range, *, count: int, skip: int = 0) -> torch.Tensor:
    """`count` tokens of a range after the first `skip`: [1, count].

    The tokenizer is left to itself: it puts its own first token where it has one, and only there.

    Raises:
        UserError: the range is shorter than that.
    """
    import torch

    ids = tokenizer(text(name))["input_ids"]
    if len(ids) < skip + count:
        raise UserError(
            f"The corpus range {name!r} has {len(ids)} tokens here: ask for {skip + count} or fewer."
        )
    return torch.tensor([ids[skip : skip + count]])


def byte_count(tokenizer: PreTrainedTokenizerBase, ids: torch.Tensor) -> int:
    """UTF-8 bytes of the text that `ids` [n] decode to."""
    return len(tokenizer.decode(ids, skip_special_tokens=True).encode())
