"""Are two arms equally fast? Paired log ratios, intervals, and two one-sided tests.

Model, for rung r, launch l and pair p:

    y = log(candidate / baseline) = θ_r + b_rl + e_rlp

θ is the log ratio to be known, b the deviation of one server start (every pair of that launch
shares it), e the noise of one pair. Two slices that alternate within seconds form a pair. The
replicate is therefore the launch: a launch is reduced to the median of its pairs, which one
disturbed pair in three cannot move, and a t interval is taken over the launch values. With a
single launch the pairs are the replicates, and the result says what its interval leaves out.

docs/statistics.md compares this choice with others on simulated noise, with its coverage.
"""

from dataclasses import asdict, dataclass, replace
from enum import StrEnum

import numpy as np
import pandas as pd

from reproduce.errors import DataError
from reproduce.stats.intervals import (
    ALPHA,
    CONFIDENCE,
    Floats,
    Method,
    centre,
    critical_df,
    interval,
    method_for,
    p_value,
)

LADDER = "ladder mean"

_SAME = 1e-12
_ONE_LAUNCH = (
    "One launch: the interval covers the variation between pairs, "
    "not the variation from launch to launch."
)


class Decision(StrEnum):
    """Where the intervals lie against the margin; exactly one holds.

    EQUIVALENT: both one-sided tests reject, so the 90 % interval lies inside the margin. A small
    difference may still be established: see `Effect.excludes_one`.
    DIFFERENT: the 95 % interval lies wholly outside the margin. It contains the 90 % interval,
    hence no effect is both. Excluding 1 is not enough: a difference inside the margin does not
    contradict "inside the margin", and an arm compared with itself would be "different" in one
    comparison of twenty.
    INCONCLUSIVE: anything else, and whatever has no interval.
    """

    EQUIVALENT = "equivalent"
    DIFFERENT = "different"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Effect:
    """The ratio candidate / baseline on one rung or over the ladder; None is "cannot be said".

    Attributes:
        name: The rung, or `LADDER`.
        launches: Launches that were used.
        pairs: Pairs that were used, over all launches.
        ratio: The estimate; 1 is equal speed.
        low: Lower end of the 95 % interval of the ratio.
        high: Its upper end.
        test_low: Lower end of the 90 % interval, the one the two one-sided tests look at.
        test_high: Its upper end.
        p_below: p-value against "the ratio is 1 − margin or less".
        p_above: p-value against "the ratio is 1 + margin or more".
        smallest_margin: The margin from which on the arms are equivalent.
        sd_between: SD of the log ratio between launches, pair noise taken out.
        sd_within: SD of the log ratio between the pairs of a launch.
        method: How the intervals were made.
        decision: Against the margin.
        excludes_one: Whether the 95 % interval excludes equal speed, inside the margin or not.
        noninferior: Whether the candidate is worse by less than the margin, at 5 %.
        caveat: What the numbers do not cover, or why they are missing.
    """

    name: str
    launches: int
    pairs: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    test_low: float | None = None
    test_high: float | None = None
    p_below: float | None = None
    p_above: float | None = None
    smallest_margin: float | None = None
    sd_between: float | None = None
    sd_within: float | None = None
    method: Method | None = None
    decision: Decision = Decision.INCONCLUSIVE
    excludes_one: bool | None = None
    noninferior: bool | None = None
    caveat: str | None = None


@dataclass(frozen=True)
class Comparison:
    """The effect of every rung, in the order of the ladder, and their mean."""

    rungs: tuple[Effect, ...]
    ladder: Effect

    def frame(self) -> pd.DataFrame:
        """One row per rung and, last, the ladder's mean; what cannot be said is NaN or None."""
        frame = pd.DataFrame([asdict(effect) for effect in (*self.rungs, self.ladder)])
        numbers = frame.loc[:, "ratio":"sd_within"].columns
        return frame.astype(dict.fromkeys(numbers, float))


