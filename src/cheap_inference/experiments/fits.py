"""Measurements of the section fits: the chapter's tables, what they hang on, open models, and the limit proved."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

from .. import cost, fits
from ..fits import GIB, MODEL_7B, MODEL_13B, MODEL_70B, Fit, Model
from ..models.load import LoadedModel

FitFunction = Callable[..., Fit]

WIDTHS = (16, 8, 4.125)
CARDS_GIB = (8, 16, 24)
#: Tokens that the chapter's tables give at the three widths; None where the weights do not fit.
CHAPTER_TOKENS = {
    (8, "7B"): (None, None, 25_710),
    (8, "13B"): (None, None, 337),
    (8, "70B"): (None, None, None),
    (16, "7B"): (11_972, 65_378, 91_246),
    (16, "13B"): (None, 3_136, 10_822),
    (16, "70B"): (None, None, None),
    (24, "7B"): (77_508, 130_914, 156_782),
    (24, "13B"): (None, 13_622, 21_308),
    (24, "70B"): (None, None, None),
}
FEWER_KV_HEADS = 8
#: One 16-bit scale for each 128 numbers.
SCALE_BITS_A_NUMBER = 0.125

#: What the limited process is asked to hold, and what its passes may need beside weights and cache.
PROOF_TOKENS = 512
PROOF_RESERVE_BYTES = {"cpu": 64 * 2**20, "cuda": 512 * 2**20}
PROOF_SECONDS = 300
# glibc then gives every freed tensor back at once; otherwise what it keeps would count as held.
PROMPT_RELEASE = {"MALLOC_MMAP_THRESHOLD_": "65536", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


@dataclass(frozen=True)
class Cell:
    """One model at one width on one card. `tokens` None: the weights do not fit."""

    model: str
    bits: float
    card_gib: int
    weight_bytes: int
    token_bytes: float
    room_bytes: int
    tokens: int | None


@dataclass(frozen=True)
class Tables:
    """The chapter's tables: three models, three widths, three cards."""

    cells: tuple[Cell, ...]
    equal_to_chapter: bool
    reserve_bytes: int
    weights_7b_fp16: int
    weights_13b_4bit: int
    token_bytes_7b: int
    token_bytes_13b: int
    tokens_13b_4bit_8gib: int
    tokens_7b_int8_16gib: int
    tokens_13b_int8_16gib: int


@dataclass(frozen=True)
class HangsOn:
    """What moves the chapter's answers: tokens under another assumption, and two ratios taken apart."""

    tokens: int
    without_reserve: int
    with_fewer_heads: int
    with_half_cache: int
    token_ratio: float
    room_ratio: float
    token_bytes_ratio: float
    missing_bytes: int
    int8_tokens: int
    int8_tokens_with_scales: int


@dataclass(frozen=True)
class ModelRow:
    """A published shape on the reader's card.

    `tokens` is the longest conversation (0: the weights do not fit), `users` how many of the asked context
    fit at once.
    """

    model: str
    parameters: int
    layers: int
    sliding_layers: int
    window: int | None
    kv_heads: str
    head_dim: str
    token_bytes: float
    weight_bytes: int
    tokens: int
    users: int
    source: str


@dataclass(frozen=True)
class OpenModels:
    """Published shapes on one card, smallest first; `own` is the model of this book's run, read from its config."""

    card_gib: float
    bits_per_weight: float
    cache_bits: float
    context: int
    rows: tuple[ModelRow, ...]
    own: ModelRow


@dataclass(frozen=True)
class Proof:
    """The prediction beside what a process really reached under that limit.

    `reached` None: this system cannot hold a process to a limit. `most_tokens` is where the cache alone
    would fill the memory, with nothing left for the passes themselves; the process must fail before.
    """

    device: str
    card_bytes: int
    weight_bytes: int
    reserve_bytes: int
    token_bytes: float
    predicted: int
    most_tokens: int
    reached: int | None
    generated_to_the_limit: bool | None


def chapter_tables(fit: FitFunction) -> Tables:
    """Every cell of the chapter's tables by `fit`, the section's own sum, and the numbers quoted from them."""
    cells = tuple(
        _cell(fit, model, bits, card)
        for card in CARDS_GIB
        for model in (MODEL_7B, MODEL_13B, MODEL_70B)
        for bits in WIDTHS
    )
    found = {(c.card_gib, c.model, c.bits): c for c in cells}
    expected = {
        (*key, bits): n for key, row in CHAPTER_TOKENS.items() for bits, n in zip(WIDTHS, row, strict=True)
    }
    return Tables(
        cells=cells,
        equal_to_chapter={key: cell.tokens for key, cell in found.items()} == expected,
        reserve_bytes=fits.RESERVE_BYTES,
        weights_7b_fp16=found[16, "7B", 16].weight_bytes,
        weights_13b_4bit=found[8, "13B", 4.125].weight_bytes,
        token_bytes_7b=int(found[16, "7B", 16].token_bytes),
        token_bytes_13b=int(found[8, "13B", 4.125].token_bytes),
        tokens_13b_4bit_8gib=found[8, "13B", 4.125].tokens,
        tokens_7b_int8_16gib=found[16, "7B", 8].tokens,
        tokens_13b_int8_16gib=found[16, "13B", 8].tokens,
    )


def _cell(fit: FitFunction, model: Model, bits: float, card_gib: int) -> Cell:
    found = fit(model, card_bytes=card_gib * GIB, bits_per_weight=bits)
    tokens = found.tokens if found.weights_fit else None
    return Cell(model.name, bits, card_gib, found.weight_bytes, found.token_bytes, found.room_bytes, tokens)


