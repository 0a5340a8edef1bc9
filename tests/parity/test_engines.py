"""Both engines against decoding each request alone by `generate`, on tiny models of several kinds."""

import random
from types import SimpleNamespace

import pytest
import torch
import transformers

from cheap_inference.engine import agree, check_tokens, slot_engine
from cheap_inference.errors import UserError
from cheap_inference.models.load import random_model
from cheap_inference.paged_engine import PagedCache, PagedSequences, paged_engine
from cheap_inference.paged_kv_cache import BlockAllocator, BlockTables
from cheap_inference.paged_scheduling import serve_paged
from cheap_inference.scheduling import POLICIES, Request, serve
from cheap_inference.simulation import Costs, simulate
from cheap_inference.slot_cache import attention_masks

SIZES = {
    "vocab_size": 200,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 199,
    "tie_word_embeddings": False,  # a tied random model repeats the token it was fed
}
ALTERNATING = ["sliding_attention", "full_attention"]
CONFIGS = {
    "llama": transformers.LlamaConfig(**SIZES, head_dim=24),
    "qwen2": transformers.Qwen2Config(**SIZES, use_sliding_window=False),
    "mistral, all layers slide": transformers.MistralConfig(**SIZES, sliding_window=8),
    "gemma3, every second layer slides": transformers.Gemma3TextConfig(
        **SIZES, head_dim=16, sliding_window=8, layer_types=ALTERNATING
    ),
}
LENGTHS = [1, 5, 30, 2, 8, 1, 12, 3] * 2
PROMPTS = [[random.Random(i).randrange(2, 199) for _ in range(2 + i % 9)] for i in range(len(LENGTHS))]
REQUESTS = [Request(i, n, len(p)) for i, (n, p) in enumerate(zip(LENGTHS, PROMPTS, strict=True))]


def tiny(config):
    model = random_model(config, dtype=torch.float32, seed=3)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.mul_(5)  # spreads the logits: no ties, and answers that depend on the prompt
    return SimpleNamespace(model=model, config=model.config, device=torch.device("cpu"), dtype=torch.float32)


def alone(lm, prompt, tokens):
    """transformers' own greedy loop, made to ignore the end of text."""
    ids = torch.tensor([prompt])
    made = lm.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        suppress_tokens=None,
    )
    return made[0, len(prompt) :].tolist()


@pytest.fixture(params=CONFIGS, scope="module")
def served(request):
    """A model and each request's tokens when it is alone. End of text can't be chosen by either side."""
    lm = tiny(CONFIGS[request.param])
    lm.model.generation_config.eos_token_id = None
    return lm, [alone(lm, prompt, tokens) for prompt, tokens in zip(PROMPTS, LENGTHS, strict=True)]


def tables(blocks, block_size=4):
    return BlockTables(BlockAllocator(blocks), block_size=block_size)


def test_the_requests_are_worth_comparing(served):
    _, expected = served
    assert len({tuple(tokens[:3]) for tokens in expected}) > len(REQUESTS) // 2
    assert len(set(expected[2])) > 8


@pytest.mark.parametrize("policy", POLICIES)
def test_batched_slots_give_the_tokens_of_decoding_alone(served, policy):
    lm, expected = served
    engine = slot_engine(lm, PROMPTS, slots=4, capacity=48)
    schedule = serve(REQUESTS, engine, slots=4, policy=policy)
    assert engine.tokens == expected
    costs = Costs.fixed(prefill=1.0, decode=1.0, slots=4)
    assert schedule.steps == simulate(REQUESTS, costs, policy=policy).steps == len(engine.decode_seconds)


@pytest.mark.parametrize("when_full", ["refuse", "preempt"])
@pytest.mark.parametrize("blocks", [100, 14])
def test_a_paged_cache_gives_them_too_with_half_the_memory(served, blocks, when_full):
    lm, expected = served
    memory = tables(blocks)
    engine = paged_engine(lm, PROMPTS, memory, slots=4)
    run = serve_paged(REQUESTS, engine, memory, slots=4, when_full=when_full)
    assert engine.tokens == expected
    assert (run.preemptions > 0) == (blocks == 14 and when_full == "preempt")
    assert memory.blocks_in_use == 0


