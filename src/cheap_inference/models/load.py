"""A model ready to be measured: weights of a known dtype, nothing random, nothing that samples by itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2Config,
)
from transformers.initialization import no_init_weights

from .. import machine
from ..errors import UserError
from .folder import model_folder
from .hub import first_line
from .quiet import quiet
from .registry import ModelSpec

# Never code from a model's folder, never a pickle, never the network behind the reader's back.
SAFELY = {"trust_remote_code": False, "local_files_only": True}
ATTENTION = "sdpa"


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model in eval mode without gradients, and what belongs to it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: torch.device
    dtype: torch.dtype
    spec: ModelSpec

    @property
    def config(self) -> PretrainedConfig:
        return self.model.config


def load(spec: ModelSpec, *, device: str | torch.device, dtype: torch.dtype | None = None) -> LoadedModel:
    """Load a model, fetching and converting it first where need be.

    `dtype` None means fp32 on the CPU; on CUDA bf16 where the hardware computes in it, else fp16.
    Raises UserError for a model that cannot be had, is no causal language model, or does not fit.
    """
    device = torch.device(device)
    dtype = dtype or default_dtype(device)
    _limit_threads()
    with quiet():
        folder = model_folder(spec)
        model, tokenizer = _read(folder, spec.title, dtype)
    _silence_generation(model)
    return LoadedModel(_placed(model, device, spec.title), tokenizer, device, dtype, spec)


def default_dtype(device: torch.device) -> torch.dtype:
    """fp32 on the CPU; on CUDA bf16 from compute capability 8 on (older cards emulate it), else fp16."""
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16


def random_model(config: PretrainedConfig, *, dtype: torch.dtype, seed: int) -> PreTrainedModel:
    """A model of the shape of `config` with random weights, the same for the same seed; on the CPU, eval mode.

    Under `torch.device("meta")` it costs no memory. The caller's random state is left alone.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _from_config(config, dtype)


def zero_model(config: PretrainedConfig, *, dtype: torch.dtype) -> PreTrainedModel:
    """A model of the shape of `config` whose weights are all zero; on the CPU, eval mode.

    For what does not depend on values, such as bytes: half a billion random numbers take seconds.
    """
    with no_init_weights():
        model = _from_config(config, dtype)
    model.tie_weights()  # left out above, along with the values
    for parameter in model.parameters():
        parameter.zero_()
    return model


def _from_config(config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=ATTENTION)
    _silence_generation(model)
    return model.eval().requires_grad_(False)


def chapter_config() -> Qwen2Config:
    """The published configuration of Qwen2.5-0.5B-Instruct: 494,032,768 parameters, the embedding tied."""
    return Qwen2Config(
        architectures=["Qwen2ForCausalLM"],
        bos_token_id=151643,
        eos_token_id=151645,
        hidden_act="silu",
        hidden_size=896,
        initializer_range=0.02,
        intermediate_size=4864,
        max_position_embeddings=32768,
        max_window_layers=21,
        num_attention_heads=14,
        num_hidden_layers=24,
        num_key_value_heads=2,
        rms_norm_eps=1e-6,
        rope_theta=1_000_000.0,
        sliding_window=32768,
        tie_word_embeddings=True,
        use_sliding_window=False,
        vocab_size=151936,
    )


def _read(folder: Path, title: str, dtype: torch.dtype) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    try:
        config = AutoConfig.from_pretrained(folder, **SAFELY)
        tokenizer = AutoTokenizer.from_pretrained(folder, **SAFELY)
        model, report = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            attn_implementation=ATTENTION,
            use_safetensors=True,
            output_loading_info=True,
            **SAFELY,
        )
    except Exception as error:  # foreign files: each kind of damage raises an error of its own
        raise UserError(f"{title} cannot be loaded ({type(error).__name__}: {first_line(error)}).") from error
    if report["missing_keys"]:  # transformers would go on with random numbers in their place
        raise UserError(f"{title} lacks weights, such as {sorted(report['missing_keys'])[0]}.")
    return model.eval().requires_grad_(False), tokenizer


def _silence_generation(model: PreTrainedModel) -> None:
    """Drop stored sampling settings: a stored repetition penalty acts even without sampling."""
    stored = model.generation_config
    model.generation_config = GenerationConfig(
        bos_token_id=stored.bos_token_id,
        eos_token_id=stored.eos_token_id,
        pad_token_id=stored.pad_token_id,
        do_sample=False,
        repetition_penalty=1.0,
    )


def _placed(model: PreTrainedModel, device: torch.device, title: str) -> PreTrainedModel:
    try:
        return model.to(device)
    except torch.cuda.OutOfMemoryError:
        size = sum(p.numel() * p.element_size() for p in model.parameters()) / 1e9
        message = f"{title} ({size:.1f} GB) does not fit into the GPU's free memory: use a smaller model or the CPU."
    raise UserError(message)


def _limit_threads() -> None:
    """Lower torch's threads to the CPUs that the container grants: more of them stop each other."""
    torch.set_num_threads(min(torch.get_num_threads(), machine.threads()))
