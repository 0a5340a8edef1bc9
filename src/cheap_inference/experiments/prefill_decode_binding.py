"""What binds a pass, for the section prefill-decode: its milliseconds divided into their causes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn import functional

from .. import cost, probes
from ..generation import decode_step, prefill
from ..kv_cache import crop_to, new_cache
from ..models.load import LoadedModel
from ..passage import prompt_ids
from ..quantity import Quantity
from .prefill_decode import MILLISECONDS, STEP_REPEATS, filled, interleaved, milliseconds


@dataclass(frozen=True)
class Budget:
    """Where one pass's milliseconds went.

    `floor` reads the weights once at the measured bandwidth while `compute` does the products at the
    measured throughput; `kernel` is what the library's products took beyond the longer of the two,
    `overhead` what dispatch took, `rest` what is left (negative where the parts overlap).
    `bound` names the largest share, or two that the pass's own spread cannot tell apart.
    """

    positions: int
    measured: Quantity
    floor: float
    compute: float
    kernel: float
    overhead: float
    rest: float
    macs_per_byte: float
    bound: tuple[str, ...]


@dataclass(frozen=True)
class Bounds:
    """What this machine reaches, and what binds the two phases on it. A product is [positions, rows] x
    [rows, columns]."""

    read_bandwidth: Quantity
    matvec_bandwidth: Quantity
    throughput: Quantity
    product_rows: int
    product_columns: int
    prefill: Budget
    decode: Budget
    above_floor: Quantity


def find_bounds(lm: LoadedModel, *, prompt_tokens: int) -> Bounds:
    """Measure the machine, then say of both phases which share of the time is the largest."""
    shape = cost.Shape.from_config(lm.config)
    passes = _both_phases(lm, prompt_tokens)
    bandwidth = probes.read_bandwidth(lm.device)
    matvec = probes.matvec_bandwidth(lm.model)
    throughput = probes.matmul_throughput(lm.device, dtype=lm.dtype)
    dispatch = probes.dispatch_overhead(lm.config, dtype=lm.dtype, device=lm.device)
    weights = cost.step_weight_bytes(shape, bytes_per_element=lm.dtype.itemsize)
    products = {1: weights / matvec.value, prompt_tokens: prompt_products_seconds(lm, prompt_tokens)}
    budgets = {
        phase: budget(
            samples,
            positions=positions,
            weight_bytes=weights,
            macs=cost.pass_macs(shape, queries=positions, keys=keys, head="last"),
            bandwidth=bandwidth.value,
            throughput=throughput.value,
            products=products[positions],
            dispatch=dispatch.value,
        )
        for phase, positions, keys, samples in (
            ("prefill", prompt_tokens, prompt_tokens, passes["prefill"]),
            ("decode", 1, prompt_tokens + 1, passes["decode"]),
        )
    }
    step, floor = budgets["decode"].measured, budgets["decode"].floor
    above = Quantity(step.value / floor, "ratio", step.low / floor, step.high / floor, step.n)
    return Bounds(
        bandwidth, matvec, throughput, shape.hidden, shape.intermediate, above_floor=above, **budgets
    )


def budget(
    samples: list[float],
    *,
    positions: int,
    weight_bytes: int,
    macs: int,
    bandwidth: float,
    throughput: float,
    products: float,
    dispatch: float,
) -> Budget:
    """Divide the median of `samples` (seconds, like `products` and `dispatch`) into its causes."""
    measured = milliseconds(samples)
    floor, compute = weight_bytes / bandwidth, macs / throughput
    kernel = products - max(floor, compute)
    shares = {"memory": floor, "compute": compute, "kernel": kernel, "overhead": dispatch}
    shares = {name: MILLISECONDS * seconds for name, seconds in shares.items()}
    return Budget(
        positions=positions,
        measured=measured,
        floor=shares["memory"],
        compute=shares["compute"],
        kernel=shares["kernel"],
        overhead=shares["overhead"],
        rest=measured.value - MILLISECONDS * (max(floor, compute) + kernel + dispatch),
        macs_per_byte=macs / weight_bytes,
        bound=largest_shares(shares, spread=measured.high - measured.low),
    )


def largest_shares(shares: Mapping[str, float], *, spread: float) -> tuple[str, ...]:
    """Name of the largest share, and of the second where `spread` is more than what lies between them."""
    first, second = sorted(shares, key=shares.get, reverse=True)[:2]
    return (first, second) if shares[first] - shares[second] < spread else (first,)


@torch.inference_mode()
def prompt_products_seconds(lm: LoadedModel, positions: int) -> float:
    """Fastest time of this model's own matrix products over `positions` rows, nothing in between.

    The output head is applied to one row, as a prefill needs it. The counterpart for a prompt of
    `probes.matvec_bandwidth`, quoted at its best sample for the same reason.
    """
    head = lm.model.get_output_embeddings()
    layers = [module for module in lm.model.modules() if isinstance(module, torch.nn.Linear)]
    pairs = [
        (torch.ones(1 if layer is head else positions, layer.in_features).to(layer.weight), layer.weight)
        for layer in layers
    ]

    def multiply_all() -> None:
        for rows, weight in pairs:
            functional.linear(rows, weight)

    return min(interleaved({"products": multiply_all}, lm, repeats=STEP_REPEATS)["products"])


def _both_phases(lm: LoadedModel, prompt_tokens: int) -> dict[str, list[float]]:
    prompt, cache = prompt_ids(lm, prompt_tokens), filled(lm, prompt_tokens)
    calls = {
        "prefill": lambda: prefill(lm.model, prompt, new_cache(lm.config)),
        "decode": lambda: decode_step(lm.model, prompt[:, :1], cache),
    }
    return interleaved(calls, lm, repeats=STEP_REPEATS, before=lambda: crop_to(cache, prompt_tokens))
