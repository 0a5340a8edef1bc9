"""Bytes of the weights, by arithmetic and really packed, for the section weight-quantization."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .. import cost
from ..models.load import LoadedModel, chapter_config
from ..quantize.in_place import projections
from ..quantize.packed import pack
from ..quantize.schemes import INT4_GROUP128, INT4_ROW, INT4_TENSOR, INT8_ROW, NF4_GROUP64, Scheme

WIDTHS = (32, 16, 8, 4)
#: Embeddings, norms and biases stay in 16 bits.
KEPT_BYTES = 2
BITS_PER_BYTE = 8
STORED = (INT8_ROW, INT4_GROUP128, NF4_GROUP64)


@dataclass(frozen=True)
class WidthRow:
    """All parameters at one width, and with the embeddings (and vectors) left in 16 bits; bytes."""

    bits: int
    everything_bytes: int
    projections_only_bytes: int


@dataclass(frozen=True)
class StoredRow:
    """Projections really packed: bytes of the tensors held, and of the whole model with them.

    `share`: of the whole model in 16 bits. `equal`: every packed matrix dequantises to what the scheme
    leaves in place, bit for bit, and the bytes are the formula's.
    """

    scheme: str
    projection_bytes: int
    model_bytes: int
    share: float
    equal: bool


@dataclass(frozen=True)
class ChapterSizes:
    """The same arithmetic for the chapter's shape."""

    bytes_at_32: int
    bytes_at_8: int
    embedding_share: float
    int8_share: float
    int4_share: float
    matrix_weights: int
    matrices: int
    bits_per_tensor: float
    bits_per_row: float
    bits_group128: float
    bits_nf4: float


@dataclass(frozen=True)
class Sizes:
    """Bytes of the weights."""

    parameters: int
    matrices: int
    matrix_weights: int
    embedding_share: float
    widths: tuple[WidthRow, ...]
    stored: tuple[StoredRow, ...]
    chapter: ChapterSizes


def weigh(lm: LoadedModel) -> Sizes:
    """Count bytes at every width, pack the projections for real, and repeat the arithmetic for the chapter."""
    layers = projections(lm.model)
    parameters = sum(weight.numel() for weight in lm.model.parameters())
    weights = sum(linear.weight.numel() for linear in layers.values())
    return Sizes(
        parameters=parameters,
        matrices=len(layers),
        matrix_weights=weights,
        embedding_share=_embedding_weights(lm) / parameters,
        widths=tuple(_width_row(bits, parameters, weights) for bits in WIDTHS),
        stored=tuple(_stored_row(lm, scheme, parameters, weights) for scheme in STORED),
        chapter=chapter_sizes(),
    )


def _embedding_weights(lm: LoadedModel) -> int:
    tables = {
        id(module.weight): module.weight
        for module in (lm.model.get_input_embeddings(), lm.model.get_output_embeddings())
    }
    return sum(weight.numel() for weight in tables.values())


def _width_row(bits: int, parameters: int, weights: int) -> WidthRow:
    kept = (parameters - weights) * max(bits // BITS_PER_BYTE, KEPT_BYTES)
    return WidthRow(bits, parameters * bits // BITS_PER_BYTE, kept + weights * bits // BITS_PER_BYTE)


def _stored_row(lm: LoadedModel, scheme: Scheme, parameters: int, weights: int) -> StoredRow:
    held, equal = 0, True
    for linear in projections(lm.model).values():
        packed = pack(linear.weight.data, scheme)
        held += packed.nbytes
        in_place = scheme(linear.weight.data)
        equal = equal and torch.equal(packed.dequantize().to(in_place.dtype), in_place)
        equal = equal and packed.nbytes * BITS_PER_BYTE == scheme.stored_bits(packed.shape)
    model_bytes = held + (parameters - weights) * KEPT_BYTES
    return StoredRow(scheme.name, held, model_bytes, model_bytes / (parameters * KEPT_BYTES), equal)


def chapter_sizes() -> ChapterSizes:
    """What the chapter's shape gives, by arithmetic alone."""
    shape = cost.Shape.from_config(chapter_config())
    shapes = projection_shapes(shape)
    weights = sum(rows * columns for rows, columns in shapes)
    kept_bytes = (shape.parameters - weights) * KEPT_BYTES
    whole_bytes = shape.parameters * KEPT_BYTES

    def bits(scheme: Scheme) -> float:
        return sum(scheme.stored_bits(one) for one in shapes) / weights

    def share(scheme: Scheme) -> float:
        return (kept_bytes + weights * bits(scheme) / BITS_PER_BYTE) / whole_bytes

    return ChapterSizes(
        bytes_at_32=cost.weight_bytes(shape, bytes_per_element=4),
        bytes_at_8=cost.weight_bytes(shape, bytes_per_element=1),
        embedding_share=shape.head_weights / shape.parameters,
        int8_share=share(INT8_ROW),
        int4_share=share(INT4_GROUP128),
        matrix_weights=weights,
        matrices=len(shapes),
        bits_per_tensor=bits(INT4_TENSOR),
        bits_per_row=bits(INT4_ROW),
        bits_group128=bits(INT4_GROUP128),
        bits_nf4=bits(NF4_GROUP64),
    )


def projection_shapes(shape: cost.Shape) -> list[tuple[int, int]]:
    """[rows, columns] of q, k, v, o, gate, up and down in every layer."""
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    hidden, inner = shape.hidden, shape.intermediate
    layer = [(query, hidden), (key, hidden), (key, hidden), (hidden, query)]
    layer += [(inner, hidden), (inner, hidden), (hidden, inner)]
    return layer * shape.layers
