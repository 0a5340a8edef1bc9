"""The section languages: counts, costs and damage on a tiny model, and how the sentences word them."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from cheap_inference import bootstrap, claims, kv_cache, quality, records
from cheap_inference.errors import UserError
from cheap_inference.experiments import language_costs, language_damage
from cheap_inference.experiments import languages as experiment
from cheap_inference.models.load import random_model
from cheap_inference.passages import parallel_text
from cheap_inference.quantize.in_place import quantized
from cheap_inference.quantize.schemes import INT4_GROUP128
from cheap_inference.render.words import Words
from cheap_inference.views import languages as view

EN = Words("en")
ROOT = Path(__file__).parents[2]


def bytes_only():
    """A byte-level tokenizer without merges: one token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({character: i for i, character in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


@pytest.fixture(scope="module")
def lm():
    from transformers import LlamaConfig

    config = LlamaConfig(
        num_hidden_layers=2,
        hidden_size=64,
        intermediate_size=128,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        vocab_size=256,
        max_position_embeddings=4096,
        initializer_range=0.2,
    )
    backend = bytes_only()
    model = random_model(config, dtype=torch.float32, seed=0)

    class TokenizerOfModel:
        backend_tokenizer = backend

        def __call__(self, text):
            return {"input_ids": backend.encode(text[:200]).ids}

    return SimpleNamespace(
        model=model,
        tokenizer=TokenizerOfModel(),
        config=config,
        device=torch.device("cpu"),
        dtype=torch.float32,
        spec=SimpleNamespace(title="tiny"),
    )


def each_byte(word, ranks):
    assert ranks == {}
    return [bytes([byte]) for byte in word]


@pytest.fixture(scope="module")
def record(lm):
    parts = {
        "tokens": experiment.count_loaded(lm, each_byte),
        "chapters": (),
        "reading": language_costs.read_passages(lm),
    }
    return SimpleNamespace(**{name: records.decode(records.encode(part)) for name, part in parts.items()})


def plain(display):
    return display.data["text/plain"].replace("\u00a0", " ")


def test_tokens_of_a_tokenizer_without_merges_are_bytes(record):
    rows = {row.language: row for row in record.tokens.rows}
    for row in rows.values():
        assert row.tokens == row.bytes == row.part + row.single + row.several
        assert row.to_english.value == pytest.approx(row.bytes / rows["en"].bytes)
        assert row.to_english.low <= row.to_english.value <= row.to_english.high
    assert rows["en"].part == 0
    assert rows["hi"].characters < rows["hi"].bytes / 2
    assert record.tokens.as_taught is True
    assert record.tokens.words > 3000


def test_a_loop_that_cuts_differently_is_noticed(lm):
    found = experiment.count_loaded(lm, lambda word, ranks: [word])
    assert found.as_taught is False
    assert "**not**" in view.loop_check(SimpleNamespace(tokens=found), EN).data["text/markdown"]


def test_a_tokenizer_that_cannot_be_looked_at_is_refused(lm):
    slow = SimpleNamespace(tokenizer=object(), spec=lm.spec)
    with pytest.raises(UserError, match="no fast tokenizer"):
        experiment.count_loaded(slow, each_byte)


def test_the_cache_is_counted_in_its_tensors(lm, record):
    per_token = kv_cache.bytes_per_token(lm.config, bytes_per_element=4)
    for row in record.reading.rows:
        assert row.follows
        assert row.cache_bytes == per_token * row.tokens
        assert row.tokens > 100 * language_costs.PASSAGES_READ
        assert row.say.value == pytest.approx(
            row.tokens / language_costs.PASSAGES_READ * row.step.value / 1000
        )
    assert record.reading.rows[0].prefill_ratio.value == record.reading.rows[0].say_ratio.value == 1


def test_a_cache_that_does_not_follow_the_formula_is_noticed(lm, monkeypatch):
    monkeypatch.setattr(language_costs.kv_cache, "cache_bytes_formula", lambda *_, **__: 7)
    cache = kv_cache.filled_cache(lm.config, tokens=3, dtype=torch.float32, device=lm.device)
    assert language_costs._cache_facts(lm, cache) == (kv_cache.cache_bytes(cache), False)


def test_a_passage_beyond_one_window_is_refused(lm, monkeypatch):
    monkeypatch.setattr(quality, "WINDOW", 100)
    with pytest.raises(UserError, match="more than the 100 read at once"):
        language_costs.read_passages(lm)


def test_agreement_and_bits_against_their_definitions(lm, record):
    ids = torch.tensor([lm.tokenizer(parallel_text().passages["hi"][0])["input_ids"]])
    before = kv_cache.forward(lm.model, ids)[0, :-1]
    states = quality.predicting_states(lm.model, ids)
    with quantized(lm.model, INT4_GROUP128):
        after = kv_cache.forward(lm.model, ids)[0, :-1]
        rounded = quality.predicting_states(lm.model, ids)
    scores = torch.tensor(language_damage.score_positions(lm, states, rounded, ids[0, 1:]))
    assert torch.equal(scores[:, 1].bool(), before.argmax(-1) == after.argmax(-1))
    for column, logits in ((2, before), (3, after)):
        bits = -logits.log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0] / np.log(2)
        torch.testing.assert_close(scores[:, column].float(), bits, rtol=1e-3, atol=1e-3)
    assert 0 < record.reading.damage.rows[2].agreed.value < 1


def counted(tokens, same, before, after, parts=24):
    return np.tile(np.array([tokens, same, before, after], dtype=float), (parts, 1))


def test_languages_are_compared_as_ratios_of_sums():
    english, other = damage_of(counted(10, 8, 40, 44), counted(40, 16, 100, 150))
    assert (other.positions, other.agreed.value) == (960, 0.4)
    assert other.agreed_to_english.value == pytest.approx(0.5)
    assert other.agreement_differs
    assert other.bits_differ
    assert other.more_bits.value == pytest.approx(1.5)
    assert other.bits == pytest.approx(2.4)
    assert english.agreement_differs is english.bits_differ is None


def test_a_difference_inside_the_noise_is_not_called_one():
    draw = np.random.default_rng(1)
    noisy = [counted(10, 8, 40, 44) for _ in range(2)]
    for rows in noisy:
        rows[:, 1] += draw.integers(-2, 3, size=24)
        rows[:, 3] += draw.normal(scale=6, size=24)
    _, other = damage_of(*noisy)
    assert other.agreement_differs is False
    assert other.bits_differ is False


def test_what_is_hard_in_both_languages_cancels():
    common = np.random.default_rng(2).integers(1, 9, size=24)
    rows = [counted(10, 0, 40, 44), counted(10, 0, 40, 44)]
    rows[0][:, 1], rows[1][:, 1] = common, common * 0.9
    _, other = damage_of(*rows)
    assert other.agreement_differs
    assert other.agreed_to_english.low == pytest.approx(other.agreed_to_english.high)
    assert other.agreed.high - other.agreed.low > 0.1


def damage_of(english, other):
    return language_damage.damage_rows({"en": english, "pl": other}, {"en": 1000, "pl": 1000})


def test_intervals_use_the_books_bootstrap(record):
    assert record.reading.damage.resamples == bootstrap.RESAMPLES
    assert record.reading.damage.parts == language_costs.PASSAGES_READ * language_damage.PARTS


def test_a_part_of_a_character_is_shown_as_bytes():
    assert view.piece_shown("e0a4") == "[E0 A4]"
    assert view.piece_shown("206120") == "a"
    assert view.piece_shown("c582") == "ł"


def test_the_word_table_shows_every_cut(record):
    html = view.cut_table(record, EN).data["text/html"]
    assert "<td>error</td>" in html
    assert "<td>b · [C5] · [82] · [C4] · [85] · d</td>" in html


def damage_row(language, agreed, agreement_differs, more, bits_differ):
    ratio = lambda value: SimpleNamespace(value=value)  # noqa: E731
    return SimpleNamespace(
        language=language,
        agreed_to_english=ratio(agreed),
        agreement_differs=agreement_differs,
        more_bits_to_english=ratio(more),
        bits_differ=bits_differ,
    )


def test_the_sentence_names_who_stands_apart_and_ranks_nobody_else():
    rows = [
        damage_row("en", 1, None, 1, None),
        damage_row("fr", 0.7, True, 1.1, True),
        damage_row("sv", 1.2, True, 0.9, True),
        damage_row("hi", 0.9, False, 1.1, False),
    ]
    record = SimpleNamespace(reading=SimpleNamespace(damage=SimpleNamespace(rows=rows)))
    text = plain(view.damage(record, EN))
    assert (
        "fewer survive than in English in: French; more: Swedish; not distinguishable from English: Hindi."
        in text
    )
    assert "grow more than in English in: French; less: Swedish; not distinguishable: Hindi." in text
    record.reading.damage.rows = rows[:2]
    assert "more: none; not distinguishable from English: none." in plain(view.damage(record, EN))


def test_the_chapters_tokenizer_stands_beside_ours_where_it_was_reached(record):
    assert "out of reach" in plain(view.chapters_tokenizer(record, EN))
    both = SimpleNamespace(tokens=record.tokens, chapters=[record.tokens])
    shown = view.chapters_tokenizer(both, EN)
    assert shown.metadata["csv"].splitlines()[0] == "language,tokens_0,to_english_0,tokens_1,to_english_1"


def test_without_the_hub_nothing_is_counted(monkeypatch):
    monkeypatch.setattr(experiment, "hub_tokenizer", lambda *_: None)
    assert experiment.count_chapters(each_byte) == ()
    monkeypatch.setattr(experiment, "hub_tokenizer", lambda *_: bytes_only())
    (found,) = experiment.count_chapters(each_byte)
    assert found.title == "Qwen2.5-0.5B-Instruct"


@pytest.mark.parametrize("locale", ["en", "pl", "hi", "sv", "fr"])
def test_everything_renders_in_every_language(record, locale):
    words = Words(locale)
    assert view.bars_figure(record, words).data["image/png"].startswith(b"\x89PNG")
    for name in ("answer", "loop_check", "token_table", "cut_table", "holding_table", "chapters_tokenizer"):
        assert getattr(view, name)(record, words).data
    for name in ("cost_table", "noise", "setup", "damage_table", "damage"):
        assert getattr(view, name)(record, words).data


def test_a_languages_name_is_in_the_readers_language():
    assert view.language_name("hi", EN) == "Hindi"
    assert view.language_name("en", Words("hi")) == "अंग्रेज़ी"


def test_tables_mark_what_varies(record):
    for shown in (view.cost_table(record, EN), view.damage_table(record, EN)):
        assert 'class="number varies"' in shown.data["text/html"]
    assert "varies" not in view.token_table(record, EN).data["text/html"]


def test_every_claim_of_the_section_is_registered():
    source = (ROOT / "notebooks" / "languages.md").read_text(encoding="utf-8")
    registered = re.findall(r'page\.claim\(\s*"([^"]+)"', source)
    assert sorted(registered) == sorted(claim.id for claim in claims.claims_of("languages"))
