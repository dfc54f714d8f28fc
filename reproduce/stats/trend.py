"""Does a measured quantity rise or fall with the repeat?"""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import ndtr

ALPHA = 0.01
"""Two-sided, over all tests of one series together."""


def trends(series: pd.DataFrame) -> Iterator[tuple[str, float]]:
    """Rungs, or the whole ladder, in which a logarithm rises or falls with the repeat.

    Mann–Kendall, stratified by rung and launch (Hirsch, Slack and Smith 1982), so that a step from
    launch to launch is no trend. The amount is the median of Theil and Sen's slopes times the
    steps.

    Args:
        series: Columns rung, launch, pair and y.

    Yields:
        Name, and change from the first to the last repeat in percent.
    """
    groups = [(str(name), rows) for name, rows in series.groupby("rung", sort=False)]
    groups.append(("all workloads", series))
    for name, rows in groups:
        strata = [
            stratum.sort_values("pair")["y"].to_numpy()
            for _, stratum in rows.groupby(["rung", "launch"], sort=False)
        ]
        score = sum(
            float(np.sign(y[None, :] - y[:, None])[np.triu_indices(len(y), 1)].sum())
            for y in strata
        )
        variance = sum(n * (n - 1) * (2 * n + 5) / 18 for n in map(len, strata))
        z = max(0.0, abs(score) - 1) / math.sqrt(variance) if variance else 0.0
        if 2 * float(ndtr(-z)) < ALPHA / len(groups):
            from scipy.stats import theilslopes  # noqa: PLC0415  a trend is rare

            changes = [theilslopes(y).slope * (len(y) - 1) for y in strata if len(y) > 1]
            yield name, 100 * math.expm1(float(np.median(changes)))
