"""Speculative decoding of several requests in one pass: each row keeps as many guesses as it got right."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .kv_cache import forward
from .slot_cache import SlotCache, attention_masks
from .speculative import Round
from .timing import synchronize

LookUp = Callable[[list[int], int], list[int]]
JudgeGreedy = Callable[[Sequence[int], Any, torch.Tensor], tuple[int, int]]


class SpeculativeBatch:
    """Requests of one prompt length that decode together; their cached lengths part with the first round.

    Refused guesses need no cropping here: a row's length is set back, and its places are written again.

    Attributes:
        texts: token ids of each row, the prompt included; the cache holds all but the last.
    """

    def __init__(self, lm: Any, prompts: Sequence[list[int]], *, capacity: int):
        """`capacity`: cache places a row, for the prompt, the new tokens and the guesses of a round."""
        self.lm, self.prompts = lm, prompts
        self.cache = SlotCache(lm, slots=len(prompts), capacity=capacity)
        self.texts = [list(prompt) for prompt in prompts]
        self._feed([prompt[:-1] for prompt in prompts], starts=[0] * len(prompts), logits_to_keep=1)

    def rewind(self) -> None:
        """Back to the prompts."""
        self.texts = [list(prompt) for prompt in self.prompts]

    def run(
        self, look_up: LookUp, judge: JudgeGreedy, *, guesses: int, rounds: int
    ) -> tuple[float, list[list[Round]]]:
        """So many rounds for every row; their seconds, and the rounds of each row. No guesses: plain decoding."""
        found: list[list[Round]] = [[] for _ in self.texts]
        synchronize(self.lm.device)
        start = time.perf_counter()
        for _ in range(rounds):
            for row, one in enumerate(self._round(look_up, judge, guesses)):
                found[row].append(one)
        synchronize(self.lm.device)
        return time.perf_counter() - start, found

    def _round(self, look_up: LookUp, judge: JudgeGreedy, guesses: int) -> list[Round]:
        # A row without a guess repeats its last token: the pass has one shape, and a wrong guess does no harm.
        offers = [look_up(text, guesses) or [text[-1]] * guesses for text in self.texts]
        fed = [[text[-1], *offer] for text, offer in zip(self.texts, offers, strict=True)]  # [B, γ + 1]
        logits = self._feed(fed, starts=[len(text) - 1 for text in self.texts])  # [B, γ + 1, V]
        rounds = []
        for text, offer, row in zip(self.texts, offers, logits, strict=True):
            accepted, own = judge(offer, None, row)
            text += [*offer[:accepted], own]
            rounds.append(Round(len(offer), accepted))
        return rounds

    @torch.inference_mode()
    def _feed(self, ids: list[list[int]], *, starts: list[int], logits_to_keep: int = 0) -> torch.Tensor:
        """Logits [B, n or logits_to_keep, V] of ids [B, n], row i after its first starts[i] tokens."""
        tokens = torch.tensor(ids, device=self.lm.device)
        first = torch.tensor(starts, device=self.lm.device)[:, None]
        positions = first + torch.arange(tokens.shape[1], device=self.lm.device)  # [B, n]
        longest = max(starts) + tokens.shape[1]
        self.cache.place(range(len(ids)), positions, longest=longest)
        masks = attention_masks(self.lm.model, positions, longest=longest, dtype=self.lm.dtype)
        inputs = {"position_ids": positions, "attention_mask": masks, "logits_to_keep": logits_to_keep}
        return forward(self.lm.model, tokens, self.cache, **inputs)
