"""A process that may use so much memory and no more, and generates until it has none left.

Run as a program by `experiments.fits`, never imported by a notebook: the limit holds for the whole process
and the end is a failed allocation. On Linux the limit is RLIMIT_DATA, which counts the memory a process may
write to; on CUDA it is the share of the card that torch's allocator may take. Each line of output is the
length that the cache has reached, so that the last line stands even if the process is killed.
"""

from __future__ import annotations

import gc
import json
import re
import sys
from pathlib import Path

import torch

from ..generation import decode_step, prefill
from ..kv_cache import cache_length, new_cache
from ..models.load import LoadedModel, load
from ..models.registry import ModelSpec
from ..passage import prompt_ids

#: Tokens fed in one pass, and single steps taken to reach the prediction itself.
CHUNK = 64
STEPS = 8


def main(settings: dict) -> None:
    """Load the model under the limit and grow one conversation: to the prediction, then until it fails."""
    spec, device = ModelSpec(**settings["spec"]), torch.device(settings["device"])
    dtype = getattr(torch, settings["dtype"])
    grow(load(spec, device=device, dtype=dtype), until=CHUNK)  # imports, thread stacks, kernels
    gc.collect()
    limit_memory(settings["card_bytes"], device)
    grow(load(spec, device=device, dtype=dtype), until=settings["tokens"], beyond=settings["most_tokens"])


@torch.inference_mode()
def grow(lm: LoadedModel, *, until: int, beyond: int = 0) -> None:
    """Feed the passage in chunks, generate the last tokens up to `until` one by one, feed chunks to `beyond`."""
    ids = prompt_ids(lm, max(until, beyond) + CHUNK)
    cache = new_cache(lm.config)

    def feed(end: int) -> torch.Tensor:
        while (start := cache_length(cache)) < end:
            logits = prefill(lm.model, ids[:, start : min(start + CHUNK, end)], cache)
            print(cache_length(cache), flush=True)
        return logits

    logits = feed(until - STEPS)
    while cache_length(cache) < until:
        logits = decode_step(lm.model, logits.argmax(dim=-1, keepdim=True), cache)
        print(cache_length(cache), flush=True)
    if beyond > until:
        feed(beyond)


def limit_memory(card_bytes: int, device: torch.device) -> None:
    """Allow this process `card_bytes` more than the libraries themselves hold now."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, card_bytes / total), device)
        return
    import resource

    held = re.search(
        r"^VmData:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE
    )
    limit = 1024 * int(held.group(1)) + card_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
