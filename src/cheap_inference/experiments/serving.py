"""What the serving sections share: the workload as requests and prompts, and how far rounding moves a logit."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..engine import slot_engine
from ..kv_cache import forward
from ..models.load import LoadedModel
from ..passage import PASSAGE
from ..scheduling import Request
from ..workload import cut_prompts, output_lengths, prompt_lengths


def workload_requests() -> list[Request]:
    """The workload's requests, all there at second 0."""
    pairs = zip(output_lengths(), prompt_lengths(), strict=True)
    return [Request(index, output, prompt) for index, (output, prompt) in enumerate(pairs)]


def workload_prompts(lm: LoadedModel) -> list[list[int]]:
    """Token ids of each request's prompt."""
    return cut_prompts(lm.tokenizer(PASSAGE)["input_ids"])


def places_needed() -> int:
    """Cache places that a server must keep ready for any request: the longest prompt, the longest answer.

    The token made last is never fed, so it needs no place.
    """
    return max(prompt_lengths()) + max(output_lengths()) - 1


@torch.inference_mode()
def batch_noise(lm: LoadedModel, prompts: Sequence[Sequence[int]]) -> float:
    """Largest difference of a prompt's last logits, fed whole and alone or its last token in a batch.

    The two are the same function; they differ because products of other shapes round differently.
    """
    longest = max(len(prompt) for prompt in prompts)
    engine = slot_engine(lm, prompts, slots=len(prompts), capacity=longest)
    for slot, prompt in enumerate(prompts):
        engine.extend(slot, prompt[:-1])
        engine.occupants[slot] = slot
    batched = engine.step_logits(engine.rows(), [[prompt[-1]] for prompt in prompts])  # [slots, V]
    alone = [
        forward(lm.model, torch.tensor([list(prompt)], device=lm.device), logits_to_keep=1)[0, -1]
        for prompt in prompts
    ]
    return float((batched - torch.stack(alone)).abs().max())
