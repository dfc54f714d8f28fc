"""Memory figures as frames: budgets, the article's figures, public logs, a measured run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from reproduce.memory.architecture import Architecture, Arm, Precision
from reproduce.memory.budget import GIB, Budget, Gpu, Serving, budget_from_gpu
from reproduce.memory.inventory import Group, take_inventory
from reproduce.memory.kv_cache import capacity, kv_bytes_per_token
from reproduce.memory.records import MemoryLog, PublishedFigure
from reproduce.memory.sharding import shard
from reproduce.memory.topology import Topology

DATA_PARALLEL = Topology(tp=1, dp=16, ep=True)
"""The usual recipe, which the article says does not fit (section Topology)."""

THREE_AXES = Topology(tp=8, pp=2, ep=True)
"""What the article runs instead."""


@dataclass(frozen=True, slots=True)
class BudgetCase:
    """One topology on one GPU."""

    gpu: Gpu
    topology: Topology
    serving: Serving
    budget: Budget


@dataclass(frozen=True, slots=True)
class MeasuredArm:
    """What an engine logged about its memory, and how it was served.

    Attributes:
        arm: Which implementation.
        topology: As served.
        precision: Type of the weights.
        mla: False under VLLM_MLA_DISABLE=1.
        kv_gib: Cache size as logged or set.
        block_size: Tokens per block.
        max_model_len: Tokens of a full request.
        weight_gib: "Model loading took … GiB"; None on a CPU, which does not log it.
        tokens: "KV cache size: … tokens" as logged.
        max_concurrency: "Maximum concurrency …" as logged.
    """

    arm: Arm
    topology: Topology
    precision: Precision
    mla: bool
    kv_gib: float
    block_size: int
    max_model_len: int
    weight_gib: float | None
    tokens: int | None
    max_concurrency: float | None


def budget_cases(
    architecture: Architecture,
    gpus: Sequence[Gpu],
    topologies: Sequence[Topology],
    serving: Serving,
    *,
    arm: Arm = "native",
) -> list[BudgetCase]:
    """Budget every topology on every GPU, with the checkpoint's own weights."""
    inventory = take_inventory(architecture, arm, architecture.precision)
    return [
        BudgetCase(
            gpu,
            topology,
            serving,
            budget_from_gpu(
                shard(architecture, inventory, topology),
                kv_bytes_per_token(architecture, topology),
                gpu,
                serving,
            ),
        )
        for gpu in gpus
        for topology in topologies
    ]


def budget_frame(cases: Sequence[BudgetCase]) -> pd.DataFrame:
    """One row per distinct rank; sizes in GiB per GPU, bounds where the overhead is a band."""
    fits = {True: "yes", False: "no", "depends": "depends on the overhead"}
    return pd.DataFrame(
        {
            "GPU": case.gpu.name,
            "topology": case.topology.label,
            "stage": rank.stage,
            **{_name(group): rank.group_bytes[group] / GIB for group in Group},
            "model": rank.model_bytes / GIB,
            "overhead, least": case.gpu.overhead_gib.low,
            "overhead, most": case.gpu.overhead_gib.high,
            "KV cache, least": case.budget.kv_gib[rank.stage].low,
            "KV cache, most": case.budget.kv_gib[rank.stage].high,
            "one request": case.budget.request_gib[rank.stage],
            "requests, least": case.budget.at_least.max_concurrency,
            "requests, most": case.budget.at_most.max_concurrency,
            "fits": fits[case.budget.fits],
        }
        for case in cases
        for rank in case.budget.ranks
    )


def article_frame(
    figures: Sequence[PublishedFigure], architecture: Architecture, gpu: Gpu, serving: Serving
) -> pd.DataFrame:
    """Each published figure beside the model's, and what would reconcile them.

    Args:
        figures: From :func:`reproduce.outside.catalog.load_published_figures`.
        architecture: The served model.
        gpu: The article's GPU.
        serving: The article's settings.
    """
    replicated, staged = budget_cases(architecture, [gpu], [DATA_PARALLEL, THREE_AXES], serving)
    answers = {
        "weights_dp16_ep16": _weights(replicated),
        "left_dp16_ep16": _left(replicated),
        "wanted_kv_dp16_ep16": _wanted(replicated, _value(figures, "wanted_kv_dp16_ep16")),
        "concurrency_high": _concurrency(staged, _value(figures, "concurrency_high")),
        "concurrency_low": _concurrency(staged, _value(figures, "concurrency_low")),
    }
    return pd.DataFrame(
        {
            "figure": figure.scope,
            "as printed": figure.printed,
            "article": figure.value,
            "model, least": answers[figure.id][0],
            "model, most": answers[figure.id][1],
            "article beyond the model by": _outside(figure.value, *answers[figure.id][:2]),
            "unit": figure.unit,
            "what would reconcile them": answers[figure.id][2],
            "can the article decide": "no: it prints no memory line of a log",
        }
        for figure in figures
    )


def log_frame(
    logs: Sequence[MemoryLog], architectures: Mapping[str, Architecture], gpus: Mapping[str, Gpu]
) -> pd.DataFrame:
    """Public log lines against the model; errors in percent of the log, weights and tokens apart.

    Tokens are predicted from the logged cache memory, as blocks × block size: that is what
    versions up to 0.18 print. The overhead is what the logged cache leaves unexplained.
    """
    return pd.DataFrame(_log_row(log, architectures[log.model], gpus) for log in logs)


