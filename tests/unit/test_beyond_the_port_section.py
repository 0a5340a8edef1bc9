"""The section beyond-the-port: what it measures on a tiny model, how it words it, and the code that it teaches."""

import ast
import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from cheap_inference import claims, records
from cheap_inference.engine import Engine
from cheap_inference.errors import UserError
from cheap_inference.experiments import port_clients
from cheap_inference.experiments.beyond_the_port import watch_from_outside
from cheap_inference.render.words import Words
from cheap_inference.serving import endpoint
from cheap_inference.views import beyond_the_port as view

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "beyond-the-port.md"
SETTINGS = {"slots": 2, "queue_places": 2, "answer_tokens": 16}
EN = Words("en")


class Letters:
    """One token a character, in and out."""

    bos_token, eos_token_id, chat_template = None, None, None

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": [ord(letter) % 128 for letter in text]}

    def decode(self, tokens, skip_special_tokens=True):
        return "".join(chr(token) for token in tokens)


@pytest.fixture(scope="module")
def lm(make_model):
    model = make_model(tie_word_embeddings=False, eos_token_id=None)
    return SimpleNamespace(
        model=model,
        tokenizer=Letters(),
        config=model.config,
        device=torch.device("cpu"),
        dtype=torch.float32,
    )


@pytest.fixture(scope="module")
def record(lm):
    """A run of the section, its steps as slow as a real model's: times are compared."""
    quick = Engine.decode
    before = set(threading.enumerate())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Engine, "decode", lambda engine: time.sleep(0.03) or quick(engine))
        watched = watch_from_outside(lm, endpoint.completions, **SETTINGS)
    assert set(threading.enumerate()) <= before
    return SimpleNamespace(watched=records.decode(records.encode(watched)))


def text_of(shown):
    return shown.data["text/markdown"]


def test_the_crowd_is_as_many_as_fit_and_gets_its_own_tokens(record):
    crowd = record.watched.crowd
    assert len(crowd.seen) == crowd.identical + crowd.excused == crowd.whole == 4
    assert [request.events for request in crowd.seen] == [16] * 4
    assert {request.finish_reason for request in crowd.seen} == {"length"}


def test_queueing_shows_in_the_first_token_and_not_in_the_pace(record):
    # No ratio of times: this runs beside other tests.
    first, second, third, last = record.watched.crowd.seen
    shortest_wait = min(third.queued, last.queued)
    assert shortest_wait > max(first.queued, second.queued)
    for request in (third, last):
        assert request.time_to_first_token >= request.queued
    assert max(request.gap.value for request in (first, second, third, last)) < shortest_wait


def test_one_more_is_refused_waits_as_told_and_is_served(record):
    refused = record.watched.refused
    assert refused.retry_after[0] == 1
    assert refused.until_first_token > 1
    assert refused.refusal_seconds < 1


def test_who_hangs_up_is_not_answered_to_the_end(record):
    hung_up = record.watched.hung_up
    assert hung_up.heard <= hung_up.made < hung_up.asked
    assert hung_up.same_slot
    assert hung_up.until_reused < hung_up.rest


def test_a_crowd_that_comes_slowly_to_a_fast_engine_is_still_all_there_when_it_starts(lm, monkeypatch):
    quick, accepted = Engine.decode, port_clients._accepted
    steps_during_sending = []

    def slowly(*arguments, **asked):
        time.sleep(0.1)
        future = accepted(*arguments, **asked)
        steps_during_sending.append(steps)
        return future

    def decode(engine):
        nonlocal steps
        steps += 1
        time.sleep(0.01)
        return quick(engine)

    steps = 0
    monkeypatch.setattr(Engine, "decode", decode)
    monkeypatch.setattr(port_clients, "_accepted", slowly)
    watched = watch_from_outside(lm, endpoint.completions, **SETTINGS)
    crowd, hanging_up = steps_during_sending[:4], steps_during_sending[4:]
    assert len(set(crowd)) == len(set(hanging_up)) == 1
    assert all(0 <= seen.queued <= seen.time_to_first_token for seen in watched.crowd.seen)
    assert watched.refused.retry_after
    assert watched.hung_up.same_slot


def test_a_crowd_that_is_served_at_once_is_an_error_that_says_what_to_do(lm, monkeypatch):
    patient = "cheap_inference.experiments.port_clients.ask_patiently"
    answer = SimpleNamespace(arrivals=(0.0,))
    monkeypatch.setattr(patient, lambda *_, **__: (answer, []))
    with pytest.raises(UserError, match="longer answer_tokens"):
        watch_from_outside(lm, endpoint.completions, **SETTINGS)


def test_the_table_marks_who_waited_longest(record):
    shown = view.requests_table(record, EN)
    marked = re.search(r'<tr class="marked"><th[^>]*>(\d)', shown.data["text/html"]).group(1)
    waits = [request.queued for request in record.watched.crowd.seen]
    assert int(marked) == 1 + waits.index(max(waits))
    assert shown.metadata["csv"].count("\n") == 5


@pytest.mark.parametrize(
    ("ratio", "wording"), [(1.05, "The gap is the step."), (1.5, "The gap is 1.50\u00a0×")]
)
def test_the_gap_is_called_the_step_only_where_it_is(record, ratio, wording):
    crowd = SimpleNamespace(**vars(record.watched.crowd))
    crowd.gap = SimpleNamespace(value=ratio * crowd.step.value)
    changed = SimpleNamespace(watched=SimpleNamespace(**{**vars(record.watched), "crowd": crowd}))
    assert wording in text_of(view.pace(changed, EN))


def test_sentences_say_what_was_found(record):
    assert "4 streams of 4" in text_of(view.same_tokens(record, EN))
    assert "0 answers of 4 ended with `stop`" in text_of(view.endings(record, EN))
    assert "status 429 and `Retry-After: 1`" in text_of(view.refused(record, EN))
    assert text_of(view.wire(record, EN)).splitlines()[-2] == "data: [DONE]"
    assert "2 slots, 2 places in the queue" in view.promises_table(record, EN).data["text/html"]
    assert "4 requests sent at once to a server with 2 slots" in text_of(view.answer(record, EN))


@pytest.mark.parametrize("locale", ["en", "hi"])
def test_the_figure_is_drawn(record, locale):
    shown = view.timeline_figure(record, Words(locale))
    assert shown.data["image/png"].startswith(b"\x89PNG")
    assert shown.metadata["alt"]


def bare(function):
    """A function's tree without docstring and annotations."""
    function.returns = None
    for argument in function.args.args:
        argument.annotation = None
    if ast.get_docstring(function):
        function.body = function.body[1:]
    return ast.dump(function)


@pytest.mark.parametrize("name", ["completions", "events"])
def test_the_endpoint_on_the_page_is_the_packages(name):
    cells = re.findall(r"```\{code-cell\}\n(.*?)```", NOTEBOOK.read_text(encoding="utf-8"), re.DOTALL)
    (cell,) = [cell for cell in cells if f"async def {name}(" in cell]
    package = Path(endpoint.__file__).read_text(encoding="utf-8")
    taught, kept = (
        next(node for node in ast.parse(code).body if getattr(node, "name", None) == name)
        for code in (cell, package)
    )
    assert bare(taught) == bare(kept)


def test_the_page_needs_no_claims():
    assert "beyond-the-port" not in claims.section_titles()
    assert "page.claim" not in NOTEBOOK.read_text(encoding="utf-8")
