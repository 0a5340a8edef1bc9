"""Cost by arithmetic: multiply-accumulates (MACs), weights and cache bytes from a model's shape.

No torch here: these are the closed forms and sums that the measurements are held against. One MAC is
one multiplication and one addition, so a FLOP counter reads twice these numbers. Attention over n
positions is counted as the full n x n product of scores and of values, which is what the explicit
(eager) path computes; a fused causal kernel may skip the half above the diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

from .errors import UserError

Head = Literal["none", "last", "all"]
"""Positions whose logits a pass computes: none, the last one, or every one fed to it."""

# What a config says of models that these formulas do not describe, and how the reader knows it.
_UNSUPPORTED = {
    "num_experts": "a mixture of experts",
    "num_local_experts": "a mixture of experts",
    "n_routed_experts": "a mixture of experts",
    "kv_lora_rank": "latent attention",
    "num_kv_shared_layers": "layers that share a cache",
    "kv_sharing_modes": "layers that share a cache",
}
_TWO_MATRIX_MLP = {"gpt_neox", "phi", "starcoder2", "nemotron", "falcon"}


@dataclass(frozen=True)
class Shape:
    """The dimensions of a decoder with gated MLPs (gate, up, down) that decide its cost.

    `head_dim` is the config's own, which need not be hidden / heads. `vectors` counts norm and bias
    parameters, which take part in no matrix product. `sliding_layers` of the `layers` attend to the
    last `window` positions only, the current one included.
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    intermediate: int
    vocab: int
    tied_head: bool = True
    vectors: int = 0
    sliding_layers: int = 0
    window: int | None = None

    @classmethod
    def from_config(cls, config: Any) -> Shape:
        """Shape of a transformers config.

        Raises UserError where these formulas would be wrong: mixtures of experts, latent or linear
        attention, shared caches, MLPs of two matrices, configs that lack a dimension.
        """
        config = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
        _refuse_unsupported(config)
        heads = config.num_attention_heads
        sliding_layers, window = _sliding(config)
        shape = cls(
            layers=config.num_hidden_layers,
            heads=heads,
            kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            hidden=config.hidden_size,
            intermediate=config.intermediate_size,
            vocab=config.vocab_size,
            tied_head=bool(getattr(config, "tie_word_embeddings", False)),
            sliding_layers=sliding_layers,
            window=window,
        )
        return replace(shape, vectors=_vectors(config, shape))

    @property
    def projection_weights(self) -> int:
        """Weights of all q, k, v, o, gate, up and down matrices; each costs one MAC a position."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def head_weights(self) -> int:
        """Weights of the output head, as many as the embedding has; one MAC each a row of logits."""
        return self.hidden * self.vocab

    @property
    def parameters(self) -> int:
        """All parameters, a tied head counted once (`vectors` must be given for it to be exact)."""
        embeddings = self.head_weights * (1 if self.tied_head else 2)
        return self.projection_weights + embeddings + self.vectors


def weight_bytes(shape: Shape, *, bytes_per_element: float) -> int:
    """Bytes of all parameters stored at one width."""
    return ceil(shape.parameters * bytes_per_element)


def step_weight_bytes(shape: Shape, *, bytes_per_element: float) -> int:
    """Bytes of the weights that one decode step reads: all but the rows an untied embedding skips."""
    weights = shape.projection_weights + shape.head_weights + shape.vectors
    return ceil(weights * bytes_per_element)


def kv_bytes_per_token(shape: Shape, *, bytes_per_element: float) -> int:
    """Cache bytes of one token: 2 (keys and values) x layers x kv_heads x head_dim x element.

    With sliding-window layers this is the cost while the context is shorter than the window; see
    `kv_bytes` for what such layers hold afterwards.
    """
    return ceil(2 * shape.layers * shape.kv_heads * shape.head_dim * bytes_per_element)


def kv_bytes(shape: Shape, *, tokens: int, bytes_per_element: float, batch_size: int = 1) -> int:
    """Cache bytes of `batch_size` sequences of `tokens` tokens each.

    A sliding layer attends to `window` positions, the current one included, so between two steps it
    keeps the last window - 1.
    """
    positions = (shape.layers - shape.sliding_layers) * tokens
    if shape.window is not None:
        positions += shape.sliding_layers * min(tokens, shape.window - 1)
    return ceil(2 * batch_size * positions * shape.kv_heads * shape.head_dim * bytes_per_element)


def score_bytes(*, queries: int, keys: int, bytes_per_element: int) -> int:
    """Bytes of one head's score matrix [queries, keys]."""
    return queries * keys * bytes_per_element


def head_attention_macs(*, queries: int, keys: int, head_dim: int) -> int:
    """Products of one attention head: scores [queries, keys], then their use on the values."""
    return 2 * queries * keys * head_dim


