"""What the tokens of a text cost: cache bytes, the time to read it and the time to say it, in each language."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from .. import kv_cache, quality, timing
from ..errors import UserError
from ..generation import decode_step
from ..models.load import LoadedModel
from ..passages import ENGLISH, parallel_text
from ..quantity import Quantity
from .language_damage import Damage, States, compare_rounded

#: Passages that the model reads; the tokens of all are counted.
PASSAGES_READ = 3
STEP_REPEATS = 9
MILLISECONDS = 1000


@dataclass(frozen=True)
class CostRow:
    """The passages read, in one language.

    `cache_bytes` come from the tensors; `follows`: they are what the formula gives for the tokens of each passage.
    `prefill` is the time for one passage, `step` one decode step with half a passage in the cache, `say` that step
    for every token of a passage. The ratios are to English in the same round; spreads are quartiles.
    """

    language: str
    tokens: int
    cache_bytes: int
    follows: bool
    prefill: Quantity
    prefill_ratio: Quantity
    step: Quantity
    say: Quantity
    say_ratio: Quantity


@dataclass(frozen=True)
class Reading:
    """What it costs to read and to say the passages, and what rounding the weights does to them.

    `noise` is the prefill of the English passage over a second one of the same.
    """

    passages: int
    noise: Quantity
    rows: tuple[CostRow, ...]
    damage: Damage


@torch.inference_mode()
def read_passages(lm: LoadedModel) -> Reading:
    """Time and keep the model's pass over each passage in each language, then repeat it with INT4 weights."""
    ids = _token_ids(lm)
    states: States = {}
    facts: dict[tuple[str, int], tuple[int, bool]] = {}
    quality.predicting_states(lm.model, ids[ENGLISH, 0])  # first calls are slow
    rounds = [_timed_round(lm, ids, states, facts, passage) for passage in range(PASSAGES_READ)]
    steps = _step_samples(lm, ids)
    english = {"prefill": [seconds[ENGLISH] for seconds in rounds], "step": steps[ENGLISH]}
    return Reading(
        passages=PASSAGES_READ,
        noise=timing.ratio([seconds["again"] for seconds in rounds], english["prefill"]),
        rows=tuple(
            _cost_row(
                language, ids, facts, [seconds[language] for seconds in rounds], steps[language], english
            )
            for language in parallel_text().languages
        ),
        damage=compare_rounded(lm, ids, states),
    )


def _token_ids(lm: LoadedModel) -> dict[tuple[str, int], torch.Tensor]:
    """Tokens [1, n] by language and passage, as the tokenizer hands them to the model."""
    ids = {
        (language, i): torch.tensor([lm.tokenizer(passage)["input_ids"]], device=lm.device)
        for language, passages in parallel_text().passages.items()
        for i, passage in enumerate(passages[:PASSAGES_READ])
    }
    longest = max(tensor.shape[1] for tensor in ids.values())
    if longest > quality.WINDOW:
        raise UserError(
            f"A passage has {longest} tokens here, more than the {quality.WINDOW} read at once: choose another model."
        )
    return ids


def _timed_round(lm: LoadedModel, ids: dict, states: States, facts: dict, passage: int) -> dict[str, float]:
    """Seconds of the prefill of one passage by language, and of English once more ("again")."""

    def read(language: str) -> None:
        cache = kv_cache.new_cache(lm.config)
        key = language, passage
        states[key] = quality.predicting_states(lm.model, ids[key], make_cache=lambda: cache)
        facts[key] = _cache_facts(lm, cache)

    functions = {language: partial(read, language) for language in parallel_text().languages}
    functions["again"] = functions[ENGLISH]
    order = list(functions.items())
    turns = dict(order if passage % 2 == 0 else reversed(order))
    samples = timing.interleaved(turns, repeats=1, device=lm.device, warmup=0)
    return {name: seconds[0] for name, seconds in samples.items()}


def _cache_facts(lm: LoadedModel, cache: object) -> tuple[int, bool]:
    """Bytes of the cached tensors, and whether the formula gives the same."""
    tokens = kv_cache.cache_length(cache)
    expected = kv_cache.cache_bytes_formula(lm.config, tokens, bytes_per_element=lm.dtype.itemsize)
    return kv_cache.cache_bytes(cache), kv_cache.cache_bytes(cache) == expected


def _step_samples(lm: LoadedModel, ids: dict) -> dict[str, list[float]]:
    """Seconds of a decode step by language, half a passage in the cache.

    A step grows linearly with its cache, so the one at half way is the mean over the passage.
    """
    halves = {language: _tokens(ids, language) // (2 * PASSAGES_READ) for language, _ in ids}
    caches = {
        language: kv_cache.filled_cache(lm.config, tokens=half, dtype=lm.dtype, device=lm.device)
        for language, half in halves.items()
    }
    token = torch.zeros(1, 1, dtype=torch.long, device=lm.device)
    return timing.interleaved(
        {
            language: lambda language=language: decode_step(lm.model, token, caches[language])
            for language in caches
        },
        repeats=STEP_REPEATS,
        device=lm.device,
        before=lambda: [kv_cache.crop_to(caches[language], halves[language]) for language in caches],
    )


def _tokens(ids: dict, language: str) -> int:
    return sum(tensor.shape[1] for (code, _), tensor in ids.items() if code == language)


def _cost_row(
    language: str, ids: dict, facts: dict, prefills: list[float], steps: list[float], english: dict
) -> CostRow:
    mine = [fact for (code, _), fact in facts.items() if code == language]
    tokens = _tokens(ids, language)
    say = [tokens / PASSAGES_READ * step for step in steps]
    english_say = [_tokens(ids, ENGLISH) / PASSAGES_READ * step for step in english["step"]]
    return CostRow(
        language=language,
        tokens=tokens,
        cache_bytes=sum(size for size, _ in mine),
        follows=all(follows for _, follows in mine),
        prefill=timing.median_seconds(prefills),
        prefill_ratio=timing.ratio(prefills, english["prefill"]),
        step=Quantity.of_samples([MILLISECONDS * step for step in steps], unit="ms"),
        say=timing.median_seconds(say),
        say_ratio=timing.ratio(say, english_say),
    )
