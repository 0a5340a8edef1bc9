"""The page's loop against transformers' assisted generation and prompt look-up, and every draft on the default model."""

import copy

import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig, Qwen2Config, Qwen3Config

from cheap_inference.drafts import quantized_copy
from cheap_inference.errors import UserError
from cheap_inference.experiments.instruments import continuation_prompts
from cheap_inference.generation import generate_with_cache
from cheap_inference.models.load import load, random_model
from cheap_inference.models.registry import resolve
from cheap_inference.quantize.schemes import CHAPTER_SCHEMES, INT4_ROW
from tests.unit.speculative_page import PAGE, SIZES, filled, looked_up, model_draft

CONFIGS = {
    "llama": LlamaConfig(**SIZES),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3-wide-heads": Qwen3Config(**SIZES, head_dim=32),
}
PROMPT = torch.randint(0, 128, (1, 9), generator=torch.Generator().manual_seed(4))
NEW_TOKENS = 24


def library_tokens(target, *, end=None, **settings):
    output = target.generate(
        PROMPT,
        attention_mask=torch.ones_like(PROMPT),
        do_sample=False,
        repetition_penalty=1.0,
        max_new_tokens=NEW_TOKENS,
        eos_token_id=end,
        pad_token_id=0,
        **settings,
    )
    return output[0, PROMPT.shape[1] :].tolist()


def ours(target, draft, *, guesses, end=None):
    ids = PROMPT[0].tolist()
    made, _ = PAGE.speculate(
        target,
        filled(target, ids),
        ids,
        draft,
        PAGE.judge_greedily,
        guesses=guesses,
        new_tokens=NEW_TOKENS,
        end=end,
    )
    return made[:NEW_TOKENS]


def assistant(target, guesses):
    """A rounded copy as transformers' assistant: so many tokens a round, none held back for lack of confidence."""
    draft = quantized_copy(target, INT4_ROW)
    draft.generation_config = copy.deepcopy(draft.generation_config)
    draft.generation_config.num_assistant_tokens = guesses
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0
    return draft


@pytest.mark.parametrize("guesses", [1, 4])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_draft_model_gives_the_tokens_of_assisted_generation(name, guesses):
    target = random_model(CONFIGS[name], dtype=torch.float32, seed=3)
    draft = assistant(target, guesses)
    expected = library_tokens(target, assistant_model=draft)
    assert len(set(expected)) > 5
    assert ours(target, model_draft(draft), guesses=guesses) == expected


@pytest.mark.parametrize("name", CONFIGS)
def test_look_up_gives_the_tokens_of_the_librarys_look_up(name):
    target = random_model(CONFIGS[name], dtype=torch.float32, seed=3)
    expected = library_tokens(target, prompt_lookup_num_tokens=4)
    assert ours(target, looked_up, guesses=4) == expected


@pytest.mark.parametrize("place", [0, 2, 5, 9])
def test_end_of_text_inside_a_draft_ends_as_in_the_library(place):
    target = random_model(CONFIGS["llama"], dtype=torch.float32, seed=3)
    end = library_tokens(target)[place]
    expected = library_tokens(target, end=end, assistant_model=assistant(target, 5))
    assert expected[-1] == end
    assert ours(target, model_draft(quantized_copy(target, INT4_ROW)), guesses=5, end=end) == expected


def test_layers_that_forget_early_tokens_cannot_be_rolled_back():
    config = Gemma3TextConfig(
        **SIZES,
        head_dim=32,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention"],
    )
    target = random_model(config, dtype=torch.float32, seed=3)
    with pytest.raises(UserError, match="sliding-window"):
        ours(target, lambda ids, guesses: ([0] * guesses, []), guesses=4)


@pytest.fixture(scope="module")
def lm():
    return load(resolve("smollm2-135m", device="cpu"), device="cpu")


@pytest.mark.model
@pytest.mark.parametrize("scheme", CHAPTER_SCHEMES, ids=lambda scheme: scheme.name)
def test_every_rounded_copy_of_the_default_model_drafts_its_greedy_text(scheme, lm):
    ids = continuation_prompts(lm)[1].tolist()
    new_tokens = 10
    expected = generate_with_cache(lm.model, torch.tensor([ids]), new_tokens + 8).tolist()
    draft = quantized_copy(lm.model, scheme)
    for guesses in (1, 2, 4, 8):
        made, _ = PAGE.speculate(
            lm.model,
            filled(lm.model, ids),
            ids,
            model_draft(draft),
            PAGE.judge_greedily,
            guesses=guesses,
            new_tokens=new_tokens,
        )
        assert made == expected[: len(made)]
