"""The functions that the notebook speculative defines, and a small model to try them on."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import torch
from transformers import LlamaConfig

from cheap_inference import drafts
from cheap_inference.kv_cache import forward, new_cache

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "speculative.md"
CELLS = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SIZES = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,  # wide enough that the greedy text does not repeat one token
    "tie_word_embeddings": False,
}
CONFIG = LlamaConfig(**SIZES)


def taught() -> SimpleNamespace:
    """Functions and imports of the notebook's cells; the cells that measure are left out."""
    namespace: dict = {}
    wanted = (ast.FunctionDef, ast.Import, ast.ImportFrom)
    for cell in CELLS.findall(NOTEBOOK.read_text(encoding="utf-8")):
        source = re.sub(r"^:.*\n", "", cell, flags=re.MULTILINE)
        body = [node for node in ast.parse(source).body if isinstance(node, wanted)]
        exec(compile(ast.Module(body, type_ignores=[]), str(NOTEBOOK), "exec"), namespace)
    return SimpleNamespace(**namespace)


PAGE = taught()


def model_draft(model, cache=None):
    """A greedy draft for `speculate`, with a cache of its own."""
    cache = cache or new_cache(model.config)
    draw = drafts.greedy_draw(model.config.vocab_size)
    return lambda ids, guesses: PAGE.draft_tokens(model, cache, ids, guesses, draw)


def looked_up(ids, guesses):
    """Prompt look-up as a draft for `speculate`."""
    return PAGE.look_up(ids, guesses), []


@torch.inference_mode()
def filled(model, ids, cache=None):
    """A cache of all of `ids` but the last."""
    cache = cache or new_cache(model.config)
    forward(model, torch.tensor([ids[:-1]]), cache)
    return cache
