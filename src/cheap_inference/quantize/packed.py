"""Weights stored for real: one byte a weight or two weights a byte, and the fp16 scales beside them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch

from ..errors import UserError
from .schemes import Scheme

#: Added to signed 4-bit codes (-7 ... 7) so that they fit an unsigned half byte.
SIGNED_NIBBLE_OFFSET = 8


@dataclass(frozen=True)
class PackedWeight:
    """A matrix in few bytes.

    Attributes:
        codes: int8 [rows * columns] at 8 bits, uint8 [ceil(rows * columns / 2)] at 4.
        scales: fp16 tensors [rows, groups]; two of them where the scheme has offsets.
    """

    scheme: Scheme
    shape: tuple[int, int]
    codes: torch.Tensor
    scales: tuple[torch.Tensor, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors really held."""
        return sum(tensor.numel() * tensor.element_size() for tensor in (self.codes, *self.scales))

    def dequantize(self) -> torch.Tensor:
        """The fp32 matrix, equal to what the scheme leaves in place."""
        codes = self.codes
        if self.scheme.bits == 4:
            codes = unpack_nibbles(codes, prod(self.shape)).to(torch.int8) - _offset(self.scheme)
        return self.scheme.decode(codes.reshape(self.shape), *self.scales)


def pack(weight: torch.Tensor, scheme: Scheme) -> PackedWeight:
    """Encode a matrix [rows, columns] and pack its codes.

    Raises:
        UserError: the scheme is neither of 8 nor of 4 bits.
    """
    if scheme.bits not in (4, 8):
        raise UserError(f"Weights are packed at 8 or 4 bits, not {scheme.bits}.")
    codes, *scales = scheme.encode(weight)
    flat = codes.flatten()
    if scheme.bits == 4:
        flat = pack_nibbles((flat.to(torch.int8) + _offset(scheme)).to(torch.uint8))
    return PackedWeight(scheme, tuple(weight.shape), flat.contiguous(), tuple(scales))


def pack_nibbles(codes: torch.Tensor) -> torch.Tensor:
    """Values 0 ... 15 (uint8 [n]) two to a byte, the first in the high half: uint8 [ceil(n / 2)]."""
    if codes.numel() % 2:
        codes = torch.cat([codes, codes.new_zeros(1)])
    return (codes[0::2] << 4) | codes[1::2]


def unpack_nibbles(packed: torch.Tensor, count: int) -> torch.Tensor:
    """The first `count` values of `pack_nibbles`' result, uint8."""
    return torch.stack([packed >> 4, packed & 15], dim=1).flatten()[:count]


def _offset(scheme: Scheme) -> int:
    return SIGNED_NIBBLE_OFFSET if scheme.levels == "absmax" else 0
