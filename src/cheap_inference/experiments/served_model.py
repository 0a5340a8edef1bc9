"""The model behind a port, and a crowd's prompts, for the section beyond-the-port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..engine import slot_engine
from ..models.load import LoadedModel
from ..passage import PASSAGE
from ..serving.live_batch import LiveBatch
from ..serving.local_server import local_server
from ..serving.service import CompletionService, Endpoint, completion_app

#: Short enough an answer to end by itself, in the model's chat format where it has one.
QUESTIONS = (
    "What is the capital of France? Answer with one word.",
    "What is two plus two? Answer with one number.",
)
#: Places in the crowd of the two questions and of the one long prompt.
QUESTION_PLACES, LONG_PLACE = (1, 5), 3


@contextmanager
def served_model(
    lm: LoadedModel, endpoint: Endpoint, *, slots: int, queue_places: int, answer_tokens: int
) -> Iterator[tuple[str, CompletionService]]:
    """The model behind a port for the length of a `with` block: the address, and the service behind it.

    A slot has room for the passage as a prompt and `answer_tokens` after it.
    """
    capacity = len(lm.tokenizer(PASSAGE)["input_ids"]) + answer_tokens
    engine = slot_engine(lm, [], slots=slots, capacity=capacity)
    batch = LiveBatch(
        engine, slots=slots, queue_places=queue_places, capacity=capacity, end_of_text=end_of_text(lm)
    )
    service = CompletionService(batch, lm.tokenizer)
    with local_server(completion_app(endpoint, service)) as url:
        yield url, service


def end_of_text(lm: LoadedModel) -> set[int]:
    """Tokens that end an answer, by the model's settings and its tokenizer."""
    stored = lm.model.generation_config.eos_token_id
    return {lm.tokenizer.eos_token_id, *(stored if isinstance(stored, list) else [stored])} - {None}


def crowd_prompts(tokenizer: Any, count: int) -> list[str]:
    """Sentences of the passage to go on from; among them two questions and, at one place, a whole passage."""
    sentences = [sentence.strip() for sentence in PASSAGE.replace("\n", " ").split(".") if sentence.strip()]
    prompts = [sentences[index % len(sentences)] for index in range(count)]
    for place, question in zip(QUESTION_PLACES, QUESTIONS, strict=True):
        if place < count:
            prompts[place] = _as_chat(tokenizer, question)
    if count > LONG_PLACE:
        prompts[LONG_PLACE] = PASSAGE
    return prompts


def _as_chat(tokenizer: Any, question: str) -> str:
    if not tokenizer.chat_template:
        return f"Question: {question}\nAnswer:"
    message = [{"role": "user", "content": question}]
    return tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
