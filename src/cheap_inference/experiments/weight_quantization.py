"""Measurements of the section weight-quantization: rounding errors and one matrix under the lens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist, fmean

import torch

from ..models.load import LoadedModel
from ..quantize import nf4
from ..quantize.in_place import projections
from ..quantize.schemes import (
    CHAPTER_SCHEMES,
    INT4_ASYMMETRIC_GROUP32,
    INT4_ASYMMETRIC_GROUP128,
    INT4_GROUP64,
    INT4_GROUP128,
    INT4_ROW,
    INT4_TENSOR,
    INT8_ROW,
    NF4_GROUP64,
    NF4_GROUP128,
    Scheme,
)

#: round_absmax(weight, bits, granularity) and round_nf4(weight, granularity), as the notebook writes them.
RoundAbsmax = Callable[[torch.Tensor, int, object], torch.Tensor]
RoundNf4 = Callable[[torch.Tensor, object], torch.Tensor]

EXTRA_SCHEMES = (INT4_GROUP64, NF4_GROUP128, INT4_ASYMMETRIC_GROUP128, INT4_ASYMMETRIC_GROUP32)
LENS_LAYER = 12
LENS_MATRIX = "mlp.down_proj"
FAR_SIGMAS = 6
HISTOGRAM_SIGMAS = 5
HISTOGRAM_BINS = 100


# --- errors ---


@dataclass(frozen=True)
class ErrorRow:
    """Relative error ||W - W'|| / ||W|| over all projection matrices."""

    scheme: str
    bits_per_weight: float
    mean: float
    worst: float
    worst_matrix: str


@dataclass(frozen=True)
class Errors:
    """The chapter's seven schemes, then the ones that tell block size and levels apart."""

    matrices: int
    rows: tuple[ErrorRow, ...]
    extra: tuple[ErrorRow, ...]
    nf4_levels_published: bool


#: How far the derived levels may lie from the published ones.
PUBLISHED_TOLERANCE = 1e-6


def compare_errors(
    lm: LoadedModel, round_absmax: RoundAbsmax, round_nf4: RoundNf4, levels: torch.Tensor
) -> Errors:
    """Round every projection matrix by every scheme with the notebook's own functions."""
    rounding = _rounding(round_absmax, round_nf4)
    gap = (levels.cpu().double() - torch.tensor(nf4.PUBLISHED_LEVELS, dtype=torch.float64)).abs().max()
    return Errors(
        matrices=len(projections(lm.model)),
        rows=tuple(_error_row(lm, scheme, rounding) for scheme in CHAPTER_SCHEMES),
        extra=tuple(_error_row(lm, scheme, rounding) for scheme in EXTRA_SCHEMES),
        nf4_levels_published=bool(gap < PUBLISHED_TOLERANCE),
    )


def _rounding(
    round_absmax: RoundAbsmax, round_nf4: RoundNf4
) -> Callable[[Scheme, torch.Tensor], torch.Tensor]:
    def apply(scheme: Scheme, weight: torch.Tensor) -> torch.Tensor:
        if scheme.levels == "absmax":
            return round_absmax(weight, scheme.bits, scheme.granularity)
        return round_nf4(weight, scheme.granularity) if scheme.levels == "nf4" else scheme(weight)

    return apply


def _error_row(
    lm: LoadedModel, scheme: Scheme, rounding: Callable[[Scheme, torch.Tensor], torch.Tensor]
) -> ErrorRow:
    layers = projections(lm.model)
    errors, bits, weights = {}, 0, 0
    for name, linear in layers.items():
        weight = linear.weight.data.float()
        errors[name] = float((rounding(scheme, weight) - weight).norm() / weight.norm())
        bits += scheme.stored_bits(tuple(weight.shape))
        weights += weight.numel()
    worst = max(errors, key=errors.get)
    return ErrorRow(scheme.name, bits / weights, fmean(errors.values()), errors[worst], short_name(worst))


def short_name(name: str) -> str:
    """ "layers.12.mlp.down_proj" of "model.layers.12.mlp.down_proj"."""
    return name[name.index("layers.") :] if "layers." in name else name


# --- one matrix ---


