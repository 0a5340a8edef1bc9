"""The three sections on quantization from measurement to page, on a tiny random model, in every language."""

import inspect
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig

from cheap_inference import bootstrap, records
from cheap_inference import quality as instruments_module
from cheap_inference.experiments import activation_outliers, instruments, small_storage, weight_sizes
from cheap_inference.experiments import quality as quality_experiment
from cheap_inference.experiments import weight_quantization as weight_experiment
from cheap_inference.models.load import LoadedModel, random_model
from cheap_inference.models.registry import KNOWN_MODELS
from cheap_inference.quantize import activation_rounding, nf4
from cheap_inference.quantize.schemes import Scheme
from cheap_inference.render.words import Words
from cheap_inference.settings import LOCALES
from cheap_inference.views import activation_outliers as outlier_views
from cheap_inference.views import quality as quality_views
from cheap_inference.views import schemes
from cheap_inference.views import weight_quantization as weight_views

WORST_ROWS = 8
#: Drawing takes time, and only the script matters for it.
DRAWN = ("en", "hi")


class Bytes:
    """A tokenizer of one token a byte, without a chat format or special tokens."""

    chat_template = None
    eos_token_id = 0
    all_special_ids = ()

    def __call__(self, text):
        return {"input_ids": [byte % 127 + 1 for byte in text.encode()]}

    def decode(self, ids, skip_special_tokens):
        return "x" * len(ids)

    def batch_decode(self, rows, skip_special_tokens):
        return ["Paris 8" for _ in rows]