def measured_frame(architecture: Architecture, measured: Sequence[MeasuredArm]) -> pd.DataFrame:
    """Predicted against logged memory of a measured run's arms; missing stays missing."""
    rows = []
    for arm in measured:
        ranks = shard(
            architecture,
            take_inventory(architecture, arm.arm, arm.precision, mla=arm.mla),
            arm.topology,
        )
        per_token = kv_bytes_per_token(architecture, arm.topology, mla=arm.mla)
        found = capacity(
            [int(arm.kv_gib * GIB)] * len(per_token),
            per_token,
            block_size=arm.block_size,
            max_model_len=arm.max_model_len,
        )
        rows.append(
            {
                "arm": arm.arm,
                "topology": arm.topology.label,
                "MLA": "on" if arm.mla else "off",
                "weights, predicted (GiB)": max(rank.model_bytes for rank in ranks) / GIB,
                "weights, logged (GiB)": arm.weight_gib,
                "KV cache (GiB)": arm.kv_gib,
                "tokens, predicted": found.tokens,
                "tokens, logged": arm.tokens,
                "tokens, difference": None if arm.tokens is None else arm.tokens - found.tokens,
                "requests, predicted": found.max_concurrency,
                "requests, logged": arm.max_concurrency,
            }
        )
    return pd.DataFrame(rows)


Answer = tuple[float, float, str]
"""Least and most that the model gives, and the reconciling assumption."""


def _weights(case: BudgetCase) -> Answer:
    (rank,) = case.budget.ranks
    model_gib = rank.model_bytes / GIB
    attention_gib = rank.group_bytes[Group.ATTENTION] / GIB
    return (
        model_gib,
        model_gib,
        f"attention projections held in BF16 instead of FP8 would add {attention_gib:.2f} GiB, "
        f"giving {model_gib + attention_gib:.1f}",
    )


def _left(case: BudgetCase) -> Answer:
    (rank,), (kv,) = case.budget.ranks, case.budget.kv_gib
    whole = case.gpu.total_gib - rank.model_bytes / GIB
    return (
        kv.low,
        kv.high,
        f"68.4 + 10.8 is the whole card, so no utilization and no overhead were taken off; by that "
        f"count the model leaves {whole:.1f} GiB",
    )


def _wanted(case: BudgetCase, wanted_gib: float) -> Answer:
    (request_gib,) = case.budget.request_gib
    return (
        request_gib,
        request_gib,
        f"one full-length request; {wanted_gib} GiB would be {wanted_gib / request_gib:.2f} of "
        "them, which no stated setting yields",
    )


def _concurrency(case: BudgetCase, requests: float) -> Answer:
    usable_gib = case.serving.gpu_memory_utilization * case.gpu.total_gib
    overheads = [
        usable_gib - rank.model_bytes / GIB - requests * case.budget.request_gib[rank.stage]
        for rank in case.budget.ranks
    ]
    stage = overheads.index(min(overheads))
    band = case.gpu.overhead_gib
    side = "inside" if band.low <= overheads[stage] <= band.high else "outside"
    return (
        case.budget.at_least.max_concurrency,
        case.budget.at_most.max_concurrency,
        f"an overhead of {overheads[stage]:.1f} GiB on both stages, {side} the band of "
        f"{band.low} to {band.high} GiB; stage {stage} then decides",
    )


def _log_row(
    log: MemoryLog, architecture: Architecture, gpus: Mapping[str, Gpu]
) -> dict[str, object]:
    topology = Topology(log.tp, log.pp, log.dp, log.ep)
    ranks = shard(architecture, take_inventory(architecture, "native", log.quant), topology)
    model_gib = max(rank.model_bytes for rank in ranks if rank.stage == log.stage) / GIB
    tokens = None
    if log.kv_gib and log.block_size and log.max_model_len:
        per_token = kv_bytes_per_token(architecture, topology)[log.stage]
        shape = {"block_size": log.block_size, "max_model_len": log.max_model_len}
        tokens = capacity([int(log.kv_gib * GIB)], [per_token], **shape).blocks * log.block_size
    overhead_gib = None
    gpu = gpus.get(log.gpu or "")
    if log.kv_gib and log.gpu_memory_utilization and gpu:
        usable_gib = log.gpu_memory_utilization * gpu.total_gib
        overhead_gib = usable_gib - model_gib - log.kv_gib
    return {
        "log": log.row,
        "vLLM": log.vllm_version,
        "GPU": log.gpu,
        "topology": topology.label,
        "weights, logged (GiB)": log.weight_gib,
        "weights, model (GiB)": model_gib,
        "weights, error (%)": _percent(model_gib, log.weight_gib),
        "tokens, logged": log.tokens,
        "tokens, model": tokens,
        "tokens, error (%)": _percent(tokens, log.tokens),
        "overhead (GiB)": overhead_gib,
        "claimed": log.is_current_nvidia,
        "note": log.note,
        "source": log.source,
    }


def _percent(model: float | None, logged: float | None) -> float | None:
    return None if model is None or logged is None else 100 * (model / logged - 1)


def _outside(value: float, least: float, most: float) -> float:
    """How far a value lies outside a range; 0 inside it."""
    return min(value - least, 0.0) + max(value - most, 0.0)


def _value(figures: Sequence[PublishedFigure], name: str) -> float:
    return next(figure.value for figure in figures if figure.id == name)


def _name(group: Group) -> str:
    return group.value.replace("_", " ")
