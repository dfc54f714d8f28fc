"""The article's memory figures beside the model's, and the model beside public logs."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from reproduce.article.raw import PUBLISHED, quoted, source
from reproduce.memory.architecture import Architecture, parse_architecture
from reproduce.memory.budget import GIB, Serving
from reproduce.outside import catalog
from reproduce.pages import memory_figure, memory_report
from reproduce.pages.lineage import Bound, Source, rounded, worded
from reproduce.pages.memory_report import BudgetCase

MODEL = "deepseek-r1"
GPUS = ("h100-80gb", "h200-141gb")

_FIGURES = f"{PUBLISHED}/memory_figures.json"
_FITS = {True: "yes", False: "no", "depends": "depends on the overhead"}
_LOGS = "data/memory_logs.csv"


def cases() -> list[BudgetCase]:
    """The article's two topologies on both GPUs, at its settings."""
    model = _architecture(MODEL)
    return memory_report.budget_cases(
        model,
        [catalog.load_gpu(gpu) for gpu in GPUS],
        [memory_report.DATA_PARALLEL, memory_report.THREE_AXES],
        Serving(model.max_position_embeddings),
    )


def memory() -> dict[str, Any]:
    """The section's values."""
    budgets = cases()
    return {
        "figures": _figures(),
        "budgets": [_budget(case) for case in budgets],
        "logs": _logs(),
        "alt": worded("memory.figure", memory_figure.budget_alt(budgets), _sources(*GPUS),
                      "memory_figure.budget_alt"),
    }  # fmt: skip


def _figures() -> list[dict[str, Bound]]:
    """Each printed figure, the model's range for it, and what would reconcile the two."""
    model, printed = _architecture(MODEL), catalog.load_published_figures()
    frame = memory_report.article_frame(
        printed, model, catalog.load_gpu(GPUS[0]), Serving(model.max_position_embeddings)
    )
    rows = []
    for place, (figure, (_, row)) in enumerate(zip(printed, frame.iterrows(), strict=True)):
        name, origin = (
            f"memory.{figure.id}",
            [*_sources(GPUS[0]), source(_FIGURES, f"/figures/{place}")],
        )
        ends = dict.fromkeys(f"{row[f'model, {end}']:.2f}" for end in ("least", "most"))
        rows.append({
            "scope": quoted(_FIGURES, f"/figures/{place}/scope"),
            "unit": quoted(_FIGURES, f"/figures/{place}/unit"),
            "article": quoted(_FIGURES, f"/figures/{place}/value", figure.unit),
            "model": worded(f"{name}.model", " to ".join(ends), origin,
                            "memory_report.article_frame", figure.unit),
            "beyond": rounded(f"{name}.beyond", row["article beyond the model by"], 2, origin,
                              "memory_report.article_frame", figure.unit),
            "reconciled": worded(f"{name}.reconciled", row["what would reconcile them"], origin,
                                 "memory_report.article_frame"),
        })  # fmt: skip
    return rows


def _budget(case: BudgetCase) -> dict[str, Any]:
    """One topology on one GPU: the fullest rank's model, the tightest stage's cache."""
    name, origin = f"memory.{case.topology.label}.{case.gpu.name}", _sources(case.gpu.name)
    kv = min(case.budget.kv_gib, key=lambda band: band.low)
    few, many = case.budget.at_least.max_concurrency, case.budget.at_most.max_concurrency
    model_gib = max(rank.model_bytes for rank in case.budget.ranks) / GIB
    return {
        "topology": worded(f"{name}.topology", case.topology.label, origin, "Topology.label"),
        "gpu": worded(f"{name}.gpu", case.gpu.name, origin, "as stored"),
        "model": rounded(f"{name}.model", model_gib, 2, origin, "sharding.shard", "GiB"),
        "cache": worded(f"{name}.cache", f"{kv.low:.1f} to {kv.high:.1f}", origin,
                        "budget.budget_from_gpu", "GiB"),
        "requests": worded(f"{name}.requests", f"{few:.2f} to {many:.2f}", origin,
                           "budget.budget_from_gpu", "full-length requests"),
        "fits": _FITS[case.budget.fits],
    }  # fmt: skip


def _logs() -> dict[str, Bound]:
    """How far the model is from what public logs say, over the versions that it claims."""
    logs = catalog.load_memory_logs()
    names = sorted({log.model for log in logs})
    frame = memory_report.log_frame(
        logs, {name: _architecture(name) for name in names}, catalog.load_gpus()
    )
    claimed = frame[frame["claimed"].astype(bool)]
    shapes = [source(f"data/models/{name}.json", "/config") for name in names]

    def worst(kind: str, column: str) -> Bound:
        errors = pd.to_numeric(claimed[column]).abs()
        value = float(errors.max()) if errors.notna().any() else math.nan
        return rounded(f"memory.logs.{kind}", value, 2, [source(_LOGS, f"/*/{kind}"), *shapes],
                       "largest error in percent, memory_report.log_frame", "%")  # fmt: skip

    return {
        "rows": rounded("memory.logs.rows", float(len(claimed)), 0, [source(_LOGS, "")], "count"),
        "weights": worst("weight_gib", "weights, error (%)"),
        "tokens": worst("tokens", "tokens, error (%)"),
    }


def _architecture(model: str) -> Architecture:
    return parse_architecture(catalog.load_config(model), model)


def _sources(*gpus: str) -> Sequence[Source]:
    return [
        source(f"data/models/{MODEL}.json", "/config"),
        *(source("data/gpus.yaml", f"/gpus/{gpu}/total_gib") for gpu in gpus),
        source("data/gpus.yaml", "/overhead_gib"),
    ]
