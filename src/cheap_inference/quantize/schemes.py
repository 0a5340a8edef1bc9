"""The weight formats that the book compares, each with its name, its rounding and its exact size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from . import absmax, asymmetric, nf4
from .granularity import SCALE_BITS, Granularity, stored_bits


@dataclass(frozen=True)
class Scheme:
    """A weight format. Calling it rounds a matrix; `name` is what records and views know it by."""

    levels: Literal["absmax", "asymmetric", "nf4"]
    bits: int
    granularity: Granularity

    @property
    def name(self) -> str:
        """For instance "int4-row", "int4-group128", "int4-asymmetric-group128", "nf4-group64"."""
        shared = f"group{self.granularity}" if isinstance(self.granularity, int) else self.granularity
        kind = {"absmax": f"int{self.bits}", "asymmetric": f"int{self.bits}-asymmetric", "nf4": "nf4"}
        return f"{kind[self.levels]}-{shared}"

    @property
    def scale_bits(self) -> int:
        """Bits of side information a block: one fp16 number, two with an offset."""
        return 2 * SCALE_BITS if self.levels == "asymmetric" else SCALE_BITS

    def encode(self, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Codes [rows, columns], then scales (and offsets) [rows, groups], as they are stored."""
        weight = weight.float()
        if self.levels == "nf4":
            return nf4.encode(weight, granularity=self.granularity)
        module = absmax if self.levels == "absmax" else asymmetric
        return module.encode(weight, bits=self.bits, granularity=self.granularity)

    def decode(self, codes: torch.Tensor, *scales: torch.Tensor) -> torch.Tensor:
        """The fp32 matrix that `encode`'s result stands for."""
        module = {"absmax": absmax, "asymmetric": asymmetric, "nf4": nf4}[self.levels]
        return module.decode(codes, *scales, granularity=self.granularity)

    def __call__(self, weight: torch.Tensor) -> torch.Tensor:
        """The matrix after rounding to this format, in its own dtype."""
        return self.decode(*self.encode(weight)).to(weight.dtype)

    def stored_bits(self, shape: tuple[int, int]) -> int:
        """Bits of a matrix of this shape, scales counted."""
        return stored_bits(shape, bits=self.bits, granularity=self.granularity, scale_bits=self.scale_bits)


INT8_TENSOR = Scheme("absmax", 8, "tensor")
INT8_ROW = Scheme("absmax", 8, "row")
INT8_GROUP128 = Scheme("absmax", 8, 128)
INT4_TENSOR = Scheme("absmax", 4, "tensor")
INT4_ROW = Scheme("absmax", 4, "row")
INT4_GROUP128 = Scheme("absmax", 4, 128)
INT4_GROUP64 = Scheme("absmax", 4, 64)
INT4_ASYMMETRIC_GROUP128 = Scheme("asymmetric", 4, 128)
INT4_ASYMMETRIC_GROUP32 = Scheme("asymmetric", 4, 32)
NF4_GROUP64 = Scheme("nf4", 4, 64)
NF4_GROUP128 = Scheme("nf4", 4, 128)

#: The seven that the chapter measures, in its order.
CHAPTER_SCHEMES = (
    INT8_TENSOR,
    INT8_ROW,
    INT8_GROUP128,
    INT4_TENSOR,
    INT4_ROW,
    INT4_GROUP128,
    NF4_GROUP64,
)
