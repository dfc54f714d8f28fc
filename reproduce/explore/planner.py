"""The memory planner: turn the layout, see what is left for the cache."""

from functools import lru_cache

import ipywidgets
import pandas as pd
from markupsafe import Markup

from reproduce.errors import ConfigError
from reproduce.explore import explorer
from reproduce.explore.drawing import budget_bars
from reproduce.memory.architecture import Architecture, parse_architecture
from reproduce.memory.budget import Serving
from reproduce.memory.topology import Topology
from reproduce.outside import catalog
from reproduce.pages import display, memory_figure, memory_report

_SIZES = (1, 2, 4, 8, 16, 32)
_LENGTHS = (2048, 4096, 8192, 16384, 32768, 65536, 131072, 163840, 262144)


def memory_planner() -> ipywidgets.Widget:
    """Model, GPU and layout → bars and table of every pipeline stage."""
    wide = {"continuous_update": True, "style": {"description_width": "4rem"}}
    controls = {
        "model": ipywidgets.Dropdown(
            options=list(catalog.stored_models()), value="deepseek-r1", description="model"
        ),
        "gpu": ipywidgets.Dropdown(
            options=list(catalog.load_gpus()), value="h100-80gb", description="GPU"
        ),
        "tp": ipywidgets.SelectionSlider(options=_SIZES, value=8, description="TP", **wide),
        "pp": ipywidgets.SelectionSlider(options=_SIZES, value=2, description="PP", **wide),
        "dp": ipywidgets.SelectionSlider(options=_SIZES, value=1, description="DP", **wide),
        "ep": ipywidgets.Checkbox(value=True, description="EP"),
        "length": ipywidgets.SelectionSlider(
            options=[(f"{length:,}", length) for length in _LENGTHS],
            value=_LENGTHS[-2],
            description="length",
            **wide,
        ),
    }
    return explorer(controls, budget)


def budget(*, model: str, gpu: str, tp: int, pp: int, dp: int, ep: bool, length: int) -> str:
    """The budget of one layout as HTML, or the reason why vLLM does not build it."""
    topology = Topology(tp, pp, dp, ep)
    try:
        architecture = _architecture(model)
        (case,) = memory_report.budget_cases(
            architecture, [catalog.load_gpu(gpu)], [topology], Serving(length)
        )
    except ConfigError as error:
        return Markup("<p>{} on {}: {}</p>").format(topology.label, gpu, str(error))
    longest = architecture.max_position_embeddings
    beyond = f" The model itself stops at {longest:,} tokens." if length > longest else ""
    return Markup("<p><b>{} × {}, {}</b>: {}.{}</p>{}{}").format(
        topology.gpus,
        gpu,
        topology.label,
        case.budget.reason,
        beyond,
        budget_bars(case, memory_figure.budget_alt([case])),
        _table(case),
    )


@lru_cache(maxsize=64)
def _architecture(model: str) -> Architecture:
    return parse_architecture(catalog.load_config(model), model)


def _table(case: memory_report.BudgetCase) -> str:
    frame = memory_report.budget_frame([case])
    sizes = frame.drop(columns=["GPU", "topology", "stage"]).T
    sizes.columns = pd.Index([f"stage {stage}" for stage in frame["stage"]])
    shown = sizes.map(lambda cell: cell if isinstance(cell, str) else f"{cell:,.3f}")
    return display.table(shown.reset_index(names="GiB per GPU"), caption="One GPU of each stage")