def cached_head_total(tokens: int, *, head_dim: int) -> int:
    """Closed form of one head's steps 1 ... T with a cache: the sum of 2 t d is d T (T + 1)."""
    return head_dim * tokens * (tokens + 1)


def uncached_head_total(tokens: int, *, head_dim: int) -> int:
    """Closed form of one head's passes over 1 ... T: the sum of 2 t^2 d is d T (T + 1)(2T + 1) / 3."""
    return head_dim * tokens * (tokens + 1) * (2 * tokens + 1) // 3


def attention_macs(shape: Shape, *, queries: int, keys: int) -> int:
    """Attention products of all layers and query heads; sharing key-value heads does not change them.

    A sliding layer is given at most window - 1 earlier positions beside the `queries` new ones.
    """
    full = head_attention_macs(queries=queries, keys=keys, head_dim=shape.head_dim)
    visible = keys if shape.window is None else min(keys, shape.window - 1 + queries)
    sliding = head_attention_macs(queries=queries, keys=visible, head_dim=shape.head_dim)
    return shape.heads * ((shape.layers - shape.sliding_layers) * full + shape.sliding_layers * sliding)


def pass_macs(shape: Shape, *, queries: int, keys: int, head: Head = "all") -> int:
    """MACs of one forward pass that feeds `queries` positions, the last of `keys` in the context."""
    rows = {"none": 0, "last": 1, "all": queries}[head]
    linear = queries * shape.projection_weights + rows * shape.head_weights
    return linear + attention_macs(shape, queries=queries, keys=keys)


def generation_macs(
    shape: Shape, *, prompt_tokens: int, new_tokens: int, cached: bool, head: Head = "all"
) -> int:
    """MACs of greedy generation, summed pass by pass. A prompt of one token is the cold start.

    With a cache: one pass over the prompt, then new_tokens - 1 steps of one position. Without: a pass
    over the whole sequence for each new token.
    """
    lengths = range(prompt_tokens, prompt_tokens + new_tokens)
    if not cached:
        return sum(pass_macs(shape, queries=n, keys=n, head=head) for n in lengths)
    prefill = pass_macs(shape, queries=prompt_tokens, keys=prompt_tokens, head=head)
    return prefill + sum(pass_macs(shape, queries=1, keys=n, head=head) for n in lengths[1:])


def positions_processed(*, prompt_tokens: int, new_tokens: int, cached: bool) -> int:
    """Positions that pass through the model: P + N - 1 with a cache, the sum of P ... P + N - 1 without."""
    lengths = range(prompt_tokens, prompt_tokens + new_tokens)
    return lengths[-1] if cached else sum(lengths)


def attention_overtakes_linear(shape: Shape) -> int:
    """First context length at which attention costs at least as many MACs as the projections.

    The head excluded, both loops cross at the same length: per position fed, attention over t keys
    costs 2 t d for each query head and layer, the projections a constant. Full attention assumed.
    """
    return ceil(shape.projection_weights / (2 * shape.layers * shape.heads * shape.head_dim))


def _refuse_unsupported(config: Any) -> None:
    family = getattr(config, "model_type", type(config).__name__)
    reasons = [reason for name, reason in _UNSUPPORTED.items() if getattr(config, name, None)]
    if family in _TWO_MATRIX_MLP or getattr(config, "intermediate_size", None) is None:
        reasons.append("an MLP without a gate")
    reasons += sorted(
        set(getattr(config, "layer_types", None) or []) - {"full_attention", "sliding_attention"}
    )
    if reasons:
        raise UserError(
            f"Model family {family!r} has {reasons[0]}, which the cost formulas here do not cover: "
            "choose a dense decoder such as Llama, Mistral, Qwen2, Qwen3 or Gemma."
        )


def _sliding(config: Any) -> tuple[int, int | None]:
    """Number of sliding-window layers and their window (None where there are none)."""
    window = getattr(config, "sliding_window", None)
    kind = "full_attention" if window is None else "sliding_attention"
    kinds = getattr(config, "layer_types", None) or [kind] * config.num_hidden_layers
    count = list(kinds).count("sliding_attention")
    return count, window if count else None


def _vectors(config: Any, shape: Shape) -> int:
    """Norm and bias parameters, exact for Llama, Mistral, Qwen2, Qwen3, Gemma, Gemma 2 and Gemma 3."""
    family = getattr(config, "model_type", "")
    layer = (4 if family in {"gemma2", "gemma3_text"} else 2) * shape.hidden
    if family in {"qwen3", "gemma3_text"}:
        layer += 2 * shape.head_dim
    if family == "qwen2" or getattr(config, "attention_bias", False):
        layer += (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    if getattr(config, "attention_bias", False):
        layer += shape.hidden
    if getattr(config, "mlp_bias", False):
        layer += 2 * shape.intermediate + shape.hidden
    return shape.layers * layer + shape.hidden
