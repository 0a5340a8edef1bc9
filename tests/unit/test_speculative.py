"""Speculative decoding: the loop on the page, its drafts and caches, in a batch too, beside plain greedy decoding."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from cheap_inference import drafts
from cheap_inference import speculative as arithmetic
from cheap_inference.errors import UserError
from cheap_inference.generation import generate_with_cache
from cheap_inference.kv_cache import cache_length, cache_tensors, new_cache
from cheap_inference.models.load import random_model
from cheap_inference.quantize.schemes import INT4_ROW, INT8_ROW
from cheap_inference.speculative import Round
from cheap_inference.speculative_batch import SpeculativeBatch
from tests.unit.speculative_page import CONFIG, PAGE, filled, looked_up, model_draft

PROMPT = [5, 17, 99, 3, 42, 5, 17, 8, 64]
NEW_TOKENS = 24


@pytest.fixture(scope="module")
def target():
    return random_model(CONFIG, dtype=torch.float32, seed=3)


@pytest.fixture(scope="module")
def plain(target):
    return generate_with_cache(target, torch.tensor([PROMPT]), NEW_TOKENS + 16).tolist()


def decode(target, draft, *, guesses, cache=None, **settings):
    cache = filled(target, PROMPT, cache)
    settings = {"new_tokens": NEW_TOKENS} | settings
    made, rounds = PAGE.speculate(
        target, cache, PROMPT, draft, PAGE.judge_greedily, guesses=guesses, **settings
    )
    return made, [Round(*one) for one in rounds]


# --- greedy decoding ---


def copies(target):
    stranger = random_model(CONFIG, dtype=torch.float32, seed=4)
    return {
        "int4": model_draft(drafts.quantized_copy(target, INT4_ROW)),
        "int8": model_draft(drafts.quantized_copy(target, INT8_ROW)),
        "stranger": model_draft(stranger),
        "itself": model_draft(target),
        "look up": looked_up,
        "nothing": lambda ids, guesses: ([], []),
        "always wrong": lambda ids, guesses: ([127] * guesses, []),
    }


@pytest.mark.parametrize("guesses", [1, 2, 4, 8])
@pytest.mark.parametrize("name", ["int4", "int8", "stranger", "itself", "look up", "nothing", "always wrong"])
def test_every_draft_gives_the_tokens_of_plain_greedy_decoding(name, guesses, target, plain):
    assert len(set(plain)) > 5
    made, rounds = decode(target, copies(target)[name], guesses=guesses)
    assert len(made) >= NEW_TOKENS
    assert made == plain[: len(made)]
    assert sum(one.tokens for one in rounds) == len(made)


def test_drafts_are_right_sometimes_and_wrong_sometimes(target):
    _, rounds = decode(target, copies(target)["int4"], guesses=2)
    assert {one.accepted for one in rounds} == {0, 1, 2}


@pytest.mark.parametrize("guesses", [1, 4])
def test_the_target_as_its_own_draft_is_never_refused(target, guesses):
    made, rounds = decode(target, model_draft(target), guesses=guesses)
    assert set(rounds) == {Round(guesses, guesses)}
    assert len(rounds) == -(-NEW_TOKENS // (guesses + 1))
    assert len(made) == len(rounds) * (guesses + 1)


def test_after_a_round_without_refusal_the_drafts_cache_is_one_token_short(target):
    cache, held = new_cache(target.config), []
    draft = model_draft(target, cache)

    def watched(ids, guesses):
        held.append(len(ids) - cache_length(cache))
        return draft(ids, guesses)

    decode(target, watched, guesses=3)
    assert held[0] == len(PROMPT)
    assert set(held[1:]) == {2}, "the last guess and the target's own token are both missing"


def test_a_refused_guess_leaves_the_drafts_cache(target):
    """The draft's cache after every round is what a fresh one would hold."""
    draft_model = drafts.quantized_copy(target, INT4_ROW)
    kept = model_draft(draft_model)

    def compared(ids, guesses):
        guess = kept(ids, guesses)
        assert guess == model_draft(draft_model)(ids, guesses)
        return guess

    _, rounds = decode(target, compared, guesses=4)
    assert any(one.accepted < 4 for one in rounds)


def test_the_targets_cache_is_rolled_back(target):
    cache = new_cache(target.config)
    made, rounds = decode(target, copies(target)["int4"], guesses=4, cache=cache)
    assert any(one.accepted < one.guessed for one in rounds)
    fresh = filled(target, [*PROMPT, *made])
    assert cache_length(cache) == len(PROMPT) + len(made) - 1
    for ours, theirs in zip(cache_tensors(cache), cache_tensors(fresh), strict=True):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("place", range(7))
def test_end_of_text_inside_a_draft_ends_the_text(target, plain, place):
    end = plain[place]
    made, _ = decode(target, model_draft(target), guesses=5, end=end)
    assert made == plain[: plain.index(end) + 1]


