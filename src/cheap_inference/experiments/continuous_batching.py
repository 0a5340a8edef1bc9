"""Measurements of the section continuous-batching: both policies on the model, and simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from .. import timing
from ..engine import Check, Engine, check_tokens, slot_engine
from ..models.load import LoadedModel
from ..quantity import Quantity
from ..scheduling import POLICIES, AdmissionRule, Policy, Request, Schedule, Scheduler, Stay, take_turns
from ..simulation import Costs, percentile, simulate
from ..workload import output_lengths, prompt_lengths
from .serving import batch_noise, places_needed, workload_prompts, workload_requests

COST_REPEATS = 5


@dataclass(frozen=True)
class Workload:
    """The requests of the section: counts of requests and of tokens."""

    requests: int
    median_tokens: int
    longest_tokens: int
    total_tokens: int
    shortest_prompt: int
    longest_prompt: int
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class PolicyRun:
    """One policy on all requests, all there from the start. Seconds; latency from arrival to the end."""

    policy: Policy
    simulated: bool
    steps: int
    seconds: float
    tokens_per_second: float
    mean_latency: float
    median_latency: float
    p95_latency: float
    mean_latency_from_admission: float
    utilisation: float
    stays: tuple[Stay, ...]


@dataclass(frozen=True)
class EngineRuns:
    """Both policies on the model and simulated, and the comparison with decoding each request alone.

    `identical` counts requests all of whose tokens are the model's own choice after their predecessors,
    under both policies; `excused` those whose first difference is nearer than twice the logit noise.
    """

    slots: int
    runs: tuple[PolicyRun, ...]
    identical: int
    excused: int
    smallest_margin: float
    logit_noise: float
    decode_seconds: Quantity
    prefill_seconds: Quantity


@dataclass(frozen=True)
class StepCosts:
    """What the simulator is told, in seconds: medians over both of the engine's runs.

    `decode[i]` is a step that computes `rows[i]` rows. The last is the engine's own; the others are
    measured apart, in turns with it, and put to its scale.
    """

    prefill: Quantity
    rows: tuple[int, ...]
    decode: tuple[float, ...]


def describe_workload() -> Workload:
    """The lengths in the order in which they are served, and the chapter's three numbers of them."""
    lengths, prompts = output_lengths(), prompt_lengths()
    return Workload(
        requests=len(lengths),
        median_tokens=int(median(lengths)),
        longest_tokens=max(lengths),
        total_tokens=sum(lengths),
        shortest_prompt=min(prompts),
        longest_prompt=max(prompts),
        lengths=lengths,
    )


def run_policies(lm: LoadedModel, rule: AdmissionRule, *, slots: int) -> EngineRuns:
    """Serve the workload by both policies in turns, on the model and simulated, and check every token."""
    requests, prompts = workload_requests(), workload_prompts(lm)
    engines = [slot_engine(lm, prompts, slots=slots, capacity=places_needed()) for _ in POLICIES]
    schedules = take_turns(
        [
            Scheduler(requests, engine, slots=slots, policy=policy, rule=rule)
            for policy, engine in zip(POLICIES, engines, strict=True)
        ]
    )
    decode = timing.median_seconds([s for engine in engines for s in engine.decode_seconds])
    prefill = timing.median_seconds([s for engine in engines for s in engine.prefill_seconds])
    known = Costs.fixed(prefill=prefill.value, decode=decode.value, slots=slots)
    runs = []
    for policy, schedule in zip(POLICIES, schedules, strict=True):
        runs.append(_policy_run(schedule, policy, simulated=False))
        runs.append(_policy_run(simulate(requests, known, policy=policy), policy, simulated=True))
    noise = batch_noise(lm, prompts[:slots])
    answers = zip(prompts, *(engine.tokens for engine in engines), strict=True)
    checks = [_check_all(lm, prompt, made) for prompt, *made in answers]
    different = [check for check in checks if check.first_difference is not None]
    return EngineRuns(
        slots=slots,
        runs=tuple(runs),
        identical=len(checks) - len(different),
        excused=sum(check.margin < 2 * noise for check in different),
        smallest_margin=min(check.margin for check in checks),
        logit_noise=noise,
        decode_seconds=decode,
        prefill_seconds=prefill,
    )


def _check_all(lm: LoadedModel, prompt: Sequence[int], answers: Sequence[list[int]]) -> Check:
    """The worst check of the different answers to one prompt; equal answers are checked once.

    Worst is the difference with the widest margin, or the narrowest margin where nothing differs.
    """
    checks = [check_tokens(lm, prompt, answer) for answer in {tuple(answer) for answer in answers}]
    different = [check for check in checks if check.first_difference is not None]
    if different:
        return max(different, key=lambda check: check.margin)
    return min(checks, key=lambda check: check.margin)


def cost_by_rows(lm: LoadedModel, engine: EngineRuns) -> StepCosts:
    """What a step costs where fewer rows are computed, beside the engine's own costs."""
    slots = engine.slots
    rows = tuple(sorted({1, max(1, slots // 4), max(1, slots // 2), slots}))
    functions = {count: _engine_in_mid_answer(lm, count).decode for count in rows}
    samples = timing.interleaved(functions, repeats=COST_REPEATS, device=lm.device)
    shares = [timing.ratio(samples[count], samples[slots]).value for count in rows]
    return StepCosts(
        prefill=engine.prefill_seconds,
        rows=rows,
        decode=tuple(share * engine.decode_seconds.value for share in shares),
    )


def _engine_in_mid_answer(lm: LoadedModel, slots: int) -> Engine:
    """Every slot holds a prompt and half an answer of the median length, and goes on."""
    prompts = [prompt * 2 for prompt in workload_prompts(lm)[:slots]]
    engine = slot_engine(lm, prompts, slots=slots, capacity=places_needed())
    for slot in range(slots):
        engine.prefill(slot, Request(slot, 1))
    return engine


def _policy_run(schedule: Schedule, policy: Policy, *, simulated: bool) -> PolicyRun:
    latencies = [served.latency for served in schedule.served]
    return PolicyRun(
        policy=policy,
        simulated=simulated,
        steps=schedule.steps,
        seconds=schedule.seconds,
        tokens_per_second=schedule.throughput,
        mean_latency=schedule.mean_latency,
        median_latency=median(latencies),
        p95_latency=percentile(latencies, 95),
        mean_latency_from_admission=schedule.mean_latency_from_admission,
        utilisation=schedule.utilisation,
        stays=schedule.stays,
    )
