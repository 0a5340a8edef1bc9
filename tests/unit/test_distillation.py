"""Distillation: examples by hand, losses against their definitions, and training that can be repeated."""

import math

import pytest
import torch
from torch.nn import functional

from cheap_inference import distillation, quality
from cheap_inference.kv_cache import forward

CPU = torch.device("cpu")
VOCABULARY_SIZE = 12


@pytest.fixture
def short(monkeypatch):
    """A training of a few steps."""
    monkeypatch.setattr(distillation, "STEPS", 40)
    monkeypatch.setattr(distillation, "CHECK_EVERY", 10)
    monkeypatch.setattr(distillation, "BATCH_SIZE", 32)


def made_up(count, *, seed):
    """Examples whose label is drawn from a teacher that looks at the last token only."""
    generator = torch.Generator().manual_seed(seed)
    table = 2 * torch.randn(VOCABULARY_SIZE, VOCABULARY_SIZE, generator=torch.Generator().manual_seed(9))
    contexts = torch.randint(VOCABULARY_SIZE, (count, distillation.CONTEXT), generator=generator)
    logits = table[contexts[:, -1]]
    labels = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
    return distillation.Examples(contexts, labels, logits)


def soft(temperature):
    return lambda logits, batch: distillation.soft_loss(logits, batch.teacher_logits, temperature)


def hard(logits, batch):
    return distillation.hard_loss(logits, batch.labels)


def trained(loss, *, seed=0, lessons=None):
    return distillation.train(
        loss,
        lessons or made_up(256, seed=1),
        made_up(128, seed=2),
        vocabulary_size=VOCABULARY_SIZE,
        seed=seed,
    )


# --- text and teacher ---


def test_tokens_outside_the_vocabulary_share_one_place():
    vocabulary = torch.tensor([3, 5, 9])
    assert distillation.restrict(torch.tensor([[9, 3, 4], [5, 99, 0]]), vocabulary).tolist() == [
        [2, 0, 3],
        [1, 3, 3],
    ]


def test_examples_by_hand():
    # Vocabulary 0 ... 5; 7 is unknown: it may stand in a context, never as a label.
    windows = torch.tensor([[0, 1, 2, 3, 4, 7, 5]])
    logits = torch.arange(6.0)[None, :, None].expand(1, 6, 6)  # row i predicts token i + 1
    found = distillation.examples(windows, torch.arange(6), logits)
    assert found.contexts.tolist() == [[0, 1, 2, 3], [2, 3, 4, 6]]
    assert found.labels.tolist() == [4, 5]
    assert found.teacher_logits[:, 0].tolist() == [3, 5]


def test_windows_do_not_run_into_each_other():
    found = distillation.examples(torch.arange(12).view(2, 6), torch.arange(12))
    assert found.contexts[:, 0].tolist() == [0, 1, 6, 7]
    assert found.teacher_logits is None


def test_the_restricted_teacher_is_the_teacher_renormalised(tiny_llama):
    windows = torch.randint(128, (2, 9), generator=torch.Generator().manual_seed(0))
    vocabulary = torch.tensor([1, 4, 50, 127])
    found = distillation.teacher_logits(tiny_llama, windows, vocabulary).softmax(-1)
    whole = forward(tiny_llama, windows)[:, :-1].softmax(-1)[..., vocabulary]
    torch.testing.assert_close(found, whole / whole.sum(-1, keepdim=True), rtol=1e-4, atol=1e-5)


# --- losses ---


def test_the_hard_loss_is_minus_the_logarithm_of_the_labels_probability():
    logits = torch.tensor([[math.log(3), 0.0]])
    assert float(distillation.hard_loss(logits, torch.tensor([0]))) == pytest.approx(math.log(4 / 3))


def test_a_soft_loss_on_certainty_is_the_hard_loss():
    logits = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 6, 2, 2, 1])
    certain = 1e4 * functional.one_hot(labels, 7).float()
    torch.testing.assert_close(
        distillation.soft_loss(logits, certain, 1.0), distillation.hard_loss(logits, labels)
    )


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0])
def test_the_gradient_of_the_soft_loss(temperature):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(1, 6, generator=generator, dtype=torch.float64)
    distillation.soft_loss(logits, teacher, temperature).backward()
    believed, wanted = (logits.detach() / temperature).softmax(-1), (teacher / temperature).softmax(-1)
    torch.testing.assert_close(logits.grad, temperature * (believed - wanted))


