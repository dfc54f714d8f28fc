"""Memory budgets, the article's memory figures, and what logs say."""

import pandas as pd

from reproduce import analysis, catalog, display, memory_figure, memory_report
from reproduce.figures import PALETTES, to_bytes
from reproduce.memory.architecture import Architecture, parse_architecture
from reproduce.memory.budget import Serving
from reproduce.memory.kv_cache import CPU_BLOCK_SIZE, CPU_MLA_BLOCK_SIZE
from reproduce.memory.topology import Topology
from reproduce.notebook import View
from reproduce.rundir import RunDir

GPUS = ("h100-80gb", "h200-141gb")

BLOCK_SIZES = {
    "CPU_MLA": CPU_MLA_BLOCK_SIZE,
    "AMX_MLA": CPU_BLOCK_SIZE,
    "CPU_ATTN": CPU_BLOCK_SIZE,
    "FLASHMLA": 64,
}
"""Tokens per block of attention backends that allow only one size, or that a platform sets."""


def architecture(model: str = "deepseek-r1") -> Architecture:
    """A stored model's shape."""
    return parse_architecture(catalog.load_config(model), model)


def cases() -> list[memory_report.BudgetCase]:
    """The article's two topologies on H100 and H200, at its settings."""
    model = architecture()
    return memory_report.budget_cases(
        model,
        [catalog.load_gpu(gpu) for gpu in GPUS],
        [memory_report.DATA_PARALLEL, memory_report.THREE_AXES],
        Serving(model.max_position_embeddings),
    )


def budget_figure() -> View:
    """The four budgets as stacked bars."""
    drawn = cases()
    svgs = {theme: to_bytes(memory_figure.budget_figure(drawn, theme), "svg") for theme in PALETTES}
    return View(display.figure(svgs, memory_figure.budget_alt(drawn)))


def budget_table() -> View:
    """The four budgets as numbers, one column per pipeline stage."""
    frame = memory_report.budget_frame(cases())
    names = [f"{r.GPU}, {r.topology}, stage {r.stage}" for r in frame.itertuples()]
    sizes = frame.drop(columns=["GPU", "topology", "stage"]).T
    sizes.columns = pd.Index(names)
    shown = sizes.map(lambda cell: cell if isinstance(cell, str) else f"{cell:,.3f}")
    return View(display.table(shown.reset_index(names="GiB per GPU"), caption="Memory budgets"))


def article_table() -> View:
    """The article's memory figures beside the model's."""
    model = architecture()
    frame = memory_report.article_frame(
        catalog.load_published_figures(),
        model,
        catalog.load_gpu(GPUS[0]),
        Serving(model.max_position_embeddings),
    )
    return View(display.table(_rounded(frame, 2), caption="The article's memory figures"))


def log_table() -> View:
    """Public log lines, each with its errors."""
    shown = _rounded(_logs(), 3)
    shown["claimed"] = shown["claimed"].map({True: "yes", False: "no"})
    return View(display.table(shown, caption="Public logs against the model"))


def log_summary() -> View:
    """Largest errors, for the versions the model claims and for the rest."""
    frame = _logs()
    claimed = frame["claimed"].astype(bool)
    rows = [
        {
            "logs": name,
            "rows": len(part),
            "weights, largest error (%)": part["weights, error (%)"].astype(float).abs().max(),
            "tokens, largest error (%)": part["tokens, error (%)"].astype(float).abs().max(),
        }
        for name, part in (
            ("vLLM 0.11 and later, NVIDIA", frame[claimed]),
            ("older, or AMD", frame[~claimed]),
        )
    ]
    shown = _rounded(pd.DataFrame(rows), 3)
    return View(display.table(shown, caption="Errors against public logs"))


def measured_table(run: RunDir) -> View:
    """Predicted against logged memory of the run's engines, by arm."""
    measured = [arm for name in run.profile.arms if (arm := _measured(run, name)) is not None]
    if not measured:
        return View("<p>No engine log on file says how large its KV cache is.</p>")
    frame = memory_report.measured_frame(architecture(run.profile.model.id), measured)
    return View(display.table(_rounded(frame, 3), caption="Predicted and logged memory"))


def _measured(run: RunDir, name: str) -> memory_report.MeasuredArm | None:
    """What an arm's first engine log says, None where it does not say enough.

    Without MLA a CPU engine does not log its attention backend; there is only one.
    """
    arm, facts = run.profile.arms[name], analysis.facts_of(run, name)
    environment = {**run.profile.server.env, **arm.env}
    space_gib = environment.get("VLLM_CPU_KVCACHE_SPACE")
    if facts is None or facts.max_model_len is None:
        return None
    mla = environment.get("VLLM_MLA_DISABLE", "0") == "0"
    unlogged = "CPU_ATTN" if space_gib and not mla else ""
    kv_gib = min(facts.kv_memory_gib, default=float(space_gib) if space_gib else None)
    block_size = BLOCK_SIZES.get(facts.attention_backend or unlogged)
    if kv_gib is None or block_size is None:
        return None
    layout = run.profile.topology
    return memory_report.MeasuredArm(
        arm=arm.backend,
        topology=Topology(layout.tp, layout.pp, layout.dp, layout.ep),
        precision=architecture(run.profile.model.id).precision,
        mla=mla,
        kv_gib=kv_gib,
        block_size=block_size,
        max_model_len=facts.max_model_len,
        weight_gib=max(facts.weights_gib, default=None),
        tokens=facts.kv_tokens,
        max_concurrency=facts.max_concurrency,
    )


def _logs() -> pd.DataFrame:
    logs = catalog.load_memory_logs()
    architectures = {name: architecture(name) for name in {log.model for log in logs}}
    return memory_report.log_frame(logs, architectures, catalog.load_gpus())


def _rounded(frame: pd.DataFrame, digits: int) -> pd.DataFrame:
    shown = frame.copy()
    for name in frame.columns[[pd.api.types.is_float_dtype(kind) for kind in frame.dtypes]]:
        shown[name] = [display.number(cell, digits) for cell in frame[name]]
    return shown