@dataclass(frozen=True)
class Erased:
    """The worst matrix under INT4 with one scale: what is left of it."""

    matrix: str
    error: float
    zero_share: float
    norm_ratio: float
    levels: int


@dataclass(frozen=True)
class LevelStrip:
    """Where the levels of a scheme lie for an ordinary block of the matrix, in standard deviations."""

    scheme: str
    levels: tuple[float, ...]


@dataclass(frozen=True)
class Lens:
    """One matrix under the lens.

    `histogram`: share of all weights in each of the equal bins between -HISTOGRAM_SIGMAS and
    +HISTOGRAM_SIGMAS standard deviations. `levels_int4`, `levels_int8`: distinct codes in use under
    groups of 128 and rows. `normal_beyond`: weights that a normal distribution would leave beyond 6 sigma.
    """

    matrix: str
    rows: int
    columns: int
    mean_magnitude: float
    deviation: float
    largest: float
    largest_in_deviations: float
    beyond: int
    normal_beyond: float
    levels_int4: int
    levels_int8: int
    histogram_reach: float
    histogram: tuple[float, ...]
    strips: tuple[LevelStrip, ...]
    erased: Erased


def look_closely(lm: LoadedModel, errors: object) -> Lens:
    """Statistics of one matrix, the levels each scheme gives it, and the matrix that INT4 per tensor erases.

    `errors` is the record of `compare_errors`, which names the worst matrix.
    """
    name, weight = lens_matrix(lm)
    deviation = weight.std()
    scaled = weight / deviation
    reach = float(HISTOGRAM_SIGMAS)
    counts = torch.histc(scaled.flatten(), bins=HISTOGRAM_BINS, min=-reach, max=reach)
    worst = next(row for row in errors.rows if row.scheme == INT4_TENSOR.name).worst_matrix
    return Lens(
        matrix=short_name(name),
        rows=weight.shape[0],
        columns=weight.shape[1],
        mean_magnitude=float(weight.abs().mean()),
        deviation=float(deviation),
        largest=float(weight.abs().max()),
        largest_in_deviations=float(weight.abs().max() / deviation),
        beyond=int((scaled.abs() > FAR_SIGMAS).sum()),
        normal_beyond=2 * NormalDist().cdf(-FAR_SIGMAS) * weight.numel(),
        levels_int4=_levels_used(INT4_GROUP128, weight),
        levels_int8=_levels_used(INT8_ROW, weight),
        histogram_reach=reach,
        histogram=tuple((counts / weight.numel()).tolist()),
        strips=tuple(
            _strip(scheme, weight) for scheme in (INT4_TENSOR, INT4_ROW, INT4_GROUP128, NF4_GROUP64)
        ),
        erased=_erased(lm, worst),
    )


def lens_matrix(lm: LoadedModel) -> tuple[str, torch.Tensor]:
    """The down projection of layer 12, or of the last layer of a shallower model, fp32."""
    names = [name for name in projections(lm.model) if name.endswith(LENS_MATRIX)]
    name = names[min(LENS_LAYER, len(names) - 1)]
    return name, projections(lm.model)[name].weight.data.float()


def _levels_used(scheme: Scheme, weight: torch.Tensor) -> int:
    return int(scheme.encode(weight)[0].unique().numel())


def _strip(scheme: Scheme, weight: torch.Tensor) -> LevelStrip:
    """Levels of the block whose scale is the median of all blocks."""
    scale = float(scheme.encode(weight)[1].float().median())
    units = nf4.nf4_levels() if scheme.levels == "nf4" else torch.arange(-7.0, 8.0)
    return LevelStrip(scheme.name, tuple((units * scale / float(weight.std())).tolist()))


def _erased(lm: LoadedModel, matrix: str) -> Erased:
    weight = next(
        linear.weight.data.float()
        for name, linear in projections(lm.model).items()
        if short_name(name) == matrix
    )
    rounded = INT4_TENSOR(weight)
    return Erased(
        matrix=matrix,
        error=float((rounded - weight).norm() / weight.norm()),
        zero_share=float((rounded == 0).float().mean()),
        norm_ratio=float(rounded.norm() / weight.norm()),
        levels=_levels_used(INT4_TENSOR, weight),
    )
