"""Does it fit? Weights, cache and a reserve against the memory of a card. No torch here.

One sum answers every question of the section, of its tables and of the page's calculator:

    weights + cache bytes a token x resident tokens + reserve <= memory

Tokens are whole: what is left over after the last one stays empty. A sliding-window layer stops growing
when it holds window - 1 tokens, so a model with such layers is asked for one conversation at a time.
"""

from __future__ import annotations

import math
import tomllib
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from .cost import Shape
from .errors import UserError
from .settings import between, check

GIB = 2**30
#: What the chapter's tables keep free for activations, the framework and fragmentation.
RESERVE_BYTES = 3 * GIB // 2
CACHE_BITS = 16
#: More of either is a slip of the keyboard, not a machine or a model.
MOST_CARD_BYTES = 2**50
MOST_TOKENS = 10**9
MOST_PARAMETERS = 10**14
MOST_DIMENSION = 10**6
MOST_BITS = 64


@dataclass(frozen=True)
class CacheLayers:
    """Layers of one kind: each keeps keys and values [kv_heads, tokens, head_dim].

    `window` is the span a sliding layer attends to, the current token included; None: it keeps all tokens.
    """

    layers: int
    kv_heads: int
    head_dim: int
    window: int | None = None

    def __post_init__(self) -> None:
        """Raise UserError for a shape that no model has."""
        for name in ("layers", "kv_heads", "head_dim"):
            check(name, between(1, getattr(self, name), MOST_DIMENSION))
        if self.window is not None:
            check("window", between(2, self.window, MOST_TOKENS))

    def elements(self, tokens: int) -> int:
        """Numbers kept for one conversation of `tokens` tokens, keys and values together."""
        kept = tokens if self.window is None else min(tokens, self.window - 1)
        return 2 * self.layers * self.kv_heads * self.head_dim * kept


@dataclass(frozen=True)
class Model:
    """What the sum needs of a model. `source` says where its shape is published."""

    name: str
    parameters: int
    cache_layers: tuple[CacheLayers, ...]
    source: str = ""

    def __post_init__(self) -> None:
        """Raise UserError for a model without weights or without a cache."""
        check("parameters", between(1, self.parameters, MOST_PARAMETERS))
        if not self.cache_layers:
            raise UserError(f"{self.name} names no layers that keep a cache.")

    @classmethod
    def of_shape(cls, name: str, shape: Shape, *, parameters: int | None = None) -> Model:
        """A model from its `Shape` (see `cost.Shape.from_config`); `parameters` where they were counted."""
        kinds = ((shape.layers - shape.sliding_layers, None), (shape.sliding_layers, shape.window))
        groups = (CacheLayers(n, shape.kv_heads, shape.head_dim, window) for n, window in kinds if n)
        return cls(name, parameters or shape.parameters, tuple(groups))


#: The chapter's classes of models. The middle one is multi-head: as many key-value heads as query heads.
MODEL_7B = Model("7B", 7_000_000_000, (CacheLayers(32, 8, 128),))
MODEL_13B = Model("13B", 13_000_000_000, (CacheLayers(40, 40, 128),))
MODEL_70B = Model("70B", 70_000_000_000, (CacheLayers(80, 8, 128),))


@dataclass(frozen=True)
class Fit:
    """The sum for one model on one card.

    Attributes:
        weight_bytes: all parameters at the asked width.
        token_bytes: cache of one token while every layer still grows.
        user_bytes: cache of one user at the asked context.
        room_bytes: memory left for cache; negative: bytes that are missing before the first token.
        tokens: most tokens one conversation can hold; 0 where the weights do not fit. Without sliding
            layers it is also the most tokens that all users together can hold. MOST_TOKENS: every layer
            slides, so the cache stops growing and no length is too long.
        users: conversations of the asked context that fit at once.
    """

    weight_bytes: int
    token_bytes: float
    user_bytes: int
    room_bytes: int
    tokens: int
    users: int

    @property
    def weights_fit(self) -> bool:
        """Whether weights and reserve leave room for anything."""
        return self.room_bytes >= 0


