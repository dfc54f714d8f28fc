"""The kept run of one backend against itself, as bound values: what equal arms differ by."""

from typing import Any

import pandas as pd

from reproduce import tables
from reproduce.article.raw import YARDSTICK, source, whole
from reproduce.metrics import METRICS
from reproduce.outside.rundir import RunDir
from reproduce.pages.ladder_values import Origins, ladder_row
from reproduce.pages.lineage import rounded, worded
from reproduce.reading import analysis, judgement

_METRIC = METRICS["total_tok_s"]


def yardstick(run: RunDir) -> dict[str, Any]:
    """The mean's ratio and interval, the widest interval of a workload, and the decision."""
    frame, everything = analysis.measurements(run), whole(YARDSTICK)
    origins = Origins(frame, run.manifest.files, "yardstick.", f"{YARDSTICK}/")
    table = tables.ladder_table(frame, run.profile, _METRIC.key)
    *rungs, mean = (row for _, row in table.iterrows())
    widest = max(rungs, key=_width)
    launches = float(tables.launches_per_arm(frame))
    return {
        "mean": ladder_row(mean, _METRIC, run.profile, origins),
        "widest": ladder_row(widest, _METRIC, run.profile, origins),
        "widest_workload": worded(
            "yardstick.widest.workload", str(widest["workload"]),
            [source(f"{YARDSTICK}/profile.yaml", "/ladder")], "tables.workload"),
        "half": rounded("yardstick.half", _width(mean) / 2, 1, everything,
                        "half the width of the mean's interval", "%"),
        "launches": rounded("yardstick.launches", launches, 0, everything,
                            "server starts per arm that gave valid repeats"),
        "label": judgement.verdict_of(run).label.value,
        "backend": run.profile.arms[run.profile.baseline].backend,
    }  # fmt: skip


def _width(row: "pd.Series[Any]") -> float:
    return float(row["high"] - row["low"])
