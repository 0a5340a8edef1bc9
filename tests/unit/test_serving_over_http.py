"""The server over a tiny model: its streams, its refusals, who hangs up, and what is left when it stops."""

import asyncio
import json
import socket
import threading
import time
from types import SimpleNamespace

import httpx2
import pytest
import torch

from cheap_inference.engine import slot_engine
from cheap_inference.errors import UserError
from cheap_inference.experiments import served_model as experiment
from cheap_inference.generation import generate_with_cache
from cheap_inference.serving.client import Answer, Refusal, ask, ask_patiently
from cheap_inference.serving.endpoint import completions
from cheap_inference.serving.live_batch import LiveBatch
from cheap_inference.serving.local_server import local_server
from cheap_inference.serving.service import PATH, CompletionService, completion_app

SLOTS, QUEUE_PLACES, CAPACITY = 2, 1, 60


class Letters:
    """One token a character on the way in; on the way out a word for each token, so that none looks like another."""

    bos_token, eos_token_id, chat_template = None, None, None

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": [ord(letter) % 128 for letter in text]}

    def decode(self, tokens, skip_special_tokens=True):
        return "".join(f"{token} " for token in tokens)


@pytest.fixture(scope="module")
def lm(make_model):
    """A random model with a head of its own: with tied embeddings it would only repeat the last token."""
    model = make_model(tie_word_embeddings=False)
    return SimpleNamespace(
        model=model,
        tokenizer=Letters(),
        config=model.config,
        device=torch.device("cpu"),
        dtype=torch.float32,
    )


@pytest.fixture
def gate(lm, monkeypatch):
    """An engine that waits before each decode step until it is let through: a test says when time goes on."""
    passes = threading.Semaphore(0)
    engine = slot_engine(lm, [], slots=SLOTS, capacity=CAPACITY)
    step = engine.decode

    def decode():
        assert passes.acquire(timeout=20)
        return step()

    monkeypatch.setattr(engine, "decode", decode)
    return SimpleNamespace(engine=engine, let=passes.release, open=lambda: passes.release(10_000))


def service_of(engine, tokenizer, end_of_text=(), capacity=CAPACITY):
    batch = LiveBatch(
        engine, slots=SLOTS, queue_places=QUEUE_PLACES, capacity=capacity, end_of_text=end_of_text
    )
    return CompletionService(batch, tokenizer)


@pytest.fixture
def served(lm, gate):
    service = service_of(gate.engine, lm.tokenizer)
    with local_server(completion_app(completions, service)) as url:
        yield SimpleNamespace(url=url, service=service)
        gate.open()


def alone(lm, prompt, count):
    ids = torch.tensor([lm.tokenizer(prompt)["input_ids"]])
    return generate_with_cache(lm.model, ids, count).tolist()


def start(clients, served, prompt, max_tokens, **more):
    """Ask from a thread and return when the server has accepted."""
    yes = threading.Event()
    found = {}
    thread = threading.Thread(
        target=lambda: found.update(
            answer=ask(served.url, prompt, max_tokens=max_tokens, accepted=yes.set, **more)
        )
    )
    thread.start()
    clients.append(thread)
    assert yes.wait(10)
    return found


def until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def test_streams_carry_the_tokens_that_each_request_gets_alone(lm, gate, served):
    clients, prompts = [], ["ab", "a longer one", "c"]
    found = [start(clients, served, prompt, 6 + place) for place, prompt in enumerate(prompts)]
    gate.open()
    for thread in clients:
        thread.join(20)
    for place, prompt in enumerate(prompts):
        answer = found[place]["answer"]
        assert answer.text == lm.tokenizer.decode(alone(lm, prompt, 6 + place))
        assert answer.finish_reason == "length"
        assert len(answer.arrivals) == 6 + place


def test_the_wire_is_server_sent_events(gate, served):
    gate.open()
    asked = {"prompt": "ab", "max_tokens": 3}
    response = httpx2.post(served.url + PATH, json=asked, trust_env=False)
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, done, rest = response.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    choices = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
    assert [choice["finish_reason"] for choice in choices] == [None, None, "length"]


def test_an_end_of_text_stops_the_answer_and_is_not_sent(lm, gate):
    tokens = alone(lm, "ab", 8)
    end = next(token for token in tokens if token != tokens[0])
    expected = tokens[: tokens.index(end)]
    gate.open()
    service = service_of(gate.engine, lm.tokenizer, end_of_text={end})
    with local_server(completion_app(completions, service)) as url:
        answer = ask(url, "ab", max_tokens=8)
    assert answer.finish_reason == "stop"
    assert answer.text == lm.tokenizer.decode(expected)


def test_a_full_server_refuses_with_the_time_to_come_again(gate, served):
    clients = []
    for _ in range(SLOTS + QUEUE_PLACES):
        start(clients, served, "ab", 10)
    until(lambda: served.service.tickets[0].made)
    served.service.batch.step_seconds.append(0.5)
    refusal = ask(served.url, "ab", max_tokens=10)
    assert isinstance(refusal, Refusal)
    assert refusal.retry_after == 5  # nine tokens to go at half a second, in whole seconds
    assert len(served.service.tickets) == SLOTS + QUEUE_PLACES
    gate.open()
    for thread in clients:
        thread.join(20)
    assert isinstance(ask(served.url, "ab", max_tokens=2), Answer)


