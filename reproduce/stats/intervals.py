"""Intervals for the centre of a few replicates, and the tests that belong to them.

Two methods: t, and the exact signed-rank (Hodges and Lehmann 1963). docs/statistics.md compares
them with others on simulated noise and gives their coverage. The distributions come from
scipy.special: every notebook imports this module, and scipy.stats alone takes most of a second.
"""

from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

CONFIDENCE = 0.95
"""Of the two-sided interval."""
ALPHA = 0.05
"""Of each one-sided test. Two of them at 5 % are equivalent to an interval of 90 %."""

Floats = NDArray[np.float64]


class Method(StrEnum):
    """How an interval was made."""

    LAUNCHES = "t interval over launches"
    PAIRS = "t interval over the pairs of one launch"
    RANKS = "signed-rank interval over the pairs of one launch"


RANK_PAIRS = 8
"""From so many pairs on, the signed-rank interval is about as narrow as t, and far narrower
when some pairs are disturbed."""


def method_for(replicates: int, *, one_launch: bool) -> Method:
    """The method for so many replicates, which are launches or the pairs of one launch."""
    if not one_launch:
        return Method.LAUNCHES
    return Method.RANKS if replicates >= RANK_PAIRS else Method.PAIRS


def critical_df(launches: int, planned: int | None) -> tuple[int, int]:
    """Degrees of freedom for the 95 % interval and for the one-sided tests.

    Stopping once the interval is narrow picks samples whose SD came out small, and t with n − 1
    degrees of freedom then covers less than it says. Launches added after the first look make
    the SD better but earn no smaller critical value: the interval keeps the degrees of freedom of
    the planned launches, and the tests give up one more. Both amounts were found by simulation.
    """
    if planned is None or launches <= planned:
        return launches - 1, launches - 1
    first_look = max(planned, 2)
    return first_look - 1, max(first_look - 2, 1)


def t_interval(values: ArrayLike, df: int, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """Mean ± t(df) · SD / √n over the last axis.

    Assumes independent replicates. For symmetric noise with heavier tails than the normal the
    coverage errs towards more.
    """
    sample = np.asarray(values, dtype=float)
    middle = np.asarray(sample.mean(axis=-1))
    half = np.asarray(stdtrit(df, (1 + confidence) / 2) * _standard_error(sample))
    return middle - half, middle + half


def _standard_error(sample: Floats) -> Floats:
    return np.asarray(sample.std(axis=-1, ddof=1) / np.sqrt(sample.shape[-1]))


def walsh_averages(values: ArrayLike) -> Floats:
    """Sorted means of all pairs of values, each value with itself included."""
    sample = np.asarray(values, dtype=float)
    first, second = np.triu_indices(len(sample))
    return np.sort(np.asarray((sample[first] + sample[second]) / 2))


def rank_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Interval for the centre of symmetry from the signed-rank test.

    The ends are the k-th smallest and k-th largest Walsh average, k the largest number with
    P(W ≤ k − 1) ≤ (1 − confidence) / 2 under the exact null distribution of the signed-rank
    statistic W (Hodges and Lehmann 1963). Five values reach 93.75 % at most, so a 95 % interval
    needs six.

    Raises:
        ValueError: When there are too few values for the confidence.
    """
    n = np.size(values)
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1
    for rank in range(1, n + 1):
        counts[rank:] += counts[:-rank].copy()
    k = int(np.searchsorted(counts.cumsum() / 2.0**n, (1 - confidence) / 2, side="right"))
    if k == 0:
        raise ValueError(f"{n} values have no signed-rank interval of {confidence:.0%}")
    averages = walsh_averages(values)
    return float(averages[k - 1]), float(averages[-k])


def centre(values: Floats, method: Method) -> float:
    """The estimate that belongs to the interval: the mean, or the Hodges–Lehmann median."""
    return float(np.median(walsh_averages(values)) if method is Method.RANKS else values.mean())


def interval(values: Floats, method: Method, df: int, confidence: float) -> tuple[float, float]:
    """Two-sided interval for the centre of at least two values that are not all equal."""
    if method is Method.RANKS:
        return rank_interval(values, confidence)
    low, high = t_interval(values, df, confidence)
    return float(low), float(high)


def p_value(values: Floats, method: Method, df: int, bound: float, alternative: str) -> float:
    """One-sided p-value of "the centre is the bound" against "greater" or "less"."""
    if method is Method.RANKS:
        from scipy.stats import wilcoxon  # noqa: PLC0415  rarely needed

        return float(wilcoxon(values - bound, alternative=alternative).pvalue)
    t = (values.mean() - bound) / _standard_error(values)
    return float(stdtr(df, -t if alternative == "greater" else t))