def compare(
    observations: pd.DataFrame,
    *,
    margin: float,
    higher_is_better: bool = True,
    baseline: str = "native",
    candidate: str = "transformers",
    planned_launches: int | None = None,
) -> Comparison:
    """Estimate candidate / baseline on every rung and over the ladder, and test it.

    Args:
        observations: One row per pair with the columns rung, launch, pair and the two arms, all
            values of one metric, positive and finite.
        margin: Half-width of the region of equivalence on the ratio: 0.03 is [0.97, 1.03], the
            plain reading of "inside 3 %". On the log scale it is not quite symmetric.
        higher_is_better: True for a throughput, False for a latency.
        baseline: Column of the denominator.
        candidate: Column of the numerator.
        planned_launches: Launches fixed before the first look at the width, when a stopping rule
            may have added more (see `critical_df`). None for a fixed design.

    Raises:
        DataError: When the observations are not what they must be.
        ValueError: When the margin is not between 0 and 1.
    """
    if not 0 < margin < 1:
        raise ValueError(f"margin must lie between 0 and 1, got {margin}")
    logs = log_ratios(observations, baseline=baseline, candidate=candidate)
    table = replicates(logs)
    one_launch = logs["launch"].nunique() == 1

    def judge(name: str, values: Floats, rows: pd.DataFrame) -> Effect:
        return _judge(
            Effect(name, rows["launch"].nunique(), len(rows)),
            values,
            method_for(len(values), one_launch=one_launch),
            planned_launches=planned_launches,
            margin=margin,
            higher_is_better=higher_is_better,
        )

    rungs = []
    for rung in table.columns:
        rows = logs[logs["rung"] == rung]
        between, within = variance_components(rows)
        effect = judge(str(rung), table[rung].dropna().to_numpy(), rows)
        rungs.append(replace(effect, sd_between=between, sd_within=within))
    complete = table.dropna()
    used = logs if one_launch else logs[logs["launch"].isin(complete.index)]
    method = method_for(len(complete), one_launch=one_launch)
    return Comparison(tuple(rungs), judge(LADDER, ladder_values(complete, method), used))


def _judge(
    effect: Effect,
    values: Floats,
    method: Method,
    *,
    planned_launches: int | None,
    margin: float,
    higher_is_better: bool,
) -> Effect:
    if not len(values):
        return replace(effect, caveat="No launch has every rung, so there is no mean over them.")
    effect = replace(effect, ratio=float(np.exp(centre(values, method))))
    if (reason := _no_interval(values, method)) is not None:
        return replace(effect, caveat=reason)

    df, test_df = critical_df(len(values), planned_launches if method is Method.LAUNCHES else None)
    low, high = np.exp(interval(values, method, df, CONFIDENCE)).tolist()
    test_low, test_high = np.exp(interval(values, method, test_df, 1 - 2 * ALPHA)).tolist()
    above_floor, below_ceiling = test_low > 1 - margin, test_high < 1 + margin
    if above_floor and below_ceiling:
        decision = Decision.EQUIVALENT
    elif high < 1 - margin or low > 1 + margin:
        decision = Decision.DIFFERENT
    else:
        decision = Decision.INCONCLUSIVE
    return replace(
        effect,
        low=low,
        high=high,
        test_low=test_low,
        test_high=test_high,
        p_below=p_value(values, method, test_df, np.log(1 - margin), "greater"),
        p_above=p_value(values, method, test_df, np.log(1 + margin), "less"),
        smallest_margin=max(1 - test_low, test_high - 1),
        method=method,
        decision=decision,
        excludes_one=not low <= 1 <= high,
        noninferior=above_floor if higher_is_better else below_ceiling,
        caveat=None if method is Method.LAUNCHES else _ONE_LAUNCH,
    )


