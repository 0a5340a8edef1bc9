"""The sixteen questions: marking rules, batching, and the penalty."""

from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig

from cheap_inference import battery
from cheap_inference.battery import Question, is_correct
from cheap_inference.kv_cache import forward
from cheap_inference.models.load import random_model

FREEZING = Question("At how many degrees Celsius does pure water freeze?", "number", ("0", "zero"))
SUM = Question("What is 12 plus 15?", "number", ("27", "twenty-seven"))
GOLD = Question("What is the chemical symbol for gold?", "word", ("Au",))


@pytest.mark.parametrize(
    ("question", "answer", "right"),
    [
        (FREEZING, "Water freezes at 0 degrees.", True),
        (FREEZING, "It freezes at -18.0 degrees.", False),
        (FREEZING, "It freezes at −18.0 degrees.", False),
        (FREEZING, "At 100, not 0.", False),
        (FREEZING, "At 0.5 degrees", False),
        (FREEZING, "At 10", False),
        (FREEZING, "At zero degrees.", True),
        (FREEZING, "At 0°C.", True),
        (FREEZING, "The 0th", False),
        (SUM, "12 + 15 = 27", True),
        (SUM, "12 plus 15 is 28, or 27.", False),
        (SUM, "Twenty-seven", True),
        (SUM, "12 and 15", False),
        (SUM, "1,027", False),
        (GOLD, "The symbol is Au.", True),
        (GOLD, "au", True),
        (GOLD, "It is Aura.", False),
        (GOLD, "It is Ag. Or Au.", False),
        (GOLD, "It is Ag\nAu", False),
        (GOLD, "", False),
    ],
)
def test_marking(question, answer, right):
    assert is_correct(question, answer) is right


def test_digit_groups_are_one_number():
    assert is_correct(Question("?", "number", ("1000",)), "About 1,000 of them")


def test_sixteen_questions_whose_answers_are_not_in_them():
    asked = battery.questions()
    assert len(asked) == len({question.text for question in asked}) == 16
    assert not [question for question in asked if is_correct(question, question.text)]
    assert all(is_correct(question, f"It is {question.answers[0]}.") for question in asked)
    assert {question.kind for question in asked} == {"number", "word"}


class Words:
    """A tokenizer over bytes, without a chat format."""

    chat_template = None
    eos_token_id = 0

    def __call__(self, text):
        return {"input_ids": [byte % 127 + 1 for byte in text.encode()]}

    def batch_decode(self, rows, skip_special_tokens):
        return [" ".join(str(token) for token in row.tolist() if token) for row in rows]


@pytest.fixture(scope="module")
def model():
    config = LlamaConfig(
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=64,
        intermediate_size=96,
        vocab_size=128,
        initializer_range=0.3,
        eos_token_id=0,
        pad_token_id=None,
    )
    return random_model(config, dtype=torch.float32, seed=0)


def greedy_alone(model, prompt, *, penalty, new_tokens, stop=0):
    """One question by itself, the whole sequence again for every token."""
    ids = list(prompt)
    for _ in range(new_tokens):
        logits = forward(model, torch.tensor([ids]))[0, -1].clone()
        for token in set(ids):
            logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
        ids.append(int(logits.argmax()))
        if ids[-1] == stop:
            break
    return [token for token in ids[len(prompt) :] if token != stop]


def test_a_batch_answers_as_each_question_alone(model):
    asked = [
        Question(text, "word", ("x",))
        for text in ("Short?", "A much longer question, is it not?", "Mid one?")
    ]
    answers = battery.ask(model, Words(), asked, penalties=(1.0, 1.3), new_tokens=8)
    for penalty, row in zip((1.0, 1.3), answers, strict=True):
        for question, answer in zip(asked, row, strict=True):
            prompt = battery.prompt_of(Words(), question)
            alone = greedy_alone(model, prompt, penalty=penalty, new_tokens=8)
            assert answer == " ".join(map(str, alone))
    assert answers[0] != answers[1]


def test_a_finished_row_stays_finished(model):
    asked = [Question(text, "word", ("x",)) for text in ("Short?", "Longer question?")]
    first = battery.ask(model, Words(), asked, penalties=(1.0,), new_tokens=4)[0][0].split()
    ends = SimpleNamespace(eos_token_id=int(first[1]))
    stopping = Words()
    stopping.eos_token_id = ends.eos_token_id
    answer = battery.ask(model, stopping, asked, penalties=(1.0,), new_tokens=4)[0][0].split()
    assert answer[: first.index(first[1]) + 1] == first[: first.index(first[1]) + 1]
    assert set(answer[first.index(first[1]) :]) == {first[1]}
