"""Memory budgets, the article's memory figures, and what logs say."""

from typing import Any

import pandas as pd
from markupsafe import Markup

from reproduce.errors import ConfigError
from reproduce.memory.architecture import Architecture, parse_architecture
from reproduce.memory.budget import Serving
from reproduce.memory.kv_cache import CPU_BLOCK_SIZE, CPU_MLA_BLOCK_SIZE
from reproduce.memory.topology import Topology
from reproduce.notebook import View
from reproduce.outside import catalog
from reproduce.outside.rundir import RunDir
from reproduce.pages import display, memory_figure, memory_report
from reproduce.pages.figures import PALETTES, to_bytes
from reproduce.pages.lineage import Cell, Source, counted, told
from reproduce.reading import analysis, origins

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


def budget_figure(run: RunDir) -> View:
    """The four budgets as stacked bars."""
    drawn, files = cases(), origins.files_of(run)
    svgs = {theme: to_bytes(memory_figure.budget_figure(drawn, theme), "svg") for theme in PALETTES}
    sources, words = origins.memory_sources(files, *GPUS), memory_figure.budget_alt(drawn)
    alt = told("memory.figure", words, sources, "memory_figure.budget_alt")
    return View(display.figure(svgs, alt))


def budget_table(run: RunDir) -> View:
    """The four budgets as numbers, one column per pipeline stage."""
    frame, files = memory_report.budget_frame(cases()), origins.files_of(run)
    keys = [str(key) for key in frame if key not in ("GPU", "topology", "stage")]
    shown: dict[Cell, list[Cell]] = {"GiB per GPU": list(keys)}
    for row in frame.to_dict("records"):
        name = f"{row['GPU']}, {row['topology']}, stage {row['stage']}"
        sources = origins.memory_sources(files, str(row["GPU"]))
        heading = told(f"memory.{name}", name, sources, "memory_report.budget_frame")
        shown[heading] = [
            row[key] if isinstance(row[key], str)
            else counted(f"memory.{name}.{key}", row[key], 3, sources, "budget.budget_from_gpu",
                         "requests" if key.startswith("requests") else "GiB")
            for key in keys
        ]  # fmt: skip
    return View(display.table(pd.DataFrame(shown), caption="Memory budgets"))


def article_table(run: RunDir) -> View:
    """The article's memory figures beside the model's."""
    model, files = architecture(), origins.files_of(run)
    frame = memory_report.article_frame(
        catalog.load_published_figures(),
        model,
        catalog.load_gpu(GPUS[0]),
        Serving(model.max_position_embeddings),
    )
    sources = [*files.at("data/published/memory_figures.json", "/figures"),
               *origins.memory_sources(files, GPUS[0])]  # fmt: skip
    shown = display.bound_frame(
        frame, "memory.article", lambda _: sources, "memory_report.article_frame", 2, {}
    )
    return View(display.table(shown, caption="The article's memory figures"))


def log_table(run: RunDir) -> View:
    """Public log lines, each with its errors."""
    frame = _logs()
    shown = display.bound_frame(
        frame.assign(claimed=frame["claimed"].map({True: "yes", False: "no"})),
        "memory.log", lambda _: _log_sources(run), "memory_report.log_frame", 3, {},
    )  # fmt: skip
    return View(display.table(shown, caption="Public logs against the model"))


def log_summary(run: RunDir) -> View:
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
    shown = display.bound_frame(
        pd.DataFrame(rows), "memory.logs", lambda _: _log_sources(run),
        "memory_report.log_frame, count and largest", 3, {},
    )  # fmt: skip
    return View(display.table(shown, caption="Errors against public logs"))


def _log_sources(run: RunDir) -> list[Source]:
    files = origins.files_of(run)
    return [*files.at("data/memory_logs.csv"), *files.like("data/models/*.json", "/config"),
            *files.at("data/gpus.yaml", "/gpus")]  # fmt: skip


def measured_table(run: RunDir) -> View:
    """Predicted against logged memory of the run's engines, by arm."""
    try:
        architecture(run.profile.model.id)
    except ConfigError as error:
        return View(Markup("<p>Not predicted: {}.</p>").format(str(error)))
    measured = {name: arm for name in run.profile.arms if (arm := _measured(run, name)) is not None}
    if not measured:
        return View("<p>No engine log on file says how large its KV cache is.</p>")
    frame = memory_report.measured_frame(
        architecture(run.profile.model.id), list(measured.values())
    )
    files, names = origins.files_of(run), list(measured)
    model = [s for s in files.like("data/models/*.json", "/config")
             if s.path.endswith(f"/{run.profile.model.id}.json")]  # fmt: skip

    def sources(row: "pd.Series[Any]") -> list[Source]:
        arm = names[int(str(row.name))]
        logs = files.like(f"raw/{arm}/launch-*/start-*/engine*.log*", "facts")
        return [*logs[:1], *model, *files.at("profile.yaml")]

    how = "memory_report.measured_frame, engine_log.parse_log"
    shown = display.bound_frame(frame, "memory.run", sources, how, 3, {})
    return View(display.table(shown, caption="Predicted and logged memory"))


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