@pytest.mark.parametrize("prompt_tokens", [6, 8])
def test_both_branches_of_a_fork_go_on_as_if_alone(served, prompt_tokens):
    """With blocks of four, six tokens fork in mid-block and eight at a border."""
    lm, _ = served
    prompt = [3 + 7 * i % 190 for i in range(prompt_tokens)]
    sequences = PagedSequences(lm, tables(40))
    best, other = sequences.feed("parent", prompt).topk(2).indices.tolist()
    sequences.tables.fork("parent", "child")
    child = sequences.greedy("child", other, 7)
    parent = sequences.greedy("parent", best, 7)
    assert parent == alone(lm, [*prompt, best], 7)
    assert child == alone(lm, [*prompt, other], 7)
    assert parent != child


def test_a_prompt_fed_in_chunks_between_steps_changes_no_token(served):
    lm, expected = served
    engine = slot_engine(lm, PROMPTS, slots=2, capacity=64)
    long = [2 + i % 190 for i in range(30)]
    engine.prefill(0, REQUESTS[2])
    for first in range(0, len(long), 7):
        logits = engine.extend(1, long[first : first + 7])
        engine.decode()
    assert engine.tokens[2] == expected[2][: len(engine.tokens[2])]
    assert int(logits.argmax()) == alone(lm, long, 1)[0]


def test_the_check_finds_the_first_wrong_token(served):
    lm, expected = served
    assert all(
        check_tokens(lm, prompt, tokens).first_difference is None
        for prompt, tokens in zip(PROMPTS, expected, strict=True)
    )
    wrong = list(expected[2])
    wrong[4] = (wrong[4] + 1) % 200
    assert check_tokens(lm, PROMPTS[2], wrong).first_difference == 4


def test_memory_is_what_the_tensors_hold(served):
    lm, _ = served
    head_dim = lm.model.model.layers[0].self_attn.head_dim
    token = 2 * 2 * SIZES["num_key_value_heads"] * head_dim * 4
    assert PagedCache(lm, tables(10)).nbytes == 10 * 4 * token
    assert slot_engine(lm, PROMPTS, slots=3, capacity=50).cache.nbytes == 3 * 50 * token


def test_answers_agree_where_they_part_at_a_tie(served):
    lm, expected = served
    prompt, one = PROMPTS[2], expected[2]
    other = [*one[:5], (one[5] + 1) % 199, *one[6:]]
    assert agree(lm, prompt, one, list(one), noise=0.0)
    assert not agree(lm, prompt, one, other, noise=0.0)
    assert not agree(lm, prompt, one, one[:-1], noise=1e9)
    assert agree(lm, prompt, one, other, noise=1e9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"_attn_implementation": "flex_attention"}, "takes no mask"),
        ({"layer_types": ["linear_attention"]}, "no mask"),
    ],
)
def test_layers_that_take_no_such_mask_are_refused(change, message):
    config = SimpleNamespace(_attn_implementation="sdpa", sliding_window=None, layer_types=None)
    model = SimpleNamespace(config=SimpleNamespace(**{**vars(config), **change}))
    with pytest.raises(UserError, match=message):
        attention_masks(model, torch.zeros(1, 1, dtype=torch.long), longest=1, dtype=torch.float32)


def test_eager_attention_gets_a_mask_that_it_can_add():
    lm = tiny(CONFIGS["llama"])
    lm.model.set_attn_implementation("eager")
    engine = slot_engine(lm, PROMPTS, slots=4, capacity=48)
    serve(REQUESTS, engine, slots=4, policy="continuous")
    lm.model.set_attn_implementation("sdpa")
    assert engine.tokens == [
        alone(lm, prompt, tokens) for prompt, tokens in zip(PROMPTS, LENGTHS, strict=True)
    ]
