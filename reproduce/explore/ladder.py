"""The ladder explorer: a ratio, its interval, and the single requests behind it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd
from markupsafe import Markup

from reproduce import metrics, tables
from reproduce.explore import explorer, known_runs, ladder_table, measurements, opened
from reproduce.explore.drawing import BASELINE, CANDIDATE, Line, dot_plot
from reproduce.notebook import RUNS
from reproduce.outside.memo import remembered
from reproduce.outside.stored import read_json
from reproduce.pages import display
from reproduce.profile import Profile

_MOST_DOTS = 300
_OF_REQUESTS = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "itl_ms": "mean ITL", "e2el_ms": "E2EL"}
"""Metrics that a single request has; beside a throughput stands the request's E2EL."""


def ladder_explorer(runs: Path = RUNS) -> ipywidgets.Widget:
    """Runs, metric and workload → ratios with their intervals, and single requests."""
    known, note = known_runs(runs)
    first = next(iter(known.values()))
    chosen = ipywidgets.SelectMultiple(options=known, value=(first,), rows=3, description="runs")
    metric = ipywidgets.Dropdown(
        options=[(m.label, key) for key, m in metrics.METRICS.items()], description="metric"
    )
    rung = ipywidgets.ToggleButtons(options=_rungs((first,)), description="workload")

    def other_runs(change: dict[str, Any]) -> None:
        names = _rungs(change["new"])
        if names and names != list(rung.options):
            rung.options = names

    chosen.observe(other_runs, names="value")
    return explorer({"roots": chosen, "metric": metric, "rung": rung}, ratios, note)


def _rungs(roots: tuple[Path, ...]) -> list[str]:
    return list(dict.fromkeys(r.name for root in roots for r in opened(root).profile.ladder))


def ratios(*, roots: tuple[Path, ...], metric: str, rung: str) -> str:
    """One workload's ratio in each run, and the single requests of the first, as HTML."""
    found = []
    for root in roots:
        table = ladder_table(root, metric).set_index("rung")
        if rung in table.index:
            found.append((root, {"rung": rung, **table.loc[rung].to_dict()}))
    if not found:
        return Markup("<p>Choose a run that has this workload.</p>")
    sentences = [_sentence(row, opened(root).profile, metric) for root, row in found]
    told = Markup("").join(
        Markup("<li>{}, {}: {}</li>").format(root.name, row["workload"], sentence)
        for (root, row), sentence in zip(found, sentences, strict=True)
    )
    lines = [_line(root, row, metric) for root, row in found if not pd.isna(row["percent"])]
    if not lines:
        return Markup("<ul>{}</ul>").format(told)
    profile = opened(found[0][0]).profile
    margin = 100 * profile.margin
    return Markup("<p><b>{}</b></p><ul>{}</ul>{}{}").format(
        metrics.METRICS[metric].label,
        told,
        dot_plot(
            lines,
            f"% of {profile.baseline}",
            "; ".join(sentences),
            band=(100 - margin, 100 + margin),
        ),
        _requests(found[0][0], metric, rung),
    )


def _line(root: Path, row: Mapping[Any, Any], metric: str) -> Line:
    profile = opened(root).profile
    pairs = tables.pairs(measurements(root), profile, metric)
    here = pairs[pairs["rung"] == row["rung"]]
    return Line(
        name=root.name,
        dots=(100 * here[profile.candidate] / here[profile.baseline]).tolist(),
        mark=row["percent"],
        ends=None if pd.isna(row["low"]) else (row["low"], row["high"]),
        colour=CANDIDATE,
        told=f"{row['percent']:.1f} %",
    )


def _sentence(row: Mapping[Any, Any], profile: Profile, metric: str) -> str:
    about = metrics.METRICS[metric]
    speeds = " and ".join(
        f"{arm} {display.number(row[arm], about.digits, f' {about.unit}')}"
        for arm in (profile.baseline, profile.candidate)
    )
    if pd.isna(row["percent"]):
        return f"no pair has this metric here ({speeds})"
    interval = (
        "no interval, for want of repeats"
        if pd.isna(row["low"])
        else f"95 % interval {row['low']:.1f} to {row['high']:.1f} %"
    )
    return (
        f"{speeds}; {profile.candidate} has {row['percent']:.1f} % of {profile.baseline}, "
        f"{interval}, from {int(row['pairs'])} pairs"
    )


def _requests(root: Path, metric: str, rung: str) -> Markup:
    profile = opened(root).profile
    key = metric if metric in _OF_REQUESTS else "e2el_ms"
    lines = []
    for arm, colour in ((profile.baseline, BASELINE), (profile.candidate, CANDIDATE)):
        frame = measurements(root)
        here = frame[frame["valid"] & (frame["rung"] == rung) & (frame["arm"] == arm)]
        times = [t for source in here["source"] for t in _times(root / source, key)]
        if not times:
            return Markup("<p>The client's files of this workload do not hold single requests.</p>")
        middle = float(np.median(times))
        lines.append(Line(arm, _thinned(times), middle, None, colour, f"median {middle:,.1f}"))
    alt = f"{_OF_REQUESTS[key]} of single requests, in ms: " + ", ".join(
        f"{line.name} {line.told}" for line in lines
    )
    return Markup("<p>{} of every request in {}, with the median</p>{}").format(
        _OF_REQUESTS[key], root.name, dot_plot(lines, "ms", alt)
    )


def _thinned(times: list[float]) -> list[float]:
    """At most so many, evenly through the sorted values, the extremes among them."""
    ordered = np.sort(times)
    if len(ordered) > _MOST_DOTS:
        ordered = ordered[np.linspace(0, len(ordered) - 1, _MOST_DOTS).astype(int)]
    found: list[float] = ordered.tolist()
    return found


@remembered
def _times(path: Path, metric: str) -> tuple[float, ...]:
    """A metric of each request in ms, as far as a client's detailed result gives it."""
    data = read_json(path)
    keys = {"ttft_ms": ("ttfts",), "itl_ms": ("itls",), "e2el_ms": ("latencies",),
            "tpot_ms": ("ttfts", "latencies", "output_lens")}[metric]  # fmt: skip
    if not isinstance(data, dict) or not all(data.get(key) for key in keys):
        return ()
    if metric == "itl_ms":
        return tuple(1000 * float(np.mean(gaps)) for gaps in data["itls"] if gaps)
    if metric == "tpot_ms":
        rows = zip(*(data[key] for key in keys), strict=True)
        return tuple(1000 * (whole - first) / (made - 1) for first, whole, made in rows if made > 1)
    return tuple(1000 * float(value) for value in data[keys[0]])
