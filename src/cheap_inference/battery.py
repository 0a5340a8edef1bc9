"""Sixteen short questions with known answers, asked greedily and marked by stated rules.

The rules are strict and simple, so that a reader can apply them by hand. For a number, the first number
in the answer that the question does not itself contain must be the right one; an answer without digits
may spell it. For a word, one of the accepted answers must stand as whole words in the first sentence.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn
from transformers import Cache

from .kv_cache import copy_cache, forward, new_cache

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: Tokens an answer may have: enough for a short sentence, which is all that is read.
ANSWER_TOKENS = 12
#: A whole number token: a sign counts, a decimal part counts, a digit group with a comma counts.
NUMBER = re.compile(r"(?<![\w.])[-−+]?\d+(?:[.,]\d+)*(?!\w)")


@dataclass(frozen=True)
class Question:
    """One question; `answers` are the accepted spellings, a number's digits first."""

    text: str
    kind: Literal["number", "word"]
    answers: tuple[str, ...]


@cache
def questions() -> tuple[Question, ...]:
    """The battery, in its fixed order."""
    return tuple(
        Question(item["text"], item["kind"], tuple(item["answers"])) for item in _battery_file()["question"]
    )


@cache
def instruction() -> str:
    """What is added to every question to keep the answers short."""
    return _battery_file()["instruction"]


def _battery_file() -> dict:
    return tomllib.loads(files(__package__).joinpath("data", "battery.toml").read_text(encoding="utf-8"))


def is_correct(question: Question, answer: str) -> bool:
    """Whether an answer counts, by the rules above."""
    if question.kind == "word":
        return _spelled(question.answers, first_sentence(answer))
    given = set(NUMBER.findall(question.text))
    numbers = [token for token in NUMBER.findall(answer) if token not in given]
    if numbers:
        return _plain(numbers[0]) == question.answers[0]
    return _spelled(question.answers[1:], first_sentence(answer))


def first_sentence(answer: str) -> str:
    """Up to the first full stop, question mark, exclamation mark or line end."""
    return re.split(r"[.!?](?:\s|$)|\n", answer.strip(), maxsplit=1)[0]


def _plain(number: str) -> str:
    """A number token without digit groups and a plus sign: "1,000" is "1000", "8.0" stays what it is."""
    return re.sub(r",(?=\d{3}\b)", "", number.lstrip("+"))


def _spelled(accepted: Sequence[str], text: str) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE) for answer in accepted)


def prompt_of(tokenizer: PreTrainedTokenizerBase, question: Question) -> list[int]:
    """Tokens of the question in the model's chat format, or as plain text where it has none."""
    if not tokenizer.chat_template:
        return tokenizer(f"Question: {question.text}\nAnswer:")["input_ids"]
    message = [{"role": "user", "content": f"{question.text} {instruction()}"}]
    text = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def penalised(logits: torch.Tensor, seen: torch.Tensor, penalty: float) -> torch.Tensor:
    """Logits [B, V] with the tokens of the mask `seen` [B, V] made less likely (Keskar et al., arXiv:1909.05858).

    A positive logit is divided by the penalty, a negative one multiplied by it; 1 changes nothing.
    """
    lowered = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(seen, lowered, logits)


@torch.inference_mode()
def ask(
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    asked: Sequence[Question],
    *,
    penalties: Sequence[float],
    new_tokens: int = ANSWER_TOKENS,
) -> list[list[str]]:
    """Greedy answers [penalties][questions], all questions in one batch.

    Rows are padded on the left; positions are counted from the mask, so padding shifts nothing. The
    penalty looks at a row's prompt and answer so far, never at its padding. All penalties share a prefill.
    """
    prompts = [prompt_of(tokenizer, question) for question in asked]
    ids, mask = _left_padded(prompts, device=model.device)
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    cache = new_cache(model.config)
    start = forward(model, ids, cache, logits_to_keep=1, attention_mask=mask, position_ids=positions)[:, -1]
    seen = _seen(ids, mask, start.shape[-1])
    stop = _stop_ids(model, tokenizer)
    answers = []
    for penalty in penalties:
        choose = _Chooser(seen.clone(), penalty=penalty, stop=stop)
        tokens = _decode(model, copy_cache(cache), start, mask, choose, new_tokens=new_tokens)
        answers.append(tokenizer.batch_decode(tokens, skip_special_tokens=True))
    return answers


class _Chooser:
    """Greedy choice under a penalty; a row that has reached a stop token repeats it."""

    def __init__(self, seen: torch.Tensor, *, penalty: float, stop: torch.Tensor):
        self._seen, self._penalty, self._stop = seen, penalty, stop
        self._last: torch.Tensor | None = None  # [B, 1]

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        """Next tokens [B, 1] from logits [B, V]."""
        tokens = penalised(logits.float(), self._seen, self._penalty).argmax(dim=-1, keepdim=True)
        if self._last is not None:
            tokens = torch.where(torch.isin(self._last, self._stop), self._last, tokens)
        self._seen.scatter_(1, tokens, True)
        self._last = tokens
        return tokens

    def finished(self) -> bool:
        """Whether every row has reached a stop token."""
        return bool(torch.isin(self._last, self._stop).all())


def _decode(
    model: nn.Module,
    cache: Cache,
    logits: torch.Tensor,
    mask: torch.Tensor,
    choose: _Chooser,
    *,
    new_tokens: int,
) -> torch.Tensor:
    """Tokens [B, at most new_tokens] after a prefill that gave `logits` [B, V] under `mask` [B, P]."""
    tokens = [choose(logits)]
    while len(tokens) < new_tokens and not choose.finished():
        positions = mask.sum(dim=1, keepdim=True)  # [B, 1]: tokens of the row so far
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
        inputs = {"attention_mask": mask, "position_ids": positions}
        logits = forward(model, tokens[-1], cache, logits_to_keep=1, **inputs)[:, -1]
        tokens.append(choose(logits))
    return torch.cat(tokens, dim=1)


def _left_padded(prompts: list[list[int]], *, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask [B, longest]; padding repeats the row's first token and is masked out."""
    longest = max(map(len, prompts))
    rows = [[prompt[0]] * (longest - len(prompt)) + prompt for prompt in prompts]
    masks = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(rows, device=device), torch.tensor(masks, device=device)


def _seen(ids: torch.Tensor, mask: torch.Tensor, vocabulary: int) -> torch.Tensor:
    seen = torch.zeros(len(ids), vocabulary, dtype=torch.int64, device=ids.device)
    return seen.scatter_add_(1, ids, mask) > 0


def _stop_ids(model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> torch.Tensor:
    """Ends of text: what the model's settings and the tokenizer say."""
    stored = model.generation_config.eos_token_id
    known = {tokenizer.eos_token_id, *(stored if isinstance(stored, list) else [stored])} - {None}
    return torch.tensor(sorted(known), device=model.device)
