"""Every number of the exact claims, computed again by counting rather than by the package's formulas."""

import math
from fractions import Fraction
from itertools import product

import pytest

from cheap_inference.claims import chapter_in_unit, evaluate, load
from cheap_inference.quantity import Quantity

GIB = 1024 * 1024 * 1024

#: Fixed by the package's list of requests, not by arithmetic; the section's notebook counts them.
WORKLOAD = {f"continuous-batching.{name}" for name in ("requests", "median-length", "longest", "total")}


class Shape:
    """A decoder's sizes, and the matrices that it is made of."""

    def __init__(self, layers, heads, kv_heads, hidden, mlp, vocabulary, *, head_dim=64, bias=False):
        self.layers, self.heads, self.kv_heads, self.head_dim = layers, heads, kv_heads, head_dim
        self.hidden, self.mlp, self.vocabulary, self.bias = hidden, mlp, vocabulary, bias

    def matrices(self):
        """(rows, columns) of every projection of the model."""
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        layer = [(query, self.hidden), (key, self.hidden), (key, self.hidden), (self.hidden, query)]
        layer += [(self.mlp, self.hidden), (self.mlp, self.hidden), (self.hidden, self.mlp)]
        return [matrix for _ in range(self.layers) for matrix in layer]

    def projection_weights(self):
        return sum(rows * columns for rows, columns in self.matrices())

    def parameters(self):
        norms = (2 * self.layers + 1) * self.hidden
        biases = self.bias * self.layers * (self.heads + 2 * self.kv_heads) * self.head_dim
        return self.vocabulary * self.hidden + self.projection_weights() + norms + biases

    def cache_bytes(self, *, element=2, tokens=1):
        one_tensor = self.kv_heads * tokens * self.head_dim * element
        return sum(one_tensor for _ in range(self.layers) for _ in ("keys", "values"))


CHAPTER = Shape(24, 14, 2, 896, 4864, 151_936, bias=True)
MULTI_HEAD = Shape(24, 14, 14, 896, 4864, 151_936, bias=True)
DEFAULT = Shape(30, 9, 3, 576, 1536, 49_152)
SEVEN, THIRTEEN, SEVENTY = (
    Shape(layers, kv_heads, kv_heads, 0, 0, 0, head_dim=128)
    for layers, kv_heads in [(32, 8), (40, 40), (80, 8)]
)
SIZES = {"7b": (7 * 10**9, SEVEN), "13b": (13 * 10**9, THIRTEEN), "70b": (70 * 10**9, SEVENTY)}


def head_macs(tokens, *, cached):
    """Products of queries with keys and of scores with values, d = 64, summed over all steps."""
    queries = (1 if cached else position for position in range(1, tokens + 1))
    return sum(2 * 64 * rows * position for position, rows in enumerate(queries, start=1))


def crossing(shape):
    """First position whose attention costs as much as the linear layers."""
    position = 1
    while 2 * shape.head_dim * shape.heads * shape.layers * position < shape.projection_weights():
        position += 1
    return position


def bits_per_weight(bits, scales_of):
    """Counts 16-bit scales matrix by matrix; `scales_of(rows, columns)` says how many one has."""
    scales = sum(scales_of(rows, columns) for rows, columns in CHAPTER.matrices())
    return bits + 16 * scales / CHAPTER.projection_weights()


def share_of_fp16(projection_bytes):
    rest = CHAPTER.parameters() - CHAPTER.projection_weights()
    return (projection_bytes + 2 * rest) / (2 * CHAPTER.parameters())


def expected_tokens(acceptance, guesses):
    """Sums over every pattern of accepted guesses: those before the first rejection, and one more."""
    total = 0.0
    for pattern in product([True, False], repeat=guesses):
        chance = math.prod(acceptance if accepted else 1 - acceptance for accepted in pattern)
        prefix = pattern.index(False) if False in pattern else guesses
        total += chance * (prefix + 1)
    return total


def room(size, bits, card, *, reserve=Fraction(3, 2)):
    return (card - reserve) * GIB - Fraction(bits) * SIZES[size][0] / 8


