"""NF4 against the authors' own library, bit for bit, and against the published table."""

import pytest
import torch
from torch import nn

from cheap_inference.quantize import nf4
from cheap_inference.quantize.small_storage import storage_bytes
from cheap_inference.quantize.small_storage_cuda import bitsandbytes_linear

#: Dettmers et al., arXiv:2305.14314, appendix E.
PUBLISHED = [
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
]


def test_derived_levels_are_the_published_table():
    assert torch.equal(nf4.nf4_levels(), torch.tensor(PUBLISHED))


@pytest.fixture
def library():
    return pytest.importorskip("bitsandbytes.functional")


@pytest.mark.parametrize("block", [64, 128])
@pytest.mark.parametrize("seed", range(5))
def test_bit_for_bit_with_fp32_magnitudes(library, block, seed):
    weight = torch.randn(96, 640, generator=torch.Generator().manual_seed(seed)) * 10.0 ** (seed - 3)
    weight[0, :block] = 0
    packed, state = library.quantize_4bit(weight, blocksize=block, quant_type="nf4")
    theirs = library.dequantize_4bit(packed, state)
    codes, absmax = nf4.encode(weight, granularity=block, scale_dtype=torch.float32)
    pairs = codes.reshape(-1, 2)
    assert torch.equal(absmax.flatten(), state.absmax)
    assert torch.equal(pairs[:, 0] << 4 | pairs[:, 1], packed.flatten())
    assert torch.equal(nf4.decode(codes, absmax, granularity=block), theirs)


def test_the_librarys_table_is_ours(library):
    weight = torch.randn(1, 64)
    _, state = library.quantize_4bit(weight, blocksize=64, quant_type="nf4")
    assert torch.equal(state.code, nf4.nf4_levels())


@pytest.mark.parametrize(("bits", "reach"), [(8, 0.02), (4, 0.15)])
def test_layers_stored_by_the_library_compute_nearly_the_same_and_are_counted_whole(library, bits, reach):
    model = nn.Sequential(nn.Linear(64, 32)).to(torch.bfloat16).requires_grad_(False)
    inputs = torch.randn(5, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    expected = model(inputs).float()
    model[0] = bitsandbytes_linear(model[0], bits=bits)
    side = 32 * 4 if bits == 8 else 32 * 64 // 64 * 4  # fp32: one scale a row, or one a block
    assert storage_bytes(model) == 32 * 64 * bits // 8 + side + 32 * 2
    error = (model(inputs).float() - expected).norm() / expected.norm()
    assert 0 < error < reach
