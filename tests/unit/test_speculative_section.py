"""The section speculative from measurement to page, on tiny models, and how its sentences word what was found."""

import copy
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from cheap_inference import records
from cheap_inference.errors import UserError
from cheap_inference.experiments import speculative as experiment
from cheap_inference.experiments import speculative_batches as batching
from cheap_inference.experiments import speculative_costs as costing
from cheap_inference.experiments import speculative_sampling as sampling
from cheap_inference.experiments import speculative_sibling as sibling
from cheap_inference.experiments import speculative_tasks as tasks
from cheap_inference.models.load import random_model
from cheap_inference.quantity import Quantity
from cheap_inference.render.words import Words
from cheap_inference.settings import LOCALES
from cheap_inference.views import speculative as view
from cheap_inference.views import speculative_formula as formula_view
from tests.unit.speculative_page import CONFIG, PAGE

EN = Words("en")


class Tokenizer:
    """A token a letter, for a vocabulary of 128, and a chat form."""

    chat_template = "yes"

    def __call__(self, text):
        return {"input_ids": [ord(letter) % 128 for letter in text]}

    def apply_chat_template(self, messages, **_):
        return f"<user>{messages[0]['content']}<model>"

    def get_vocab(self):
        return {chr(place): place for place in range(128)}


def loaded(seed, *, name="tiny", vocab_size=128):
    config = copy.deepcopy(CONFIG)
    config.vocab_size = vocab_size
    model = random_model(config, dtype=torch.float32, seed=seed)
    return SimpleNamespaceHashed(
        model=model,
        config=model.config,
        tokenizer=Tokenizer(),
        device=torch.device("cpu"),
        dtype=torch.float32,
        spec=SimpleNamespace(name=name, title=name),
    )


class SimpleNamespaceHashed(SimpleNamespace):
    """A namespace that a cache of functions can tell apart."""

    __hash__ = object.__hash__


@pytest.fixture(scope="module")
def lm():
    return loaded(3)


def recorded(part):
    return records.decode(records.encode(part))


@pytest.fixture(scope="module")
def parts(lm):
    """All parts of the record, measured with the functions of the page."""
    costs = recorded(costing.measure_costs(lm, PAGE.look_up, guesses=4))
    judge = partial(PAGE.sampled_judge, PAGE.keep, PAGE.redraw)
    price = {check.positions: check.cost.value for check in costs.checks}
    rules = (PAGE.keep, PAGE.redraw, PAGE.wrong_redraw)
    loop = (lm, PAGE.speculate, PAGE.draft_tokens, PAGE.judge_greedily)
    measured = {
        "drafts": experiment.run_drafts(*loop, guesses=4),
        "formula": costing.tabulate(PAGE.expected_tokens, PAGE.speedup),
        "exact": sampling.enumerate_rules(*rules),
        "drawn": sampling.check_on_model(lm, PAGE.sampled_judge, *rules),
        "work": tasks.run_tasks(
            lm,
            PAGE.speculate,
            PAGE.look_up,
            PAGE.judge_greedily,
            judge,
            guesses=4,
            look_up_cost=costs.look_up_cost.value,
            check_cost=price[5],
        ),
        "batches": batching.run_batches(lm, PAGE.look_up, PAGE.judge_greedily, guesses=4),
        "family": sibling.run_sibling(*loop),
    }
    return SimpleNamespace(costs=costs, **{name: recorded(part) for name, part in measured.items()})


def test_the_drafts_in_the_loop(parts):
    drafts = parts.drafts
    assert drafts.identical
    live = {(row.scheme, row.guesses): row for row in drafts.live}
    assert {("nf4-group64", guesses) for guesses in (1, 2, 4, 8)} < set(live)
    assert {scheme for scheme, guesses in live if guesses == 4} == {
        "nf4-group64",
        "int8-row",
        "int4-group128",
    }
    assert all(row.as_walked and row.equal == row.prompts for row in drafts.live)
    assert live["nf4-group64", 4].tokens == 3 * 24
    assert drafts.speedup.n == 3
    assert drafts.prompts == 6


def test_agreement_and_acceptance_are_counted_on_the_same_positions(parts):
    drafts = parts.drafts
    assert len(drafts.agreement) == 7
    for row in drafts.agreement:
        assert row.positions == 144
        assert row.accepted + row.unjudged_hits == row.agreed.value
        assert row.judged <= row.positions
        assert row.acceptance.value == pytest.approx(row.accepted / row.judged)
        assert row.acceptance.low <= row.acceptance.value <= row.acceptance.high
        assert 1 <= row.tokens_per_round <= 5
    main = next(row for row in drafts.agreement if row.scheme == drafts.main)
    assert drafts.main_acceptance == main.acceptance.value