def tokens_that_fit(size, bits, card, *, shape=None, reserve=Fraction(3, 2)):
    left = room(size, bits, card, reserve=reserve)
    return int(left // (shape or SIZES[size][1]).cache_bytes()) if left > 0 else None


def users_bytes(users, tokens):
    return sum(CHAPTER.cache_bytes(tokens=tokens) for _ in range(users))


FOUR = Fraction(33, 8)
NUMBERS = {
    "kv-cache.positions": lambda: sum(40 + step for step in range(48)),
    "kv-cache.score-matrix-bytes": lambda: sum(4096 * 4 for _ in range(4096)),
    "kv-cache.score-row-bytes": lambda: sum(4 for _ in range(4096)),
    **{
        f"kv-cache.macs-{'cached' if cached else 'uncached'}-{tokens}": (
            lambda tokens=tokens, cached=cached: head_macs(tokens, cached=cached)
        )
        for tokens in (64, 256, 1024, 4096)
        for cached in (True, False)
    },
    "kv-cache.crossing-chapter": lambda: crossing(CHAPTER),
    "kv-cache.crossing-default": lambda: crossing(DEFAULT),
    "prefill-decode.cache-share-chapter": lambda: (
        CHAPTER.cache_bytes(tokens=1024) / (2 * CHAPTER.parameters())
    ),
    "cache-size.bytes-per-token": CHAPTER.cache_bytes,
    "cache-size.bytes-at-295": lambda: CHAPTER.cache_bytes(tokens=295),
    "cache-size.total-only": lambda: users_bytes(32, 2048),
    "shared-heads.multi-head-bytes": MULTI_HEAD.cache_bytes,
    "shared-heads.seven-times": lambda: MULTI_HEAD.cache_bytes() / CHAPTER.cache_bytes(),
    "shared-heads.projections-saved": lambda: MULTI_HEAD.projection_weights() - CHAPTER.projection_weights(),
    "shared-heads.seven-billion-bytes": SEVEN.cache_bytes,
    "shared-heads.seven-billion-at-128000": lambda: SEVEN.cache_bytes(tokens=128_000),
    "shared-heads.cache-outweighs-weights": lambda: SEVEN.cache_bytes(tokens=128_000) / (2 * 7.0e9),
    "paged-cache.shared-prompt-blocks": lambda: len(range(0, 512, 16)),
    "weight-quantization.bytes-at-32": lambda: CHAPTER.parameters() * 32 // 8,
    "weight-quantization.bytes-at-8": lambda: CHAPTER.parameters() * 8 // 8,
    "weight-quantization.embedding-share": lambda: 151_936 * 896 / CHAPTER.parameters(),
    "weight-quantization.int8-share": lambda: share_of_fp16(CHAPTER.projection_weights()),
    "weight-quantization.int4-share": lambda: share_of_fp16(CHAPTER.projection_weights() * 4.125 / 8),
    "weight-quantization.matrix-weights": CHAPTER.projection_weights,
    "weight-quantization.bits-per-tensor": lambda: bits_per_weight(4, lambda rows, columns: 1),
    "weight-quantization.bits-per-row": lambda: bits_per_weight(4, lambda rows, columns: rows),
    "weight-quantization.bits-group-128": lambda: bits_per_weight(
        4, lambda rows, columns: rows * len(range(0, columns, 128))
    ),
    "weight-quantization.bits-nf4": lambda: bits_per_weight(
        4, lambda rows, columns: rows * len(range(0, columns, 64))
    ),
    "weight-quantization.levels-used": lambda: len({round(x / 1000 * 7) for x in range(-1000, 1001)}),
    "speculative.expected-tokens": lambda: expected_tokens(0.3, 4),
    "speculative.speedup-four-low": lambda: expected_tokens(0.3, 4) / (4 * 0.2 + 1),
    "speculative.speedup-eight-high": lambda: expected_tokens(0.9, 8) / (8 * 0.1 + 1),
    "speculative.speedup-eight-low": lambda: expected_tokens(0.3, 8) / (8 * 0.1 + 1),
    "distillation.chapter-square-root": lambda: math.sqrt(0.1355 / 0.0605),
    "fits.weights-7b": lambda: 7 * 10**9 * 16 // 8,
    "fits.weights-13b": lambda: int(13 * 10**9 * FOUR / 8),
    "fits.bytes-per-token-7b": SEVEN.cache_bytes,
    "fits.bytes-per-token-13b": THIRTEEN.cache_bytes,
    "fits.13b-4bit-8gib": lambda: tokens_that_fit("13b", FOUR, 8),
    "fits.7b-int8-16gib": lambda: tokens_that_fit("7b", 8, 16),
    "fits.13b-int8-16gib": lambda: tokens_that_fit("13b", 8, 16),
    "fits.without-reserve": lambda: tokens_that_fit("13b", FOUR, 8, reserve=0),
    "fits.with-eight-heads": lambda: tokens_that_fit("13b", FOUR, 8, shape=Shape(40, 8, 8, 0, 0, 0, head_dim=128)),
    "fits.room-ratio": lambda: float(room("7b", 8, 16) / room("13b", 8, 16)),
    "fits.near-miss": lambda: int(-room("7b", 8, 8)),
}  # fmt: skip

EQUALS = {claim.id: claim for claim in load() if claim.kind == "exact" and claim.predicate == "equals"}


def test_every_exact_number_is_computed_here():
    assert set(NUMBERS) == set(EQUALS) - WORKLOAD


@pytest.mark.parametrize("name", NUMBERS)
def test_an_exact_number_comes_out_of_a_count(name):
    claim, value = EQUALS[name], NUMBERS[name]()
    assert evaluate(claim, Quantity(value, claim.unit), model_name="any").verdict == "holds"
    assert evaluate(claim, Quantity(value * 1.01, claim.unit), model_name="any").verdict == "fails"


def test_the_chapters_rounding_is_the_exact_number_rounded():
    for claim in EQUALS.values():
        if claim.chapter_value is not None:
            tolerance = claim.chapter_tolerance or 0
            assert math.isclose(chapter_in_unit(claim), claim.threshold, rel_tol=tolerance), claim.id


def test_a_claims_sentence_holds_its_whole_number():
    for claim in EQUALS.values():
        if isinstance(claim.threshold, int) and claim.threshold >= 1000:
            assert f"{claim.threshold:,}" in claim.text


def test_every_table_of_users_keeps_as_many_bytes():
    assert users_bytes(32, 2048) == users_bytes(64, 1024) == users_bytes(128, 512) == 768 * 2**20
    assert 32 * 2048 == 64 * 1024 == 128 * 512 == 65_536


def test_a_cache_of_295_tokens_is_the_bytes_of_its_tensors():
    assert CHAPTER.cache_bytes(tokens=295) == 24 * 2 * math.prod((1, 2, 295, 64)) * 2


def test_the_factor_between_the_summed_loops():
    for tokens in (64, 256, 1024):
        assert head_macs(tokens, cached=False) * 3 == head_macs(tokens, cached=True) * (2 * tokens + 1)


def test_numbers_that_the_sentences_state_beside_their_own():
    assert CHAPTER.parameters() == 494_032_768
    assert len(CHAPTER.matrices()) == 168
    saved = MULTI_HEAD.projection_weights() - CHAPTER.projection_weights()
    assert round(saved / MULTI_HEAD.projection_weights(), 3) == 0.085
    assert THIRTEEN.cache_bytes() / SEVEN.cache_bytes() == 6.25
    assert round(bits_per_weight(8, lambda rows, columns: rows), 3) == 8.014
    assert (round(SEVEN.cache_bytes(tokens=128_000) / GIB, 1), round(14e9 / GIB, 1)) == (15.6, 13.0)
    assert 40 + 47 == 87
    assert round(1024 * 46_080 / (4 * DEFAULT.parameters()), 3) == 0.088


def test_the_table_of_what_fits_has_27_cells():
    cells = {
        (size, card): [tokens_that_fit(size, bits, card) for bits in (16, 8, FOUR)]
        for size in SIZES
        for card in (8, 16, 24)
    }
    assert cells == {
        ("7b", 8): [None, None, 25_710],
        ("7b", 16): [11_972, 65_378, 91_246],
        ("7b", 24): [77_508, 130_914, 156_782],
        ("13b", 8): [None, None, 337],
        ("13b", 16): [None, 3_136, 10_822],
        ("13b", 24): [None, 13_622, 21_308],
        **{("70b", card): [None] * 3 for card in (8, 16, 24)},
    }


#: Ratios of the chapter's numbers that stand as its value where the claim is a ratio.
DERIVED = {
    "weight-quantization.nf4-lower": 0.0952 / 0.1323,
    "activation-outliers.largest-over-median": 1579.6 / 1.6,
    "activation-outliers.ordinary-dimensions": (254 + 283 + 226 + 93) / 896,
    "activation-outliers.rounded-to-zero": 2.51 / 12.4378,
    "activation-outliers.scale-without-four": 12.4378 / 0.5749,
    "quality.int8-per-row": 22.96 / 23.08,
    "quality.int8-per-row-book": 22.24 / 22.18,
    "quality.int8-per-row-agreement": 142 / 144,
    "quality.int8-per-tensor": (23.08 + 0.5) / 23.08,
    "quality.int4-per-tensor": 365_416_000 / 151_936,
    "quality.int4-per-row": 46.18 / 23.08,
    "quality.int4-group-128": 31.08 / 23.08,
    "quality.nf4": 24.55 / 23.08,
    "quality.four-bit-span": 365_416_000 / 24.55,
    "distillation.top-five": 0.1355 + 0.1051 + 0.0605 + 0.0380 + 0.0360,
}


@pytest.mark.parametrize("name", DERIVED)
def test_a_ratio_of_the_chapters_numbers(name):
    [claim] = [claim for claim in load() if claim.id == name]
    assert claim.chapter_value == pytest.approx(DERIVED[name], rel=0.01)
    outcome = evaluate(claim, Quantity(DERIVED[name], claim.unit), model_name="qwen2.5-0.5b")
    assert (outcome.verdict, outcome.note) == ("holds", "agrees")


def test_the_chapters_own_numbers_satisfy_every_predicate():
    for claim in load():
        # "More than ten times better" is the chapter's bound itself.
        if claim.chapter_value is None or claim.id == "continuous-batching.two-clocks":
            continue
        value = claim.threshold if claim.predicate == "equals" else chapter_in_unit(claim)
        assert evaluate(claim, Quantity(value, claim.unit), model_name="any").verdict == "holds", claim.id