def test_a_patient_client_waits_as_told_and_gives_up_in_the_end(monkeypatch):
    waits, answers = [], [Refusal(3, 0.0), Refusal(1, 0.0), Answer("x", "stop", (), 0.0, (1.0,))]
    monkeypatch.setattr("cheap_inference.serving.client.sleep", waits.append)
    monkeypatch.setattr("cheap_inference.serving.client.ask", lambda *_, **__: answers.pop(0))
    answer, refusals = ask_patiently("", "ab", max_tokens=1, tries=3)
    assert (answer.text, len(refusals), waits) == ("x", 2, [3, 1])
    answers += [Refusal(1, 0.0)] * 2
    with pytest.raises(UserError, match="refused 2 times"):
        ask_patiently("", "ab", max_tokens=1, tries=2)


def test_who_hangs_up_frees_its_slot_for_the_one_who_waits(lm, gate, served):
    clients = []
    start(clients, served, "ab", 40, hang_up_after=2)
    start(clients, served, "cd", 40)
    gate.let()
    waited = start(clients, served, "ef", 3)
    clients[0].join(10)
    gone, stays, waits = served.service.tickets
    until(lambda: gone.left)
    gate.open()
    clients[2].join(20)
    assert waited["answer"].text == lm.tokenizer.decode(alone(lm, "ef", 3))
    assert waits.slot == gone.slot
    assert gone.made <= 3 < stays.made
    clients[1].join(20)


def test_who_hangs_up_in_the_queue_frees_its_place(gate, served):
    clients = []
    for prompt in ("ab", "cd"):
        start(clients, served, prompt, 5)
    gate.let()
    until(lambda: all(served.service.batch.slots))
    asked = {"prompt": "ef", "max_tokens": 5}
    with httpx2.stream("POST", served.url + PATH, json=asked, trust_env=False) as response:
        assert response.status_code == 200
        assert len(served.service.batch.waiting) == 1
    until(lambda: not served.service.batch.waiting)
    gate.open()
    for thread in clients:
        thread.join(20)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"max_tokens": 3}, "prompt"),
        ({"prompt": "", "max_tokens": 3}, "prompt"),
        ({"prompt": "ab", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "ab", "max_tokens": True}, "max_tokens"),
        ({"prompt": "ab" * 40, "max_tokens": 3}, "82 places and a slot has 60"),
        ([], "prompt"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(served, asked, message):
    response = httpx2.post(served.url + PATH, json=asked, trust_env=False)
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]


def test_what_is_no_json_is_a_wrong_request_too(served):
    assert httpx2.post(served.url + PATH, content=b"{", trust_env=False).status_code == 400
    with pytest.raises(UserError, match="The server answered 400"):
        ask(served.url, "", max_tokens=1)


def assert_nothing_left(url, threads_before):
    host, port = url.removeprefix("http://").split(":")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), timeout=1)
    until(lambda: set(threading.enumerate()) <= threads_before)


def test_nothing_is_left_when_a_cell_fails_in_the_middle_of_a_stream(lm, gate):
    before, clients, address = set(threading.enumerate()), [], []
    service = service_of(gate.engine, lm.tokenizer)
    began = time.monotonic()

    def fails():
        with local_server(completion_app(completions, service)) as url:
            address.append(url)
            stream = httpx2.stream("POST", url + PATH, json={"prompt": "ab", "max_tokens": 50})
            clients.append(stream)
            stream.__enter__()
            threading.Timer(0.3, gate.open).start()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert time.monotonic() - began < 10
    clients[0].__exit__(None, None, None)
    assert_nothing_left(address[0], before)


def test_an_engine_that_fails_ends_the_streams_and_the_server(lm, gate, monkeypatch):
    monkeypatch.setattr(gate.engine, "decode", lambda: 1 / 0)
    before = set(threading.enumerate())
    with local_server(completion_app(completions, service_of(gate.engine, lm.tokenizer))) as url:
        with pytest.raises(UserError, match="without a finish_reason"):
            ask(url, "ab", max_tokens=3)
        with pytest.raises(UserError, match="The server answered 500"):
            ask(url, "ab", max_tokens=3)
    assert_nothing_left(url, before)


def test_an_app_that_cannot_start_is_reported():
    async def broken(scope, receive, send):
        raise ValueError

    before = set(threading.enumerate())
    with pytest.raises(UserError, match="did not start"), local_server(broken):
        pytest.fail("the block must not be entered")
    until(lambda: set(threading.enumerate()) <= before)


def test_half_a_character_is_held_back():
    class Bytes:
        def decode(self, tokens, skip_special_tokens=True):
            return bytes(tokens).decode("utf-8", errors="replace")

    class Given:
        async def items(self):
            for byte in "aé→".encode():
                yield byte, None
            yield None, "stop"

    async def collected():
        service = CompletionService(None, Bytes())
        return [piece async for piece, _ in service.pieces(Given())]

    assert asyncio.run(collected()) == ["a", "", "é", "", "", "→", ""]


def test_a_prompt_that_brings_its_start_of_text_gets_no_second_one():
    seen = []

    class Tokenizer:
        bos_token = "<s>"

        def __call__(self, text, add_special_tokens):
            seen.append(add_special_tokens)
            return {"input_ids": [1]}

    service = CompletionService(SimpleNamespace(submit=lambda *_, **__: None), Tokenizer())
    for prompt in ("<s>[INST]", "plain"):
        service.submit({"prompt": prompt, "max_tokens": 1})
    assert seen == [False, True]


def test_the_prompts_of_a_crowd_hold_a_long_one_and_two_questions():
    prompts = experiment.crowd_prompts(Letters(), 8)
    assert len(prompts) == 8
    assert max(prompts, key=len) == prompts[experiment.LONG_PLACE]
    assert [prompts[place].startswith("Question") for place in range(8)].count(True) == 2
    assert len(experiment.crowd_prompts(Letters(), 2)) == 2