def what_it_hangs_on(fit: FitFunction) -> HangsOn:
    """The same sum with one assumption changed at a time."""
    small = {"card_bytes": 8 * GIB, "bits_per_weight": 4.125}
    layers = MODEL_13B.cache_layers[0]
    fewer = Model(
        MODEL_13B.name,
        MODEL_13B.parameters,
        (fits.CacheLayers(layers.layers, FEWER_KV_HEADS, layers.head_dim),),
    )
    seven, thirteen = (fit(model, card_bytes=16 * GIB, bits_per_weight=8) for model in (MODEL_7B, MODEL_13B))
    scaled = fit(MODEL_7B, card_bytes=16 * GIB, bits_per_weight=8 + SCALE_BITS_A_NUMBER)
    return HangsOn(
        tokens=fit(MODEL_13B, **small).tokens,
        without_reserve=fit(MODEL_13B, **small, reserve_bytes=0).tokens,
        with_fewer_heads=fit(fewer, **small).tokens,
        with_half_cache=fit(MODEL_13B, **small, cache_bits=8 + SCALE_BITS_A_NUMBER).tokens,
        token_ratio=seven.tokens / thirteen.tokens,
        room_ratio=seven.room_bytes / thirteen.room_bytes,
        token_bytes_ratio=thirteen.token_bytes / seven.token_bytes,
        missing_bytes=-fit(MODEL_7B, card_bytes=8 * GIB, bits_per_weight=8).room_bytes,
        int8_tokens=seven.tokens,
        int8_tokens_with_scales=scaled.tokens,
    )


def open_models_on(
    lm: LoadedModel,
    fit: FitFunction,
    *,
    card_gib: float,
    bits_per_weight: float,
    cache_bits: float,
    context: int,
) -> OpenModels:
    """Every published shape, and this run's own model, on the reader's card."""
    asked = {
        "card_bytes": round(card_gib * GIB),
        "bits_per_weight": bits_per_weight,
        "cache_bits": cache_bits,
        "context": context,
        "reserve_bytes": min(fits.RESERVE_BYTES, round(card_gib * GIB)),
    }
    rows = tuple(_model_row(model, fit(model, **asked)) for model in fits.open_models())
    own = model_of(lm)
    return OpenModels(
        card_gib, bits_per_weight, cache_bits, context, rows, _model_row(own, fit(own, **asked))
    )


def model_of(lm: LoadedModel) -> Model:
    """What the sum needs of a loaded model: its config's shape, its parameters counted once each."""
    parameters = sum(weight.numel() for weight in lm.model.parameters())
    return Model.of_shape(lm.spec.title, cost.Shape.from_config(lm.config), parameters=parameters)


def _model_row(model: Model, found: Fit) -> ModelRow:
    sliding = [group for group in model.cache_layers if group.window is not None]
    return ModelRow(
        model=model.name,
        parameters=model.parameters,
        layers=sum(group.layers for group in model.cache_layers),
        sliding_layers=sum(group.layers for group in sliding),
        window=sliding[0].window if sliding else None,
        kv_heads=" / ".join(dict.fromkeys(str(group.kv_heads) for group in model.cache_layers)),
        head_dim=" / ".join(dict.fromkeys(str(group.head_dim) for group in model.cache_layers)),
        token_bytes=found.token_bytes,
        weight_bytes=found.weight_bytes,
        tokens=found.tokens,
        users=found.users,
        source=model.source,
    )


def prove_limit(lm: LoadedModel, fit: FitFunction) -> Proof:
    """Predict how long a conversation fits into a small card, then let a process generate under that limit."""
    model, device = model_of(lm), lm.device.type
    width = 8 * lm.dtype.itemsize
    reserve = PROOF_RESERVE_BYTES[device]
    weights = fits.weight_bytes(model, bits_per_weight=width)
    card = weights + reserve + fits.cache_bytes(model, tokens=PROOF_TOKENS, cache_bits=width)
    asked = {"card_bytes": card, "bits_per_weight": width, "cache_bits": width}
    predicted = fit(model, **asked, reserve_bytes=reserve)
    most = fit(model, **asked, reserve_bytes=0).tokens
    reached = _reached(lm, card, predicted.tokens, most) if _can_limit(device) else None
    return Proof(
        device=device,
        card_bytes=card,
        weight_bytes=weights,
        reserve_bytes=reserve,
        token_bytes=predicted.token_bytes,
        predicted=predicted.tokens,
        most_tokens=most,
        reached=reached,
        generated_to_the_limit=None if reached is None else predicted.tokens <= reached < most,
    )


def _can_limit(device: str) -> bool:
    """CUDA's allocator takes a limit anywhere; for a process only Linux has one that binds."""
    return device == "cuda" or sys.platform == "linux"


def _reached(lm: LoadedModel, card_bytes: int, tokens: int, most_tokens: int) -> int:
    """Tokens in the cache of the limited process when it ended."""
    settings = {
        "spec": asdict(lm.spec),
        "device": str(lm.device),
        "dtype": str(lm.dtype).removeprefix("torch."),
        "card_bytes": card_bytes,
        "tokens": tokens,
        "most_tokens": most_tokens,
    }
    command = [sys.executable, "-m", "cheap_inference.experiments.memory_limit", json.dumps(settings)]
    done = subprocess.run(
        command,
        env={**os.environ, **PROMPT_RELEASE},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # how it ends is its own affair: a failed allocation, or worse
        text=True,
        timeout=PROOF_SECONDS,
    )
    return max((int(line) for line in done.stdout.split()), default=0)