def fit(
    model: Model,
    *,
    card_bytes: int,
    bits_per_weight: float,
    context: int = 1,
    cache_bits: float = CACHE_BITS,
    reserve_bytes: int = RESERVE_BYTES,
) -> Fit:
    """Hold a model against a card: what the weights take, and what is left for how many tokens and users.

    `bits_per_weight` and `cache_bits` include their scales: 4.125 is 4 bits and one 16-bit scale for
    each 128 weights.

    Raises:
        UserError: a setting outside sense.
    """
    _check_settings(card_bytes, bits_per_weight, context, cache_bits, reserve_bytes)
    weights = weight_bytes(model, bits_per_weight=bits_per_weight)
    room = card_bytes - reserve_bytes - weights
    user_bytes = cache_bytes(model, tokens=context, cache_bits=cache_bits)
    return Fit(
        weight_bytes=weights,
        token_bytes=sum(group.elements(1) for group in model.cache_layers) * cache_bits / 8,
        user_bytes=user_bytes,
        room_bytes=room,
        tokens=longest_conversation(model, room_bytes=room, cache_bits=cache_bits),
        users=max(0, room) // user_bytes,
    )


def weight_bytes(model: Model, *, bits_per_weight: float) -> int:
    """All parameters at one width, in bytes. A whole model at one width is the rule's simplification."""
    return math.ceil(model.parameters * bits_per_weight / 8)


def cache_bytes(model: Model, *, tokens: int, cache_bits: float = CACHE_BITS) -> int:
    """Cache of one conversation of `tokens` tokens, in bytes."""
    return math.ceil(sum(group.elements(tokens) for group in model.cache_layers) * cache_bits / 8)


def longest_conversation(model: Model, *, room_bytes: int, cache_bits: float = CACHE_BITS) -> int:
    """Most tokens, up to MOST_TOKENS, whose cache takes at most `room_bytes`; 0 where there is no room.

    The cache never shrinks as tokens are added, so halving finds the answer with any mix of windows.
    """

    def taken(tokens: int) -> int:
        return cache_bytes(model, tokens=tokens, cache_bits=cache_bits)

    return max(0, bisect_right(range(MOST_TOKENS + 1), room_bytes, key=taken) - 1)


def open_model(name: str) -> Model:
    """The model of the table that is called `name`.

    Raises:
        UserError: the table has no such model.
    """
    known = {model.name: model for model in open_models()}
    if name not in known:
        raise UserError(f"No shape is known for {name!r}. Known: {', '.join(known)}.")
    return known[name]


@cache
def open_models() -> tuple[Model, ...]:
    """Published shapes of current open models, smallest first, each with its source."""
    text = resources.files(__package__).joinpath("data", "open_models.toml").read_text(encoding="utf-8")
    models = [_parse(entry) for entry in tomllib.loads(text)["model"]]
    return tuple(sorted(models, key=lambda model: model.parameters))


def _parse(entry: dict[str, Any]) -> Model:
    groups = tuple(CacheLayers(**group) for group in entry["cache"])
    return Model(entry["name"], entry["parameters"], groups, entry["source"])


def _check_settings(
    card_bytes: int, bits_per_weight: float, context: int, cache_bits: float, reserve_bytes: int
) -> None:
    """Refuse what no machine has, naming the setting and the range that makes sense."""
    check("card_bytes", between(1, card_bytes, MOST_CARD_BYTES))
    check("reserve_bytes", between(0, reserve_bytes, card_bytes))
    check("context", between(1, context, MOST_TOKENS))
    check("bits_per_weight", between(1.0, bits_per_weight, MOST_BITS))
    check("cache_bits", between(1.0, cache_bits, MOST_BITS))