def test_a_broken_loop_is_not_identical(lm):
    def keeps_everything(guess, chances, logits):
        return len(guess), int(logits[-1].argmax())

    found = experiment.run_drafts(lm, PAGE.speculate, PAGE.draft_tokens, keeps_everything, guesses=2)
    assert not found.identical


def test_other_numbers_of_guesses_run_each_once(lm):
    found = experiment.run_drafts(lm, PAGE.speculate, PAGE.draft_tokens, PAGE.judge_greedily, guesses=3)
    counts = [row.guesses for row in found.live if row.scheme == "nf4-group64"]
    assert counts == [1, 2, 3, 4, 8]
    assert [row.prompts for row in found.live if row.guesses == 3] == [3, 1, 1]


def test_the_formulas_table_is_the_chapters(parts):
    row = next(row for row in parts.formula.rows if row.acceptance == 0.3)
    assert row.tokens[0] == pytest.approx(1.4251)
    assert row.speedups[2] == pytest.approx(0.79, abs=0.005)
    assert parts.formula.rows[-1].speedups[3] == pytest.approx(3.40, abs=0.005)


def test_costs_are_in_steps(parts):
    positions = [check.positions for check in parts.costs.checks]
    assert positions == [1, 2, 3, 5, 9]
    assert parts.costs.checks[0].cost.value == 1
    assert parts.costs.look_up_cost.value < 1


def test_guesses_that_no_check_was_planned_for_get_one(lm):
    found = costing.measure_costs(lm, PAGE.look_up, guesses=6)
    assert [check.positions for check in found.checks] == [1, 2, 3, 5, 7, 9]


def test_look_up_at_work(parts):
    assert parts.work.identical
    shown = [(row.task, row.temperature) for row in parts.work.rows]
    assert shown == [(task, one) for task, asked in tasks.TASKS.items() for one in asked.temperatures]
    for row in parts.work.rows:
        assert row.corrected <= row.formula or parts.costs.checks[3].cost.value < 1
        assert row.speedup.n == tasks.REPEATS
    assert parts.batches.identical
    assert [row.batch_size for row in parts.batches.rows] == [1, 2, 4, 8]


def test_rounds_without_a_guess_count_as_plain_steps():
    rounds = [tasks.Round(4, 4), tasks.Round(0, 0), tasks.Round(0, 0), tasks.Round(4, 0)]
    row = tasks._task_row("story", 0.0, [1.0], [rounds], 4, look_up_cost=0.0, check_cost=2.0)
    assert row.found == 0.5
    assert row.acceptance == 4 / 5
    tokens = 0.5 * sum(0.8**power for power in range(5)) + 0.5
    assert row.formula == pytest.approx(tokens)
    assert row.corrected == pytest.approx(tokens / 1.5)
    assert row.tokens_per_round.value == 2


def test_a_request_keeps_its_text_whole(lm):
    text = [7, 8, 9]
    ids = tasks.task_prompt(lm, "Repeat:", text)
    start = len("<user>Repeat:\n\n")
    assert ids[start : start + 3] == text
    assert ids[:start] == lm.tokenizer("<user>Repeat:\n\n")["input_ids"]
    plain = SimpleNamespace(tokenizer=lambda shown: {"input_ids": [ord(one) for one in shown]})
    assert tasks.task_prompt(plain, "Go") == [ord(one) for one in "Go\n\n"]


def test_the_test_on_the_model_uses_both_rules(parts):
    drawn = parts.drawn
    assert drawn.passed
    assert drawn.acceptance == pytest.approx(drawn.expected_acceptance, abs=0.05)


# --- a sibling as draft ---


def test_without_a_gpu_the_sibling_is_left_out_in_a_sentence(parts):
    assert parts.family.missing == "no-gpu"
    assert "no GPU" in view.family(parts, EN).data["text/plain"]


def test_models_without_family_or_hub_are_told_apart(lm, monkeypatch):
    loop = (PAGE.speculate, PAGE.draft_tokens, PAGE.judge_greedily)
    cuda = SimpleNamespace(**{**vars(lm), "device": torch.device("cuda")})
    assert sibling.run_sibling(cuda, *loop).missing == "no-sibling"

    def out_of_reach(*_, **__):
        raise UserError("no hub")

    monkeypatch.setattr(sibling, "resolve", out_of_reach)
    known = SimpleNamespace(**{**vars(cuda), "spec": SimpleNamespace(name="qwen2.5-0.5b", title="")})
    assert sibling.run_sibling(known, *loop).missing == "no-hub"


def test_a_sibling_guesses_for_its_target(lm):
    """Another size of matrix, the same vocabulary: padding is cut from the draft."""
    small = loaded(3, name="small", vocab_size=130)
    found = recorded(
        sibling.decode_with_sibling(lm, small, PAGE.speculate, PAGE.draft_tokens, PAGE.judge_greedily)
    )
    assert found.identical
    assert found.missing == ""
    text = view.family(SimpleNamespace(family=found), EN).data["text/plain"]
    assert text.startswith("small guessed for tiny")