def _no_interval(values: Floats, method: Method) -> str | None:
    unit = "launch" if method is Method.LAUNCHES else "pair"
    if len(values) < 2:
        return f"One {unit}: a single value has no interval."
    if np.ptp(values) < _SAME:
        return (
            f"Every {unit} gives the same ratio to the last digit: there is no noise to judge by."
        )
    return None


def log_ratios(observations: pd.DataFrame, *, baseline: str, candidate: str) -> pd.DataFrame:
    """Rung, launch, pair and y = log(candidate / baseline), checked.

    Raises:
        DataError: On a missing column, no row, a repeated pair or a value that is not positive.
    """
    keys = ["rung", "launch", "pair"]
    missing = [name for name in (*keys, baseline, candidate) if name not in observations]
    if missing:
        raise DataError(f"paired observations lack the column(s) {', '.join(missing)}")
    if observations.empty:
        raise DataError("there is no paired observation to compare")
    repeated = observations[observations.duplicated(keys)]
    if not repeated.empty:
        raise DataError(f"a pair occurs twice: {repeated.iloc[0][keys].to_dict()}")
    values = observations[[baseline, candidate]].apply(pd.to_numeric, errors="coerce")
    good = (np.isfinite(values) & (values > 0)).all(axis=1)
    if not good.all():
        raise DataError(
            "a paired value is not a positive number: "
            f"{observations[~good].iloc[0][[*keys, baseline, candidate]].to_dict()}"
        )
    y = np.log(values[candidate].astype(float) / values[baseline].astype(float))
    return observations[keys].assign(y=y).reset_index(drop=True)


def replicates(logs: pd.DataFrame) -> pd.DataFrame:
    """What the interval is taken over: one row per launch, one column per rung.

    The value of a launch is the median of its pairs. With a single launch the rows are its pairs,
    numbered anew within each rung. Rungs keep the order of their first appearance.
    """
    order = list(dict.fromkeys(logs["rung"]))
    if logs["launch"].nunique() > 1:
        table = logs.pivot_table(index="launch", columns="rung", values="y", aggfunc="median")
    else:
        number = logs.sort_values("pair").groupby("rung").cumcount()
        table = logs.assign(number=number).pivot_table(index="number", columns="rung", values="y")
    return table[order]


def variance_components(rows: pd.DataFrame) -> tuple[float | None, float | None]:
    """SD between launches and SD within launches of one rung's log ratio.

    One-way random effects by moments: s_w² pools the variances within launches; the variance of
    the launch means exceeds s_b² by s_w² · mean(1/m), m the pairs of a launch, and a negative
    difference counts as 0. Both are plain SDs, so disturbed pairs show in them. None where the
    design cannot separate them: one launch, or one pair in every launch.
    """
    launches = rows.groupby("launch")["y"].agg(["mean", "var", "count"])
    freedom = launches["count"] - 1
    if freedom.sum() == 0:
        return None, None
    within = float((launches["var"].fillna(0) * freedom).sum() / freedom.sum())
    if len(launches) < 2:
        return None, float(np.sqrt(within))
    excess = float(launches["mean"].var(ddof=1)) - within * float((1 / launches["count"]).mean())
    return float(np.sqrt(max(0.0, excess))), float(np.sqrt(within))


def ladder_values(table: pd.DataFrame, method: Method) -> Floats:
    """Per replicate, the log of the ladder's arithmetic mean, to first order.

    The mean is M = (1/R) Σ_r exp(θ_r), the article's mean of percentages. A replicate contributes
    Σ_r w_r y_r with w_r = exp(θ_r) / Σ exp(θ), the derivative of log M; rungs of one launch that
    move together thus stay together. The values are centred on log M itself. Taking
    mean_r exp(y_r) in each replicate instead would be too high by half the variance of y.
    """
    if table.empty:
        return np.array([])
    y = table.to_numpy()
    ratios = np.exp([centre(column, method) for column in y.T])
    combined: Floats = y @ (ratios / ratios.sum())
    return combined + float(np.log(ratios.mean()) - centre(combined, method))