def test_end_of_text_that_the_target_refuses_ends_nothing(target, plain):
    end = next(token for token in range(128) if token not in plain)
    made, _ = decode(target, lambda ids, guesses: ([end] * guesses, []), guesses=4, end=end)
    assert made == plain[: len(made)]
    assert len(made) == NEW_TOKENS


def test_an_end_of_text_in_the_prompt_is_no_end(target, plain):
    end = next(token for token in PROMPT if token not in plain)
    made, _ = decode(target, copies(target)["int8"], guesses=4, end=end)
    assert made == plain[: len(made)]
    assert len(made) >= NEW_TOKENS


# --- drafts ---


def test_looking_up_prefers_the_longest_and_then_the_latest_ending():
    assert PAGE.look_up([1, 2, 3, 9, 7, 2, 3, 8, 1, 2, 3], 2) == [9, 7]
    assert PAGE.look_up([2, 3, 5, 2, 3, 6, 2, 3], 2) == [6, 2]
    assert PAGE.look_up([1, 2, 3, 4], 3) == []
    assert PAGE.look_up([7], 3) == []
    assert PAGE.look_up([1, 2, 3, 1, 2, 3], 0) == []


def test_a_look_up_that_reaches_the_end_goes_on_with_its_own_guesses():
    assert PAGE.look_up([4, 1, 2, 1, 2], 5) == [1, 2, 1, 2, 1]
    assert PAGE.look_up([6, 6, 6], 3) == [6, 6, 6]


def speaker(vocabulary, size, title):
    """What `common_vocabulary` looks at."""
    return SimpleNamespace(
        tokenizer=SimpleNamespace(get_vocab=lambda: vocabulary),
        config=SimpleNamespace(vocab_size=size),
        spec=SimpleNamespace(title=title),
    )


def test_models_whose_vocabularies_differ_are_refused_in_one_line():
    one, other = speaker({"a": 0, "b": 1}, 2, "Big"), speaker({"a": 1, "b": 0}, 2, "Small")
    with pytest.raises(UserError) as caught:
        drafts.common_vocabulary(one, other)
    message = str(caught.value)
    assert "Small cannot guess for Big" in message
    assert "\n" not in message


def test_padding_beyond_the_vocabulary_is_never_proposed():
    words = {"a": 0, "b": 1, "c": 2}
    known = drafts.common_vocabulary(speaker(words, 8, "Big"), speaker(words, 6, "Small"))
    assert known == 3
    logits = torch.tensor([0.0, 2.0, 1.0, 9.0, 9.0, 9.0])
    assert drafts.greedy_draw(known)(logits)[0] == 1
    draw = drafts.sampling_draw(
        temperature=1.0, vocabulary=known, width=8, generator=torch.Generator().manual_seed(0)
    )
    drawn = [draw(logits) for _ in range(50)]
    assert {token for token, _ in drawn} <= {0, 1, 2}
    distribution = drawn[0][1]
    torch.testing.assert_close(distribution[:3], logits[:3].double().softmax(dim=-1))
    assert distribution.shape == (8,)
    assert distribution[3:].sum() == 0


def test_a_rounded_copy_shares_what_is_not_rounded_and_leaves_the_target_alone(target):
    before = target.model.layers[0].mlp.up_proj.weight.clone()
    copy = drafts.quantized_copy(target, INT4_ROW)
    assert copy.model.embed_tokens.weight is target.model.embed_tokens.weight
    assert copy.lm_head.weight is target.lm_head.weight
    assert torch.equal(copy.model.layers[0].mlp.up_proj.weight, INT4_ROW(before))
    assert torch.equal(target.model.layers[0].mlp.up_proj.weight, before)


# --- several requests in one pass ---


def loaded(model):
    return SimpleNamespace(model=model, config=model.config, device=torch.device("cpu"), dtype=torch.float32)


def half_right(target, prompts):
    """A look-up that knows what the rows will say, and errs at places that differ from row to row."""
    known = {
        tuple(prompt): [*prompt, *generate_with_cache(target, torch.tensor([prompt]), 60).tolist()]
        for prompt in prompts
    }

    def look_up(text, guesses):
        right = known[tuple(text[: len(PROMPT)])][len(text) : len(text) + guesses]
        return [(token + (token % 3 == 0)) % 128 for token in right]

    return look_up


def test_in_a_batch_every_row_gets_what_it_gets_alone(target):
    prompts = [[token + shift for token in PROMPT] for shift in range(3)]
    batch = SpeculativeBatch(loaded(target), prompts, capacity=64)
    _, rounds = batch.run(half_right(target, prompts), PAGE.judge_greedily, guesses=3, rounds=8)
    assert len({len(text) for text in batch.texts}) > 1, "rows must have parted to test anything"
    for prompt, text, found in zip(prompts, batch.texts, rounds, strict=True):
        expected = generate_with_cache(target, torch.tensor([prompt]), len(text) - len(prompt))
        assert text[len(prompt) :] == expected.tolist()
        assert sum(one.tokens for one in found) == len(text) - len(prompt)
        assert len(found) == 8


