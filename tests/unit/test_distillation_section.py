"""The section distillation from measurement to page on a tiny random model, and the code that it teaches."""

import ast
import copy
import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from cheap_inference import bootstrap, claims, corpus, distillation, records
from cheap_inference.experiments import distillation as experiment
from cheap_inference.experiments import lesson as lesson_module
from cheap_inference.experiments import next_words
from cheap_inference.models.load import LoadedModel
from cheap_inference.models.registry import KNOWN_MODELS
from cheap_inference.quantity import Quantity
from cheap_inference.render.words import Words
from cheap_inference.settings import LOCALES
from cheap_inference.views import distillation as view

SOURCE = (Path(__file__).parents[2] / "notebooks" / "distillation.md").read_text(encoding="utf-8")
CELLS = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EN = Words("en")
#: Drawing takes time, and only the script matters for it.
DRAWN = ("en", "hi")


class Bytes:
    """A tokenizer of one token a byte."""

    def __call__(self, text):
        return {"input_ids": [byte % 127 + 1 for byte in text.encode()]}

    def decode(self, ids, **_):
        return f" {ids[0]}"


@pytest.fixture(scope="module")
def lm(tiny_llama):
    return LoadedModel(tiny_llama, Bytes(), torch.device("cpu"), torch.float32, KNOWN_MODELS["smollm2-135m"])


