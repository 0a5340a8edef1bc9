"""A small serving engine: the executor that does a schedule's work with the model.

Every decode step feeds one token for each slot, whatever the lengths of their caches; position ids and
a mask per slot keep the requests apart. The batch keeps its shape: an empty slot is computed too and
its result thrown away, as a server with a fixed batch (or a CUDA graph) does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .errors import UserError
from .kv_cache import forward
from .scheduling import Request
from .slot_cache import PlacedCache, SlotCache, attention_masks
from .timing import synchronize


class Engine:
    """Greedy decoding of requests in slots.

    Attributes:
        tokens: tokens made for each request so far, by index.
        decode_seconds, prefill_seconds: what each step and each prefill took.
    """

    def __init__(self, lm: Any, prompts: Sequence[Sequence[int]], *, slots: int, cache: PlacedCache):
        """`cache` has room for `slots` slots; `prompts` are the token ids of each request, by index."""
        self.lm, self.prompts, self.cache = lm, prompts, cache
        self.tokens: list[list[int]] = [[] for _ in prompts]
        self.decode_seconds: list[float] = []
        self.prefill_seconds: list[float] = []
        self.occupants: list[int | None] = [None] * slots
        self.lengths = [0] * slots

    def prefill(self, slot: int, request: Request) -> float:
        """The prompt, and what was made before a preemption, in one pass; the request's next token."""
        made = self.tokens[request.index]
        seconds, logits = self.timed(lambda: self.extend(slot, [*self.prompts[request.index], *made]))
        made.append(int(logits.argmax()))
        self.occupants[slot] = request.index
        self.prefill_seconds.append(seconds)
        return seconds

    def decode(self) -> float:
        """One more token for every occupied slot."""
        rows = self.rows()
        occupants = [self.occupants[row] for row in rows]
        newest = [[0 if index is None else self.tokens[index][-1]] for index in occupants]  # [R, 1]
        seconds, chosen = self.timed(lambda: self.step_logits(rows, newest).argmax(dim=-1).tolist())
        for row, index, token in zip(rows, occupants, chosen, strict=True):
            if index is not None:
                self.tokens[index].append(token)
                self.lengths[row] += 1
        self.decode_seconds.append(seconds)
        return seconds

    def release(self, slot: int) -> None:
        """Empty the slot; what its cache held is overwritten by the next request."""
        self.occupants[slot], self.lengths[slot] = None, 0

    def extend(self, slot: int, ids: Sequence[int]) -> torch.Tensor:
        """Feed further tokens to one slot, in one pass; logits [V] after the last."""
        logits = self.step_logits([slot], [list(ids)])[0]
        self.lengths[slot] += len(ids)
        return logits

    def rows(self) -> list[int]:
        """Slots that a decode step computes: all of them."""
        return list(range(len(self.occupants)))

    @torch.inference_mode()
    def step_logits(self, rows: Sequence[int], ids: list[list[int]]) -> torch.Tensor:
        """Feed `ids` [R, n] to the slots `rows`, each after what it holds; last logits [R, V]."""
        tokens = torch.tensor(ids, device=self.lm.device)
        starts = torch.tensor([self.lengths[row] for row in rows], device=self.lm.device)
        positions = starts[:, None] + torch.arange(tokens.shape[1], device=self.lm.device)  # [R, n]
        longest = self._longest(rows) + tokens.shape[1]
        self.cache.place(rows, positions, longest=longest)
        masks = attention_masks(self.lm.model, positions, longest=longest, dtype=self.lm.dtype)
        inputs = {"position_ids": positions, "attention_mask": masks}
        return forward(self.lm.model, tokens, self.cache, logits_to_keep=1, **inputs)[:, -1]

    def _longest(self, rows: Sequence[int]) -> int:
        """Places that the fullest of the slots holds; slots that nobody decodes in do not count."""
        decoding = [self.lengths[row] for row in rows if self.occupants[row] is not None]
        return max(decoding, default=0) if len(rows) > 1 else self.lengths[rows[0]]

    def timed(self, function: Callable[[], Any]) -> tuple[float, Any]:
        synchronize(self.lm.device)
        start = time.perf_counter()
        result = function()
        synchronize(self.lm.device)
        return time.perf_counter() - start, result


def slot_engine(lm: Any, prompts: Sequence[Sequence[int]], *, slots: int, capacity: int) -> Engine:
    """An engine with a contiguous cache of `capacity` places a slot."""
    return Engine(lm, prompts, slots=slots, cache=SlotCache(lm, slots=slots, capacity=capacity))


@dataclass(frozen=True)
class Check:
    """Tokens of one request against the model's own choice at every place.

    `first_difference` is the place of the first token that is not the choice, None where there is none;
    `margin` the smallest lead of a best logit over the second, at the difference where there is one.
    """

    first_difference: int | None
    margin: float


@torch.inference_mode()
def check_tokens(lm: Any, prompt: Sequence[int], tokens: Sequence[int]) -> Check:
    """Compare tokens with greedy decoding of this request alone, in one teacher-forced pass.

    The pass feeds the prompt and the tokens at once, without a cache. If every token is the best choice
    after its predecessors, then decoding alone gives the same ones, by induction from the first.

    Raises:
        UserError: there are no tokens to check.
    """
    if not tokens:
        raise UserError("A request without tokens cannot be checked.")
    ids = torch.tensor([[*prompt, *tokens[:-1]]], device=lm.device)
    logits = forward(lm.model, ids, logits_to_keep=len(tokens))[0]  # [L, V]
    best, choice = logits.float().topk(2, dim=-1)
    margins = (best[:, 0] - best[:, 1]).tolist()
    wrong = [place for place, token in enumerate(tokens) if token != int(choice[place, 0])]
    return Check(wrong[0], margins[wrong[0]]) if wrong else Check(None, min(margins))


def agree(lm: Any, prompt: Sequence[int], one: Sequence[int], other: Sequence[int], *, noise: float) -> bool:
    """Whether two answers are equal, or first differ where the model's two best logits are a tie.

    A tie is a lead below twice `noise`, the difference that rounding makes in a logit.
    """
    places = range(max(len(one), len(other)))
    first = next((place for place in places if one[place : place + 1] != other[place : place + 1]), None)
    if first is None:
        return True
    if first >= min(len(one), len(other)):
        return False
    ids = torch.tensor([[*prompt, *one[:first]]], device=lm.device)
    best, second = forward(lm.model, ids, logits_to_keep=1)[0, -1].float().topk(2).values.tolist()
    return best - second < 2 * noise
