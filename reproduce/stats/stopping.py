"""When to stop measuring: a rule that sees the width of the intervals and nothing else.

Repeats come first, because a slice costs seconds and a launch minutes; then launches. The rule
never reads an estimate, so it cannot stop at a welcome verdict. Looking at the width has a price
of its own, which `reproduce.stats.intervals.critical_df` pays: the rule measures the width with the
same critical value as the final interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from reproduce.errors import ConfigError
from reproduce.stats.equivalence import log_ratios, variance_components
from reproduce.stats.intervals import CONFIDENCE, Floats, critical_df, t_interval


@dataclass(frozen=True)
class Precision:
    """What the measurement must reach, and how much it may cost.

    Attributes:
        width: Full width of the 95 % interval of the log ratio. Near equal speed that is the
            width of the ratio: 0.04 is four percentage points.
        min_launches: Launches before the first look; coverage was simulated for 5.
        max_launches: Launches after which it ends, narrow or not.
        min_repeats: Pairs per rung in every launch.
        max_repeats: Pairs per rung and launch at most.
    """

    width: float
    min_launches: int = 5
    max_launches: int = 10
    min_repeats: int = 3
    max_repeats: int = 9

    def __post_init__(self) -> None:
        if not self.width > 0:
            raise ConfigError(f"precision: width must be positive, got {self.width}")
        for kind in ("launches", "repeats"):
            low, high = getattr(self, f"min_{kind}"), getattr(self, f"max_{kind}")
            if not 1 <= low <= high:
                raise ConfigError(f"precision: 1 <= min_{kind} <= max_{kind}, got {low} and {high}")


class Action(StrEnum):
    """What to do next."""

    REPEAT = "repeat"
    LAUNCH = "launch"
    STOP = "stop"


@dataclass(frozen=True)
class Step:
    """The next step and why.

    Attributes:
        action: What to do.
        rungs: On REPEAT the rungs to measure again; otherwise those whose interval is still too
            wide. A launch measures the whole ladder, so that every launch has a ladder mean.
        reason: For the log.
    """

    action: Action
    rungs: tuple[str, ...]
    reason: str


def next_step(
    observations: pd.DataFrame,
    rungs: Sequence[str],
    precision: Precision,
    *,
    launch: int,
    running: bool,
    baseline: str = "native",
    candidate: str = "transformers",
) -> Step:
    """Decide after a round of measurements.

    Args:
        observations: Paired observations so far, as `compare` takes them, undisturbed ones only.
        rungs: The rungs of the ladder; one without observations is too wide.
        precision: Target and limits.
        launch: The latest launch, which need not have an undisturbed pair yet.
        running: Whether that launch can still take repeats. False once its time is spent.
        baseline: Column of the denominator.
        candidate: Column of the numerator.
    """
    if observations.empty:
        logs = pd.DataFrame({"rung": [], "launch": [], "pair": [], "y": []})
    else:
        logs = log_ratios(observations, baseline=baseline, candidate=candidate)
    short = tuple(rung for rung in rungs if _needs_repeat(logs, launch, rung, precision))
    if running and short:
        return Step(Action.REPEAT, short, "the noise between repeats exceeds the target")
    launches = len({*logs["launch"], launch})
    if launches < precision.min_launches:
        return Step(Action.LAUNCH, tuple(rungs), f"{precision.min_launches} launches are planned")
    wide = tuple(rung for rung in rungs if _width(logs, rung, precision) > precision.width)
    if not wide:
        return Step(Action.STOP, (), "every interval is as narrow as asked")
    if launches >= precision.max_launches:
        return Step(Action.STOP, wide, f"the limit of {precision.max_launches} launches is reached")
    return Step(Action.LAUNCH, wide, "the interval is wider than asked")


def interval_width(values: ArrayLike, precision: Precision) -> Floats:
    """Full width of the 95 % interval over launch values (last axis), infinite below two."""
    sample = np.asarray(values, dtype=float)
    launches = sample.shape[-1]
    if launches < 2:
        return np.full(sample.shape[:-1], np.inf)
    df, _ = critical_df(launches, precision.min_launches)
    low, high = t_interval(sample, df)
    return high - low


def repeats_needed(sd_within: ArrayLike, precision: Precision) -> NDArray[np.int64]:
    """Pairs per launch with which pair noise alone leaves the planned launches narrow enough.

    Without launch-to-launch noise a launch value has the SD s_w/√m, and n launches give the width
    2 t(n − 1) s_w / √(m n). Solved for m, between the limits.
    """
    n = max(precision.min_launches, 2)
    t = stdtrit(n - 1, (1 + CONFIDENCE) / 2)
    wanted = np.ceil((2 * t * np.asarray(sd_within) / precision.width) ** 2 / n)
    return np.asarray(np.clip(wanted, precision.min_repeats, precision.max_repeats), dtype=np.int64)


def _width(logs: pd.DataFrame, rung: str, precision: Precision) -> float:
    rows = logs[logs["rung"] == rung]
    return float(interval_width(rows.groupby("launch")["y"].median().to_numpy(), precision))


def _needs_repeat(logs: pd.DataFrame, launch: int, rung: str, precision: Precision) -> bool:
    rows = logs[logs["rung"] == rung]
    done = int((rows["launch"] == launch).sum())
    if done < precision.min_repeats:
        return True
    _, within = variance_components(rows)
    return within is not None and done < int(repeats_needed(within, precision))