def test_hard_labels_drawn_from_the_teacher_give_the_soft_gradient_on_average():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(1, 6, generator=generator, dtype=torch.float64)
    distillation.soft_loss(logits, teacher, 1.0).backward()
    mean = torch.zeros(6, dtype=torch.float64)
    for label, probability in enumerate(teacher.softmax(-1)[0]):
        loss = distillation.hard_loss(logits, torch.tensor([label]))
        mean += probability * torch.autograd.grad(loss, logits)[0][0]
    torch.testing.assert_close(logits.grad[0], mean)


def test_the_factor_keeps_the_gradient_at_high_temperatures():
    """Hinton et al., equation 4: with the factor the gradient tends to (z - v) / V for centred logits."""
    generator = torch.Generator().manual_seed(0)
    logits, teacher = (
        one - one.mean() for one in torch.randn(2, 1, 6, generator=generator, dtype=torch.float64)
    )
    logits.requires_grad_()
    distillation.soft_loss(logits, teacher, 1000.0).backward()
    torch.testing.assert_close(logits.grad, (logits.detach() - teacher) / 6, rtol=0, atol=1e-3)


# --- student and training ---


def test_a_student_is_the_same_for_a_seed_and_leaves_the_callers_random_state():
    before = torch.get_rng_state()
    one, same, other = (distillation.new_student(9, seed=seed, device=CPU) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.output.weight, same.output.weight)
    assert not torch.equal(one.output.weight, other.output.weight)
    assert one.embedding.weight[9].eq(0).all()


def test_every_pass_shows_every_example_once(monkeypatch):
    monkeypatch.setattr(distillation, "STEPS", 6)
    monkeypatch.setattr(distillation, "BATCH_SIZE", 4)
    parts = distillation.batches(8, seed=0)
    assert [len(part) for part in parts] == [4] * 6
    passes = torch.cat(parts).view(3, 8)
    assert passes.sort(dim=1).values.tolist() == [list(range(8))] * 3
    assert passes[0].tolist() != passes[1].tolist()


def test_training_twice_gives_the_same_bits(short):
    one, same, other = (trained(soft(2.0), seed=seed) for seed in (0, 0, 1))
    assert one.curve == same.curve != other.curve
    assert torch.equal(one.student.output.weight, same.student.output.weight)


def test_training_learns(short):
    untrained = distillation.new_student(VOCABULARY_SIZE, seed=0, device=CPU)
    validation = made_up(128, seed=2)
    before = float(distillation.text_losses(untrained, validation).mean())
    after = trained(soft(1.0))
    assert min(after.curve) < before - 0.3
    assert float(distillation.divergences(after.student, validation).mean()) < 0.5 * float(
        distillation.divergences(untrained, validation).mean()
    )


def test_the_student_kept_is_the_one_of_the_best_step(short):
    lessons = made_up(32, seed=1)  # few enough to be learnt by heart
    found = trained(hard, lessons=lessons)
    assert found.best_step < distillation.STEPS
    kept = float(distillation.text_losses(found.student, made_up(128, seed=2)).mean())
    assert kept == min(found.curve)
    assert found.best_step == distillation.CHECK_EVERY * (1 + found.curve.index(kept))


def test_adam_does_not_see_the_factor(short):
    with_it = trained(soft(2.0))
    without = trained(lambda logits, batch: soft(2.0)(logits, batch) / 4)
    assert with_it.curve == pytest.approx(without.curve, rel=1e-3)


# --- judging ---


def test_losses_and_divergences_against_their_definitions():
    student = distillation.new_student(VOCABULARY_SIZE, seed=0, device=CPU)
    judged = made_up(20, seed=3)
    scored = quality.score_tokens(judged.teacher_logits, student(judged.contexts), judged.labels)
    torch.testing.assert_close(distillation.text_losses(student, judged), scored.losses.detach())
    torch.testing.assert_close(
        distillation.divergences(student, judged), scored.divergences.detach(), rtol=1e-4, atol=1e-5
    )


def test_the_norm_of_a_gradient():
    student = distillation.new_student(VOCABULARY_SIZE, seed=0, device=CPU)
    batch = made_up(8, seed=4)
    loss = soft(1.0)(student(batch.contexts), batch)
    expected = math.sqrt(
        sum(
            float((one**2).sum())
            for one in torch.autograd.grad(loss, list(student.parameters()), retain_graph=True)
        )
    )
    assert distillation.gradient_norm(student, loss) == pytest.approx(expected)