def test_a_rewound_batch_starts_again(target):
    prompts = [PROMPT, PROMPT[::-1]]
    batch = SpeculativeBatch(loaded(target), prompts, capacity=64)
    batch.run(half_right(target, prompts), PAGE.judge_greedily, guesses=4, rounds=4)
    first = [list(text) for text in batch.texts]
    batch.rewind()
    assert batch.texts == prompts
    batch.run(lambda *_: [], PAGE.judge_greedily, guesses=0, rounds=4)
    assert all(text == one[: len(text)] for text, one in zip(batch.texts, first, strict=True))
    assert [len(text) for text in batch.texts] == [len(PROMPT) + 4] * 2


# --- arithmetic ---


def test_the_chapters_numbers():
    assert arithmetic.expected_tokens(0.3, 4) == pytest.approx(1.4251)
    assert arithmetic.expected_tokens(1.0, 4) == 5
    assert arithmetic.expected_speedup(0.3, 4, draft_cost=0.2) == pytest.approx(1.4251 / 1.8)
    assert arithmetic.expected_speedup(0.9, 8, draft_cost=0.1) == pytest.approx(3.403219506)
    assert arithmetic.expected_speedup(0.9, 8, draft_cost=0.1, check_cost=2) == pytest.approx(
        6.125795 / 2.8, rel=1e-6
    )


@given(some.floats(0, 0.99), some.integers(1, 9), some.floats(0, 1), some.floats(1, 3))
def test_the_page_computes_as_the_package_does(acceptance, guesses, cost, check):
    closed = (1 - acceptance ** (guesses + 1)) / (1 - acceptance)
    assert PAGE.expected_tokens(acceptance, guesses) == pytest.approx(closed)
    assert arithmetic.expected_tokens(acceptance, guesses) == pytest.approx(closed)
    ours = arithmetic.expected_speedup(acceptance, guesses, draft_cost=cost, check_cost=check)
    assert PAGE.speedup(acceptance, guesses, cost, check) == pytest.approx(ours)


@given(some.integers(1, 8), some.floats(0, 1.5), some.floats(1, 4))
def test_at_break_even_nothing_is_won(guesses, cost, check):
    rate = arithmetic.break_even(guesses, draft_cost=cost, check_cost=check)
    if rate is None:
        assert arithmetic.expected_speedup(1.0, guesses, draft_cost=cost, check_cost=check) < 1
    else:
        found = arithmetic.expected_speedup(rate, guesses, draft_cost=cost, check_cost=check)
        assert found == pytest.approx(1, abs=1e-9)


def test_walking_a_column_of_hits():
    hits = [True, True, True, False, True, False, False, True]
    expected = [Round(2, 2), Round(2, 0), Round(2, 1), Round(2, 0), Round(1, 1)]
    assert arithmetic.walk(hits, 2) == expected
    assert arithmetic.walk([True] * 5, 4) == [Round(4, 4)]
    assert arithmetic.walk([False] * 3, 4) == [Round(3, 0), Round(2, 0), Round(1, 0)]


@given(some.lists(some.booleans(), min_size=1, max_size=40), some.integers(1, 8))
def test_a_walk_covers_the_column_once(hits, guesses):
    rounds = arithmetic.walk(hits, guesses)
    added = sum(one.accepted == one.guessed for one in rounds[:-1])
    judged = sum(one.judged for one in rounds)
    assert sum(one.accepted for one in rounds) <= sum(hits)
    assert len(hits) - judged in (added, added + 1 if rounds[-1].accepted == rounds[-1].guessed else added)
    assert arithmetic.within(rounds, len(hits)) == rounds


@pytest.mark.parametrize("guesses", [1, 3, 4, 8])
def test_the_column_settles_the_rounds_of_the_loop(target, plain, guesses):
    draft = drafts.quantized_copy(target, INT4_ROW)
    text = torch.tensor([[*PROMPT, *plain[: NEW_TOKENS - 1]]])
    with torch.inference_mode():
        choices = draft(text).logits[0, len(PROMPT) - 1 :].argmax(dim=-1).tolist()
    hits = [one == other for one, other in zip(choices, plain[:NEW_TOKENS], strict=True)]
    _, rounds = decode(target, model_draft(draft), guesses=guesses)
    assert arithmetic.within(rounds, NEW_TOKENS) == arithmetic.walk(hits, guesses)


def test_acceptance_counts_judged_guesses_only():
    rounds = [Round(4, 4), Round(4, 1), Round(0, 0), Round(4, 0)]
    assert [one.judged for one in rounds] == [4, 2, 0, 1]
    assert arithmetic.acceptance_rate(rounds) == 5 / 7
    assert arithmetic.acceptance_rate([Round(0, 0)]) == 0
    assert arithmetic.mean_tokens(rounds) == 9 / 4
    interval = arithmetic.acceptance_interval([rounds, [Round(4, 2)], [Round(4, 4)]])
    assert interval.low < 5 / 7 < interval.high
