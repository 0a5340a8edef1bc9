"""Measurements of the section activation-outliers: the residual stream, its INT8 levels, and the remedies."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

import torch

from .. import activations
from ..activations import Int8Levels, Outlier
from ..cost import Shape, kv_bytes_per_token
from ..errors import UserError
from ..models.load import LoadedModel
from ..quantize import kv_cache_rounding
from ..quantize.activation_rounding import Rounding, activations_rounded, per_tensor
from ..quantize.awq import awq_quantized
from ..quantize.gptq import gptq_quantized
from ..quantize.in_place import quantized
from ..quantize.schemes import INT4_GROUP128, INT8_ROW
from ..quantize.smoothquant import smoothed
from .instruments import Score, calibration_ids, instruments, reference_score, score

PROMPT_TOKENS = 84
#: A position is massive if it reaches this share of the prompt's largest magnitude.
MASSIVE_SHARE = 0.1
HEAT_DIMENSIONS = 8
LEFT_OUT_DIMENSIONS = 4
#: A dimension counts as ordinary below so many times the median dimension.
ORDINARY_FACTOR = 5
BITS_PER_BYTE = 8


# --- the stream ---


@dataclass(frozen=True)
class LayerRow:
    """The outlier of the ordinary prompt after one layer, and the main dimension's magnitude there."""

    layer: int
    outlier: Outlier
    main_dimension: float


@dataclass(frozen=True)
class PromptRow:
    """One prompt at the layer looked at. `by_position`: largest magnitude at each position."""

    prompt: str
    outlier: Outlier
    massive_positions: int
    by_position: tuple[float, ...]


@dataclass(frozen=True)
class Octave:
    """Dimensions whose largest magnitude is at least `low` and below `high` (None: the last bin's open end)."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Stream:
    """The residual stream of five prompts.

    `layer`: two thirds of the depth, where tensors are looked at. `heat`: largest magnitude after every
    layer (rows, the embedding first) of the `heat_dimensions`. `median_magnitude` and `percentile_99` are of
    all values of the ordinary prompt there.
    """

    tokens: int
    layers: int
    layer: int
    dimensions: int
    main_dimension: int
    same_dimension: bool
    rows: tuple[LayerRow, ...]
    prompts: tuple[PromptRow, ...]
    every_prompt: bool
    heat_dimensions: tuple[int, ...]
    heat: tuple[tuple[float, ...], ...]
    octaves: tuple[Octave, ...]
    ordinary_share: float
    median_magnitude: float
    percentile_99: float
    whole: Int8Levels
    without_dimensions: Int8Levels
    without_position: Int8Levels


def watch_stream(lm: LoadedModel) -> Stream:
    """Run the five prompts and describe what their residual streams hold."""
    streams = {name: activations.residual_stream(lm.model, ids) for name, ids in outlier_prompts(lm).items()}
    prose = streams["prose"]
    layers = len(prose) - 1
    layer = round(layers * 2 / 3)
    state = prose[layer]
    found = activations.outlier(state)
    maxima = state.abs().amax(dim=0)
    heat_dimensions = prose.abs().amax(dim=(0, 1)).argsort(descending=True)[:HEAT_DIMENSIONS].sort().values
    prompts = [_prompt_row(name, stream[layer]) for name, stream in streams.items()]
    sixths = [activations.outlier(prose[round(layers * part / 6)]).dimension for part in (1, 5)]
    return Stream(
        tokens=PROMPT_TOKENS,
        layers=layers,
        layer=layer,
        dimensions=state.shape[1],
        main_dimension=found.dimension,
        same_dimension=set(sixths) == {found.dimension},
        rows=tuple(_layer_row(prose, at, found.dimension) for at in _shown_layers(layers)),
        prompts=tuple(prompts),
        every_prompt={row.outlier.dimension for row in prompts} == {found.dimension},
        heat_dimensions=tuple(heat_dimensions.tolist()),
        heat=tuple(tuple(row) for row in prose.abs().amax(dim=1)[:, heat_dimensions].tolist()),
        octaves=_octaves(maxima),
        ordinary_share=float((maxima < ORDINARY_FACTOR * maxima.median()).float().mean()),
        median_magnitude=float(state.abs().median()),
        percentile_99=float(state.abs().flatten().quantile(0.99)),
        whole=activations.int8_levels(state),
        without_dimensions=activations.int8_levels(
            activations.without_largest_dimensions(state, LEFT_OUT_DIMENSIONS)
        ),
        without_position=activations.int8_levels(
            torch.cat([state[: found.position], state[found.position + 1 :]])
        ),
    )


def outlier_prompts(lm: LoadedModel) -> dict[str, torch.Tensor]:
    """The five prompts, each cut to its first 84 tokens: [1, 84].

    Raises:
        UserError: a prompt is shorter than that under this model's tokenizer.
    """
    text = files("cheap_inference").joinpath("data", "prompts.toml").read_text(encoding="utf-8")
    found = {}
    for name, prompt in tomllib.loads(text)["outliers"].items():
        ids = lm.tokenizer(prompt.strip())["input_ids"][:PROMPT_TOKENS]
        if len(ids) < PROMPT_TOKENS:
            raise UserError(
                f"The prompt {name!r} has only {len(ids)} tokens here, {PROMPT_TOKENS} are needed."
            )
        found[name] = torch.tensor([ids], device=lm.device)
    return found


def _shown_layers(layers: int) -> list[int]:
    """Six layers over the depth, from one sixth on, and the first."""
    return [1, *(round(layers * part / 6) for part in range(1, 7))]


def _layer_row(stream: torch.Tensor, layer: int, dimension: int) -> LayerRow:
    state = stream[layer]
    return LayerRow(layer, activations.outlier(state), float(state[:, dimension].abs().max()))


def _prompt_row(name: str, state: torch.Tensor) -> PromptRow:
    found = activations.outlier(state)
    by_position = state.abs().amax(dim=1)
    massive = int((by_position >= MASSIVE_SHARE * found.magnitude).sum())
    return PromptRow(name, found, massive, tuple(by_position.tolist()))


def _octaves(maxima: torch.Tensor) -> tuple[Octave, ...]:
    bins = activations.octaves(maxima)
    return tuple(Octave(low, max(2 * low, 1.0), count) for low, count in bins)


# --- the remedies ---


@dataclass(frozen=True)
class Technique:
    """One technique and what it cost."""

    name: str
    score: Score


@dataclass(frozen=True)
class CacheTechnique:
    """The cache in few bits, "float" for the model's own dtype: its size and what it cost."""

    name: str
    bits_per_element: float
    bytes_per_token: int
    score: Score


