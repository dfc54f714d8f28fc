"""The ladder's tables as bound values: each number with the raw files that it was made from."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import pandas as pd

from reproduce import tables
from reproduce.metrics import METRICS, Metric
from reproduce.pages.lineage import MISSING, Cell, Source, counted, to_even, worded
from reproduce.profile import Profile

POINTERS: Final = MappingProxyType(
    {
        "total_tok_s": "/total_token_throughput",
        "output_tok_s": "/output_throughput",
        **{f"{name}_ms": f"/mean_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el")},
    }
)
"""Where a client's result has each metric."""


@dataclass(frozen=True)
class Origins:
    """What a run's numbers can come from.

    Attributes:
        measurements: see :mod:`reproduce.tables`.
        digests: sha256 of raw files, by path below the run's root.
        name: put before the values' ids.
        root: put before the files' paths.
    """

    measurements: pd.DataFrame
    digests: Mapping[str, str]
    name: str = ""
    root: str = ""

    @cached_property
    def _valid(self) -> list[dict[Hashable, Any]]:
        """As plain rows: hundreds of values ask for their files."""
        return self.measurements[self.measurements["valid"]].to_dict("records")

    def of(self, rung: str, metric: str, *arms: str) -> list[Source]:
        """The valid results of a rung, or of all where the rung is the mean."""
        here = [
            str(row["source"])
            for row in self._valid
            if row["arm"] in arms and rung in ("mean", row["rung"]) and not math.isnan(row[metric])
        ]
        printed = "raw/table.json"
        return [
            Source(self.root + name, self.digests[name], "/rows" if name == printed else place)
            for place in [POINTERS[metric]]
            for name in dict.fromkeys(here)
        ]


def ladder_row(
    row: "pd.Series[Any]", metric: Metric, profile: Profile, origins: Origins
) -> dict[str, Cell]:
    """One row of :func:`reproduce.tables.ladder_table`.

    Returns:
        base, tried (medians), percent, interval (95 %), spread (single pairs), pairs, rounding
        (what the printed digits leave open).
    """
    rung, arms = str(row["rung"]), (profile.baseline, profile.candidate)

    def number(key: str, value: float, digits: int, how: str, unit: str, *only: str) -> Cell:
        name = f"{origins.name}{rung}.{metric.key}.{key}"
        sources = origins.of(rung, metric.key, *(only or arms))
        return counted(name, float(value), digits, sources, how, unit) if sources else MISSING

    def span(key: str, ends: tuple[str, str], how: str) -> Cell:
        low, high = (row[end] for end in ends)
        sources = origins.of(rung, metric.key, *arms)
        if pd.isna(low) or pd.isna(high) or low == high or not sources:
            return MISSING
        name = f"{origins.name}{rung}.{metric.key}.{key}"
        return worded(name, f"{low:.1f} to {high:.1f}", sources, how, "%", to_even(1))

    compared = "ratio of the arms, equivalence.compare"
    return {
        **{
            key: number(key, row[arm], metric.digits, "median of the valid repeats", metric.unit,
                        arm)
            for key, arm in zip(("base", "tried"), arms, strict=True)
        },
        "percent": number("percent", row["percent"], 1, compared, "%"),
        "interval": span("interval", ("low", "high"), f"interval of the {compared}"),
        "spread": span("spread", ("least", "most"), "least and greatest ratio of a pair"),
        "pairs": number("pairs", row["pairs"], 0, "count of valid pairs", ""),
        "rounding": span("rounding", ("rounded_low", "rounded_high"),
                         "ratios that the printed digits allow"),
    }  # fmt: skip


def article_rows(profile: Profile, origins: Origins) -> list[dict[str, Cell]]:
    """The rows of :func:`reproduce.tables.article_table`, in its order.

    Returns:
        What :func:`ladder_row` gives for total throughput, and base_tpot, tried_tpot,
        percent_tpot; the mean of the last is over the rungs that the profile names.
    """
    frame = origins.measurements
    speed = tables.ladder_table(frame, profile, "total_tok_s")
    decode = tables.ladder_table(frame, profile, "tpot_ms")
    decode["percent"] = tables.article_table(frame, profile)["tpot_percent"]
    tpot = replace(METRICS["tpot_ms"], digits=1)
    rows = []
    for (_, fast), (_, steady) in zip(speed.iterrows(), decode.iterrows(), strict=True):
        shown = ladder_row(steady, tpot, profile, origins)
        times = {f"{key}_tpot": shown[key] for key in ("base", "tried", "percent")}
        rows.append({**ladder_row(fast, METRICS["total_tok_s"], profile, origins), **times})
    return rows