@pytest.fixture(scope="module")
def small():
    """Less text and fewer repeats than on a page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instruments, "EVALUATION_TOKENS", 256)
        patch.setattr(instruments, "CALIBRATION_SHAPE", (2, 64))
        patch.setattr(quality_experiment, "LONG_TOKENS", 512)
        patch.setattr(small_storage, "REPEATS", 3)
        patch.setattr(bootstrap, "RESAMPLES", 200)
        yield


@pytest.fixture(scope="module")
def lm(small):
    config = LlamaConfig(
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=64,
        intermediate_size=192,
        vocab_size=128,
        initializer_range=0.1,
        tie_word_embeddings=True,
        pad_token_id=None,
    )
    model = random_model(config, dtype=torch.float32, seed=0)
    return LoadedModel(model, Bytes(), torch.device("cpu"), torch.float32, next(iter(KNOWN_MODELS.values())))


def recorded(**parts):
    return SimpleNamespace(**{name: records.decode(records.encode(part)) for name, part in parts.items()})


@pytest.fixture(scope="module")
def weight_record(lm):
    errors = weight_experiment.compare_errors(
        lm,
        lambda weight, bits, granularity: Scheme("absmax", bits, granularity)(weight),
        lambda weight, granularity: Scheme("nf4", 4, granularity)(weight),
        nf4.nf4_levels(),
    )
    return recorded(
        sizes=weight_sizes.weigh(lm),
        errors=errors,
        lens=weight_experiment.look_closely(lm, errors),
        speed=small_storage.time_storages(lm),
    )


@pytest.fixture(scope="module")
def outlier_record(lm):
    roundings = {
        "per-tensor": activation_rounding.per_tensor,
        "per-token": activation_rounding.per_token,
        "mixed": activation_rounding.mixed,
    }
    return recorded(
        stream=activation_outliers.watch_stream(lm),
        activations=activation_outliers.round_activations(lm, roundings, alpha=0.5),
        weights=activation_outliers.calibrate_weights(lm),
        caches=activation_outliers.round_caches(lm),
    )


@pytest.fixture(scope="module")
def quality_record(lm):
    return recorded(
        scores=quality_experiment.judge_schemes(lm, instruments_module.score_tokens),
        text=quality_experiment.how_much_text(lm),
    )


def views_of(module):
    for name, function in inspect.getmembers(module, inspect.isfunction):
        own = function.__module__ == module.__name__ and not name.startswith("_")
        if own and list(inspect.signature(function).parameters) == ["record", "words"]:
            yield name, function


PAIRS = [
    (weight_views, "weight_record"),
    (outlier_views, "outlier_record"),
    (quality_views, "quality_record"),
]
VIEWS = [
    pytest.param(view, fixture, id=f"{module.__name__.split('.')[-1]}-{name}")
    for module, fixture in PAIRS
    for name, view in views_of(module)
]


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize(("view", "fixture"), VIEWS)
def test_every_view_renders_in_every_language(view, fixture, locale, request):
    if view.__name__.endswith("_figure") and locale not in DRAWN:
        return
    display = view(request.getfixturevalue(fixture), Words(locale))
    text = display.data["text/plain"]
    assert text
    assert "{" not in text.replace("{0", "")
    if "text/html" in display.data:
        assert display.data["text/html"].count("<tr") <= WORST_ROWS + 1
        assert display.metadata["csv"].splitlines()[0].isascii()
    if "image/png" in display.data:
        assert display.metadata["alt"]


def test_views_load_neither_torch_nor_transformers():
    for module in (*(module for module, _ in PAIRS), schemes):
        assert "torch" not in inspect.getsource(module)
        assert "transformers" not in inspect.getsource(module)


# --- what the experiments promise ---


def test_the_model_is_as_before_after_all_measurements(lm, weight_record, outlier_record, quality_record):
    fresh = random_model(lm.config, dtype=torch.float32, seed=0)
    pairs = zip(lm.model.parameters(), fresh.parameters(), strict=True)
    assert all(torch.equal(after, before) for after, before in pairs)
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in lm.model.modules())


def test_the_reference_agrees_with_itself(quality_record):
    row = quality_record.scores.rows[0]
    assert row.scheme == "float"
    assert row.score.agreed.value == row.score.positions == 144
    assert row.score.ratio.value == pytest.approx(1)
    assert row.divergence == pytest.approx(0, abs=1e-6)
    assert not row.distinguishable
    assert row.weight_error == 0


def test_rows_are_in_the_chapters_order_and_errors_match_the_other_section(quality_record, weight_record):
    names = [row.scheme for row in quality_record.scores.rows]
    assert names == ["float", *(row.scheme for row in weight_record.errors.rows)]
    for one, other in zip(quality_record.scores.rows[1:], weight_record.errors.rows, strict=True):
        assert one.weight_error == pytest.approx(other.mean, rel=1e-6)


def test_bytes_add_up(lm, weight_record):
    sizes = weight_record.sizes
    assert sizes.matrices == 14
    assert sizes.parameters == sum(weight.numel() for weight in lm.model.parameters())
    assert all(row.equal for row in sizes.stored)
    at_16 = next(row for row in sizes.widths if row.bits == 16)
    assert at_16.everything_bytes == at_16.projections_only_bytes == 2 * sizes.parameters
    int8 = schemes.by_scheme(sizes.stored, "int8-row")
    rows = 2 * (64 + 32 + 32 + 64 + 192 + 192 + 64)
    assert int8.projection_bytes == sizes.matrix_weights + 2 * rows


def test_the_chapters_shape_gives_the_chapters_numbers():
    chapter = weight_sizes.chapter_sizes()
    assert chapter.bytes_at_32 == 1_976_131_072
    assert (chapter.matrices, chapter.matrix_weights) == (168, 357_826_560)
    assert chapter.embedding_share == pytest.approx(0.276, abs=5e-4)
    assert chapter.int8_share == pytest.approx(0.64, abs=5e-3)
    assert chapter.int4_share == pytest.approx(0.46, abs=5e-3)
    assert (chapter.bits_per_row, chapter.bits_group128) == (pytest.approx(4.014, abs=5e-4), 4.125)


def test_the_techniques_have_their_names(outlier_record):
    assert [row.name for row in outlier_record.activations.rows] == [
        "float",
        "weights",
        "per-tensor",
        "per-token",
        "mixed",
        "smooth-published",
        "smooth-everywhere",
    ]
    assert [row.name for row in outlier_record.weights] == [
        "plain",
        "gptq-one-shot",
        "gptq-sequential",
        "awq",
    ]
    assert outlier_record.caches[0].bits_per_element == 32
    assert (
        outlier_record.caches[1].bits_per_element == 9
    )  # head dimension 16: one bit of scale for each number
    assert outlier_record.activations.rows[0].score.ratio.value == pytest.approx(1)


def test_prompts_that_are_too_short_are_refused(lm, monkeypatch):
    from cheap_inference.errors import UserError

    monkeypatch.setattr(activation_outliers, "PROMPT_TOKENS", 10_000)
    with pytest.raises(UserError, match="'prose' has only"):
        activation_outliers.outlier_prompts(lm)


def test_calibration_and_evaluation_are_other_texts(lm):
    evaluated = instruments.instruments(lm).ids[0].tolist()
    calibrated = instruments.calibration_ids(lm).flatten().tolist()
    assert calibrated[:64] != evaluated[:64]
    joined = " ".join(map(str, evaluated))
    assert " ".join(map(str, calibrated[:64])) not in joined


@pytest.mark.parametrize(
    ("value", "shown"), [(53.02, 53.02), (999.9, 999.9), (1000.4, 1000), (1_911_039.05, 1_900_000)]
)
def test_large_perplexities_keep_two_digits(value, shown):
    assert schemes.perplexity_shown(value) == shown