@dataclass(frozen=True)
class Activations:
    """Full precision, INT8 weights alone, and INT8 weights with INT8 activations."""

    alpha: float
    calibration_tokens: int
    evaluation_tokens: int
    rows: tuple[Technique, ...]


def round_activations(lm: LoadedModel, roundings: dict[str, Rounding], *, alpha: float) -> Activations:
    """Weights INT8 per row throughout; inputs by each of the notebook's roundings, then by SmoothQuant."""
    tools, calibration = instruments(lm), calibration_ids(lm)
    rows = [Technique("float", reference_score(lm))]
    with quantized(lm.model, INT8_ROW):
        rows.append(Technique("weights", score(lm)))
    for name, rounding in roundings.items():
        with quantized(lm.model, INT8_ROW), activations_rounded(lm.model, rounding):
            rows.append(Technique(name, score(lm)))
    for everywhere in (False, True):
        with smoothed(
            lm.model,
            calibration,
            alpha=alpha,
            everywhere=everywhere,
            weights=INT8_ROW,
            activations=per_tensor,
        ):
            rows.append(Technique("smooth-everywhere" if everywhere else "smooth-published", score(lm)))
    return Activations(alpha, calibration.numel(), tools.ids.numel(), tuple(rows))


def calibrate_weights(lm: LoadedModel) -> tuple[Technique, ...]:
    """Weights in INT4 groups of 128: plain, by GPTQ one-shot and sequential, and by AWQ."""
    instruments(lm)
    calibration = calibration_ids(lm)
    gptq = {"bits": INT4_GROUP128.bits, "group_size": INT4_GROUP128.granularity}
    variants = {
        "plain": lambda: quantized(lm.model, INT4_GROUP128),
        "gptq-one-shot": lambda: gptq_quantized(lm.model, calibration, sequential=False, **gptq),
        "gptq-sequential": lambda: gptq_quantized(lm.model, calibration, sequential=True, **gptq),
        "awq": lambda: awq_quantized(lm.model, calibration, INT4_GROUP128),
    }
    return tuple(_scored_inside(lm, name, make) for name, make in variants.items())


def _scored_inside(lm: LoadedModel, name: str, make: Callable) -> Technique:
    with make():
        return Technique(name, score(lm))


def round_caches(lm: LoadedModel) -> tuple[CacheTechnique, ...]:
    """Keys and values as they are, in INT8 and in INT4: keys per token or per channel, values per token."""
    instruments(lm)
    bits = lm.dtype.itemsize * BITS_PER_BYTE
    rounded = [_cache_technique(lm, bits, keys) for bits in (8, 4) for keys in ("token", "channel")]
    return (CacheTechnique("float", bits, _bytes_per_token(lm, bits), reference_score(lm)), *rounded)


def _cache_technique(lm: LoadedModel, bits: int, keys: kv_cache_rounding.Axis) -> CacheTechnique:
    head_dim = Shape.from_config(lm.config).head_dim
    stored = kv_cache_rounding.bits_per_element(bits=bits, head_dim=head_dim, keys=keys)
    return CacheTechnique(
        name=f"int{bits}-{keys}",
        bits_per_element=stored,
        bytes_per_token=_bytes_per_token(lm, stored),
        score=score(lm, make_cache=lambda: kv_cache_rounding.rounded_cache(lm.config, bits=bits, keys=keys)),
    )


def _bytes_per_token(lm: LoadedModel, bits: float) -> int:
    return kv_bytes_per_token(Shape.from_config(lm.config), bytes_per_element=bits / BITS_PER_BYTE)