def test_a_sibling_of_another_vocabulary_is_refused(lm):
    stranger = loaded(4, name="stranger")
    stranger.tokenizer = SimpleNamespace(get_vocab=lambda: {"a": 0})
    with pytest.raises(UserError, match="stranger cannot guess for tiny"):
        sibling.decode_with_sibling(lm, stranger, PAGE.speculate, PAGE.draft_tokens, PAGE.judge_greedily)


# --- words ---

VIEWS = [
    *(
        getattr(view, name)
        for name in vars(view)
        if name
        in {
            "answer",
            "identity_table",
            "identity",
            "acceptance_table",
            "acceptance",
            "rule_table",
            "rules",
            "speed_table",
            "speeds",
            "kinds",
            "temperature_table",
            "batch_table",
            "batches",
            "family",
        }
    ),
    formula_view.formula_table,
    formula_view.cost_table,
    formula_view.corrected_table,
    formula_view.break_even,
    formula_view.checks,
    formula_view.break_even_figure,
]


@pytest.mark.parametrize("locale", LOCALES)
def test_every_view_renders_in_every_language(parts, locale):
    assert len(VIEWS) == 20
    for one in VIEWS:
        assert one(parts, Words(locale)).data["text/plain"].strip()


def with_part(parts, name, **changes):
    changed = copy.deepcopy(parts)
    for field, value in changes.items():
        setattr(getattr(changed, name), field, value)
    return changed


def test_changed_tokens_are_not_hidden(parts):
    assert "No token changed" in view.answer(parts, EN).data["text/plain"]
    broken = with_part(parts, "drafts", identical=False)
    assert "Tokens changed" in view.answer(broken, EN).data["text/plain"]
    broken.drafts.live[0].equal = 0
    assert "more than rounding" in view.identity(broken, EN).data["text/plain"]
    broken.drafts.identical = True
    assert "closer than twice" in view.identity(broken, EN).data["text/plain"]


def test_failed_tests_of_the_rule_are_said(parts):
    assert "does not tell" in view.rules(with_part(parts, "exact", exact=False), EN).data["text/plain"]
    assert "does not pass" in view.rules(with_part(parts, "drawn", passed=False), EN).data[
        "text/plain"
    ].replace("**", "")


@pytest.mark.parametrize(
    ("ends", "said", "unsaid"),
    [
        ([(1.4, 1.6), (1.3, 1.4), (1.0, 1.1), (0.8, 0.9)], "makes guessing dearer", "gains less"),
        ([(0.8, 0.9), (1.4, 1.6), (1.0, 1.1), (0.9, 1.0)], "gains less", "not beyond"),
        ([(1.0, 2.0), (1.0, 2.0), (1.0, 2.0), (1.0, 2.0)], "not beyond the noise", "dearer**"),
    ],
)
def test_what_company_does_is_worded_from_the_spread(parts, ends, said, unsaid):
    changed = copy.deepcopy(parts)
    for row, (low, high) in zip(changed.batches.rows, ends, strict=True):
        row.speedup = Quantity((low + high) / 2, "ratio", low, high, 3)
    text = view.batches(changed, EN).data["text/plain"]
    assert said in text
    assert unsaid not in text


@pytest.mark.parametrize(("short", "said"), [(2.6, True), (1.5, False)])
def test_a_short_check_that_costs_more_is_said(parts, short, said):
    changed = copy.deepcopy(parts)
    for check in changed.costs.checks:
        cost = short if check.positions == 3 else 2.0
        check.cost = Quantity(cost, "ratio", cost - 0.1, cost + 0.1, 9)
    assert ("over 3 positions" in formula_view.checks(changed, EN).data["text/plain"]) == said


def test_break_even_is_worded_from_the_costs(parts):
    changed = copy.deepcopy(parts)
    changed.costs.draft_cost = Quantity(1.0, "ratio", 1.0, 1.0, 3)
    changed.costs.look_up_cost = Quantity(0.0, "ratio", 0.0, 0.0, 3)
    for check, said in ((2.0, "pay from an acceptance rate of"), (6.0, "never pay")):
        changed.costs.checks[3].cost = Quantity(check, "ratio", check, check, 3)
        text = formula_view.break_even(changed, EN).data["text/plain"]
        assert said in text
        assert "no acceptance rate is enough" in text
    changed.costs.draft_cost = Quantity(0.1, "ratio", 0.1, 0.1, 3)
    changed.costs.checks[3].cost = Quantity(1.0, "ratio", 1.0, 1.0, 3)
    assert "would pay from" in formula_view.break_even(changed, EN).data["text/plain"]