@pytest.fixture(scope="module")
def small():
    """Fewer steps, windows and resamples than on a page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distillation, "STEPS", 20)
        patch.setattr(distillation, "CHECK_EVERY", 4)
        patch.setattr(distillation, "BATCH_SIZE", 64)
        patch.setattr(bootstrap, "RESAMPLES", 200)
        yield


@pytest.fixture(scope="module")
def record(lm, small):
    parts = {
        "words": next_words.next_words(lm),
        "students": experiment.teach_students(
            lm, distillation.hard_loss, distillation.soft_loss, temperature=2.0
        ),
    }
    return SimpleNamespace(**{name: records.decode(records.encode(part)) for name, part in parts.items()})


VIEWS = [
    pytest.param(function, id=name)
    for name, function in inspect.getmembers(view, inspect.isfunction)
    if function.__module__ == view.__name__
    and list(inspect.signature(function).parameters) == ["record", "words"]
]


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("shown", VIEWS)
def test_every_view_renders_in_every_language(shown, locale, record):
    if shown.__name__.endswith("_figure") and locale not in DRAWN:
        return
    display = shown(record, Words(locale))
    text = display.data["text/plain"]
    assert text
    assert "{" not in text
    if "text/html" in display.data:
        assert display.data["text/html"].count("<tr") <= 8 + 1
        assert display.metadata["csv"].splitlines()[0].isascii()


def test_every_view_is_on_the_page_and_every_claim_registered():
    assert {param.id for param in VIEWS} == set(re.findall(r"page\.show\(view\.(\w+)\)", SOURCE))
    registered = re.findall(r'page\.claim\("([^"]+)"', SOURCE)
    assert sorted(registered) == sorted(claim.id for claim in claims.claims_of("distillation"))


# --- the code on the page ---


def test_the_taught_losses_are_the_packages():
    namespace: dict = {}
    (cell,) = (one for one in CELLS.findall(SOURCE) if "def soft_loss" in one)
    exec(cell, namespace)
    for name in ("hard_loss", "soft_loss"):
        (taught,) = (one for one in ast.parse(cell).body if getattr(one, "name", "") == name)
        (ours,) = ast.parse(inspect.getsource(getattr(distillation, name))).body
        assert ast.dump(ast.Module(taught.body, [])) == ast.dump(ast.Module(ours.body[1:], []))


def test_what_is_measured_is_the_code_that_was_handed_over(lm, small, record):
    def upside_down(logits, teacher_logits, temperature):
        return distillation.soft_loss(logits, -teacher_logits, temperature)

    broken = experiment.teach_students(lm, distillation.hard_loss, upside_down, temperature=2.0)
    assert broken.taught[0].cross_entropy == record.students.taught[0].cross_entropy
    assert broken.taught[1].divergence.low > record.students.taught[1].divergence.high


# --- one sentence ---


def test_the_words_are_the_models_own(lm, record):
    from cheap_inference.kv_cache import forward

    ids = torch.tensor([Bytes()(next_words.SENTENCE)["input_ids"]])
    probabilities = forward(lm.model, ids)[0, -1].softmax(-1)
    best = probabilities.topk(5)
    assert [word.text for word in record.words.words] == [f" {token}" for token in best.indices.tolist()]
    assert record.words.together == pytest.approx(float(best.values.sum()), rel=1e-5)


def test_temperature_takes_roots_at_every_rank(record):
    plain, warm, warmer = (row.relative for row in record.words.heated)
    assert record.words.square_root
    assert warm == pytest.approx([value**0.5 for value in plain])
    assert warmer == pytest.approx([value**0.25 for value in plain])


def test_a_temperature_that_is_no_root_is_found_out(lm, monkeypatch):
    heated = next_words._heated
    monkeypatch.setattr(next_words, "_heated", lambda logits, t, ranks: heated(logits, t**1.001, ranks))
    assert not next_words.next_words(lm).square_root


# --- text ---


def test_training_validation_and_held_out_text_never_overlap(lm):
    ids = Bytes()(corpus.text("distillation"))["input_ids"]
    start = lesson_module.TRAINING_WINDOWS * lesson_module.WINDOW
    used = lesson_module.VALIDATION_WINDOWS * lesson_module.WINDOW
    validation = lesson_module._windows(lm, "distillation", lesson_module.VALIDATION_WINDOWS, skip=start)
    assert validation.flatten().tolist() == ids[start : start + used]
    held_out = lesson_module._windows(lm, "holdout", lesson_module.HELD_OUT_WINDOWS)
    assert held_out.flatten().tolist() == Bytes()(corpus.text("holdout"))["input_ids"][: held_out.numel()]


def test_the_vocabulary_is_that_of_the_training_text_and_the_teacher_is_not_asked_about_validation(lm):
    text = lesson_module.lesson(lm)
    training = lesson_module._windows(lm, "distillation", lesson_module.TRAINING_WINDOWS)
    assert text.vocabulary.tolist() == sorted(set(training.flatten().tolist()))
    assert text.validation.teacher_logits is None
    assert text.held_out.teacher_logits.shape == (len(text.held_out.labels), len(text.vocabulary))
    assert 0 < text.kept < 1


# --- students ---


def test_rows_and_spreads(record):
    students = record.students
    assert [taught.objective for taught in students.taught] == ["hard", "soft", "warm", "soft-part"]
    assert students.taught[3].examples == students.taught[0].examples // students.less_text
    for taught in students.taught:
        assert taught.cross_entropy.low <= taught.cross_entropy.value <= taught.cross_entropy.high
        assert (taught.cross_entropy.n, len(taught.best_steps), len(taught.curve)) == (3, 3, 5)
        assert taught.divergence.value > 0
    assert students.checked_at == [4, 8, 12, 16, 20]
    assert students.gradients[0].fresh_bare == students.gradients[0].trained_scaled == 1


def test_verdicts_follow_from_the_rows(record):
    hard, *soft, _ = record.students.taught
    for name, verdict in (
        ("cross_entropy", record.students.soft_beats_hard),
        ("divergence", record.students.soft_nearer_teacher),
    ):
        assert verdict == all(getattr(one, name).high < getattr(hard, name).low for one in soft)
    for pair in record.students.comparisons:
        first, second = (
            next(one for one in record.students.taught if one.objective == name).cross_entropy
            for name in (pair.first, pair.second)
        )
        assert pair.difference.value == pytest.approx(first.value - second.value, abs=1e-5)
        assert pair.seeds_apart == (first.high < second.low or second.high < first.low)
        covers = pair.difference.low <= 0 <= pair.difference.high
        assert pair.beyond == (pair.seeds_apart and not covers)


def with_difference(record, better, *, beyond):
    """A record in which softer labels, or fewer of them, did better by so much."""
    changed = copy.deepcopy(record)
    for pair in changed.students.comparisons:
        value = better if pair.first == "hard" else -better
        pair.difference, pair.beyond = Quantity(value, "nats", value - 0.01, value + 0.01, 9), beyond
    return changed


@pytest.mark.parametrize(
    ("shown", "words_of"),
    [
        (view.answer, ("no difference beyond the spread", "lower, beyond", "higher, beyond")),
        (view.softened, ("no difference beyond the spread", "helps further", "not help")),
        (view.worth, ("end level", "still end lower", "end higher")),
    ],
)
def test_sentences_word_what_was_found(record, shown, words_of):
    cases = ((0.1, False), (0.1, True), (-0.1, True))
    for (better, beyond), expected in zip(cases, words_of, strict=True):
        text = shown(with_difference(record, better, beyond=beyond), EN).data["text/plain"]
        assert [words in text for words in words_of] == [words == expected for words in words_of]
