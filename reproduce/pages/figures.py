"""Tables → figures and their alt texts. Figures are returned, never saved.

Colours: Okabe and Ito's blue and vermillion, told apart by marker and line style as well.
"""

import io
from dataclasses import dataclass
from typing import Final, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reproduce.profile import Profile

Theme = Literal["light", "dark"]
Format = Literal["svg", "png"]
FORMATS: Final[tuple[Format, ...]] = ("svg", "png")


@dataclass(frozen=True)
class Palette:
    """Colours of one theme."""

    background: str
    text: str
    grid: str
    baseline: str
    candidate: str
    band: str


PALETTES: Final[dict[Theme, Palette]] = {
    "light": Palette("#ffffff", "#1f2328", "#d0d7de", "#0072b2", "#d55e00", "#009e7326"),
    "dark": Palette("#0d1117", "#e6edf3", "#30363d", "#56b4e9", "#f28e2b", "#3fb95033"),
}

_FONT: Final = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "svg.hashsalt": "reproduce",
    "svg.fonttype": "path",
}


def themed(theme: Theme) -> dict[str, object]:
    """Matplotlib settings of a theme, for :func:`matplotlib.rc_context`."""
    colours = PALETTES[theme]
    return {
        **_FONT,
        "figure.facecolor": colours.background,
        "axes.facecolor": colours.background,
        "savefig.facecolor": colours.background,
        "text.color": colours.text,
        "axes.labelcolor": colours.text,
        "axes.edgecolor": colours.grid,
        "xtick.color": colours.text,
        "ytick.color": colours.text,
        "grid.color": colours.grid,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }


def to_bytes(figure: Figure, kind: Format) -> bytes:
    """A figure as a file's bytes; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context(_FONT):
        figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    return buffer.getvalue()


def ladder_figure(table: pd.DataFrame, measurements: pd.DataFrame, profile: Profile,
                  theme: Theme) -> Figure:  # fmt: skip
    """Total token throughput over concurrency, and % of native per workload with its spread.

    Args:
        table: :func:`reproduce.tables.ladder_table` of total_tok_s.
        measurements: the frame it came from, for the single repeats.
        profile: decides the order of workloads and the margin.
        theme: colours.
    """
    with mpl.rc_context(themed(theme)):
        figure = Figure(figsize=(10, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
        _throughput(left, table, measurements, profile, PALETTES[theme])
        _percent(right, table, profile, PALETTES[theme])
    return figure


def _throughput(
    axes: Axes, table: pd.DataFrame, measurements: pd.DataFrame, profile: Profile, colours: Palette
) -> None:
    """The rungs that share the commonest workload, by concurrency; unbounded comes last."""
    shapes = [(r.input_tokens, r.output_tokens) for r in profile.ladder]
    shape = max(shapes, key=shapes.count)
    rungs = [r for r in profile.ladder if (r.input_tokens, r.output_tokens) == shape]
    places = np.arange(len(rungs))
    rows = table.set_index("rung")
    style = {
        profile.baseline: (colours.baseline, "o", "-"),
        profile.candidate: (colours.candidate, "s", "--"),
    }
    for arm, (colour, marker, line) in style.items():
        axes.plot(places, rows.loc[[r.name for r in rungs], arm].to_numpy(float),
                  color=colour, marker=marker, linestyle=line, label=arm, zorder=3)  # fmt: skip
        mine = measurements[measurements["valid"] & (measurements["arm"] == arm)]
        for place, rung in zip(places, rungs, strict=True):
            single = mine.loc[mine["rung"] == rung.name, "total_tok_s"].dropna()
            if len(single) > 1:
                axes.plot([place] * len(single), single, color=colour, marker=marker,
                          linestyle="", markersize=3.5, alpha=0.45, zorder=2)  # fmt: skip
    labels = ["unbounded" if r.concurrency is None else str(r.concurrency) for r in rungs]
    axes.set_xticks(places, labels)
    axes.set_xlabel(f"client concurrency ({shape[0]:,} in / {shape[1]:,} out)")
    axes.set_ylabel("total token throughput (tok/s)")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    axes.grid(axis="y", linewidth=0.6)
    axes.legend(frameon=False, loc="upper left")


def _percent(axes: Axes, table: pd.DataFrame, profile: Profile, colours: Palette) -> None:
    rows = table.set_index("rung").loc[[*(r.name for r in profile.ladder), "mean"]]
    places = np.arange(len(rows))
    margin = 100 * profile.margin
    axes.axhspan(100 - margin, 100 + margin, color=colours.band, lw=0, zorder=0)
    axes.axhline(100, color=colours.text, linewidth=0.8, zorder=1)
    spread = (rows["pairs"] > 1) & (rows.index != "mean")
    axes.vlines(places[spread], rows.loc[spread, "least"], rows.loc[spread, "most"],
                color=colours.candidate, linewidth=5, alpha=0.35, zorder=2)  # fmt: skip
    interval = rows["low"].notna()
    drawn = np.clip(rows.loc[interval, ["low", "high"]], 60, 140)
    axes.vlines(places[interval], drawn["low"], drawn["high"],
                color=colours.text, linewidth=1.1, zorder=3)  # fmt: skip
    axes.plot(places, rows["percent"], color=colours.candidate, marker="s", linestyle="",
              zorder=4)  # fmt: skip
    for place, percent in zip(places, rows["percent"], strict=True):
        if not np.isnan(percent):
            axes.annotate(f"{percent:.1f}", (place, percent), textcoords="offset points",
                          xytext=(8, 0), va="center", fontsize=8.5)  # fmt: skip
    labels = [name.replace("long-context", "long\ncontext") for name in rows.index]
    axes.set_xticks(places, labels)
    axes.set_xlim(-0.5, len(rows) - 0.2)
    axes.set_ylabel(f"{profile.candidate} in % of {profile.baseline}")
    low, high = axes.get_ylim()
    reach = max(2 * margin, 100 - low, high - 100)
    axes.set_ylim(100 - reach, 100 + reach)
    axes.grid(axis="y", linewidth=0.6)
    axes.set_title(f"band: ±{margin:g} %; thick: single pairs; thin: 95 % interval", fontsize=8.5,
                   loc="left")  # fmt: skip


def ladder_alt(table: pd.DataFrame, profile: Profile) -> str:
    """The ladder figure in words, with the numbers that matter."""
    rungs = table[table["rung"] != "mean"]
    known = rungs.dropna(subset=["percent"])
    parts = [
        f"{name} {percent:.1f} %"
        for name, percent in zip(known["rung"], known["percent"].astype(float), strict=True)
    ]
    if not parts:
        return "Throughput of both arms; no workload has been measured on both yet."
    mean = float(table.set_index("rung")["percent"].astype(float)["mean"])
    tail = "" if np.isnan(mean) else f"; mean {mean:.1f} %"
    return (
        f"Left: total token throughput of {profile.baseline} and {profile.candidate} over client "
        f"concurrency. Right: {profile.candidate} in percent of {profile.baseline} per workload, "
        f"with the ±{100 * profile.margin:g} % band: {', '.join(parts)}{tail}."
    )
