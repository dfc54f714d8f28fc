"""The budget as stacked bars: what fills a GPU, and what is left for the KV cache."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reproduce.memory.budget import GIB
from reproduce.memory.inventory import Group
from reproduce.memory.sharding import RankMemory
from reproduce.pages.figures import PALETTES, Theme, themed
from reproduce.pages.memory_report import BudgetCase

_SEGMENTS: Final[dict[str, tuple[Group, ...]]] = {
    "routed experts": (Group.ROUTED_EXPERTS,),
    "shared experts, dense MLP": (Group.SHARED_EXPERTS, Group.DENSE_MLP),
    "attention": (Group.ATTENTION,),
    "embeddings and head": (Group.EMBEDDINGS,),
    "norms, gates, scales, buffers": (Group.NORMS, Group.SCALES, Group.BUFFERS),
    "absorbed copies": (Group.ABSORBED,),
}
_COLOURS: Final = ("#0072b2", "#56b4e9", "#e69f00", "#f0e442", "#999999", "#cc79a7")
"""Okabe and Ito's palette, in the order of the segments; readable on both backgrounds."""
_OVERHEAD: Final = "#d55e00"
_CACHE: Final = "#009e73"


class Part(NamedTuple):
    """One segment of a bar."""

    label: str
    size_gib: float
    colour: str
    hatch: str = ""
    alpha: float = 1.0


def budget_figure(cases: Sequence[BudgetCase], theme: Theme) -> Figure:
    """One bar per pipeline stage of each case, from the weights up to what the GPU has.

    Args:
        cases: What to draw, from the top down.
        theme: Colours.
    """
    bars = [(case, rank) for case in cases for rank in case.budget.ranks]
    with mpl.rc_context(themed(theme)):
        figure = Figure(figsize=(10, 1.6 + 0.52 * len(bars)), layout="constrained")
        axes = figure.subplots()
        for place, (case, rank) in enumerate(bars):
            _draw_bar(axes, place, case, rank, theme)
        axes.set_yticks(range(len(bars)), [bar_name(case, rank) for case, rank in bars])
        axes.invert_yaxis()
        axes.set_xlabel("GiB per GPU; the line is what the GPU has")
        most_gib = max(case.gpu.total_gib for case in cases)
        axes.set_xlim(0, 1.24 * most_gib)
        axes.set_xticks(range(0, int(most_gib) + 1, 20))
        axes.grid(axis="x", linewidth=0.6)
        axes.set_axisbelow(True)
        handles, labels = axes.get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        figure.legend(
            unique.values(), unique.keys(), loc="outside upper center", ncols=3, frameon=False
        )
    return figure


def budget_alt(cases: Sequence[BudgetCase]) -> str:
    """The figure in words."""
    sentences = [
        f"{case.topology.label} on {case.gpu.name}: "
        f"{max(rank.model_bytes for rank in case.budget.ranks) / GIB:.1f} GiB of model on the "
        f"fullest GPU, {requests(case)} full-length requests"
        for case in cases
    ]
    return "Memory of one GPU per pipeline stage, stacked. " + "; ".join(sentences) + "."


def _draw_bar(axes: Axes, place: int, case: BudgetCase, rank: RankMemory, theme: Theme) -> None:
    left = 0.0
    for part in parts(case, rank):
        axes.barh(
            place,
            part.size_gib,
            left=left,
            height=0.62,
            color=part.colour,
            hatch=part.hatch,
            alpha=part.alpha,
            edgecolor=PALETTES[theme].background,
            linewidth=0.6,
            label=part.label,
        )
        left += part.size_gib
    total = case.gpu.total_gib
    axes.vlines(total, place - 0.42, place + 0.42, color=PALETTES[theme].text, linewidth=2)
    axes.annotate(
        f"{requests(case)} requests" + ("" if case.budget.fits else ":\ndoes not fit"),
        (total, place),
        textcoords="offset points",
        xytext=(6, 0),
        va="center",
        fontsize=9,
    )


def parts(case: BudgetCase, rank: RankMemory) -> list[Part]:
    """Model, overhead, what may be either overhead or cache, cache, and what vLLM may not take."""
    kv, overhead = case.budget.kv_gib[rank.stage], case.gpu.overhead_gib
    model = [
        Part(name, sum(rank.group_bytes[group] for group in groups) / GIB, colour)
        for (name, groups), colour in zip(_SEGMENTS.items(), _COLOURS, strict=True)
    ]
    uncertain = max(0.0, kv.high) - max(0.0, kv.low)
    reserved = (1 - case.serving.gpu_memory_utilization) * case.gpu.total_gib
    return [
        *model,
        Part("overhead, at least", overhead.low, _OVERHEAD),
        Part("overhead or KV cache", uncertain, _OVERHEAD, "////", 0.55),
        Part("KV cache, at least", max(0.0, kv.low), _CACHE),
        Part("not vLLM's (1 − utilization)", reserved, "#999999", alpha=0.3),
    ]


def bar_name(case: BudgetCase, rank: RankMemory) -> str:
    """Which GPU of which layout a bar is, on two lines."""
    stage = f", stage {rank.stage}" if case.topology.pp > 1 else ""
    return f"{case.gpu.name}\n{case.topology.label}{stage}"


def requests(case: BudgetCase) -> str:
    """Full-length requests that the cache holds, at least and at most."""
    low, high = case.budget.at_least.max_concurrency, case.budget.at_most.max_concurrency
    return f"{low:.2f}–{high:.2f}"
