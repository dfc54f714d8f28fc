"""Simulate paired measurements on a noisy machine; ask every interval how often it is right.

    python benchmarks/simulate_intervals.py [--simulations 40000]

prints the tables of docs/statistics.md. The noise is as measured on two shared cores: a clean
pair has an SD of 0.03, and episodes of about 30 s slow whatever runs by a factor of 1.5 to 3.
Every true log ratio is 0; another truth is a shift of the values.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from reproduce.stats.intervals import (
    ALPHA,
    CONFIDENCE,
    Floats,
    critical_df,
    rank_interval,
    t_interval,
)
from reproduce.stats.stopping import Precision, interval_width, repeats_needed

SLICE_SECONDS = 6
EPISODE_SECONDS = 30


@dataclass(frozen=True)
class Machine:
    """How noisy the machine is, and how well the probe sees it.

    Attributes:
        between: SD of the log ratio between launches.
        within: SD of the log ratio of a clean pair.
        gap: Mean seconds between two episodes; None for no episodes, plain Gaussian noise.
        sensitivity: Chance that one probe before or after a slice sees a running episode.
        false_alarm: Chance that a slice on a quiet machine is marked.
    """

    between: float = 0.015
    within: float = 0.03
    gap: float | None = None
    sensitivity: float = 0.0
    false_alarm: float = 0.0

    def pairs(
        self, rng: np.random.Generator, simulations: int, launches: int, pairs: int
    ) -> Floats:
        """Log ratios, simulations × launches × pairs; marked pairs are repeated.

        Simulations in which a launch ran out of slices are left out, so fewer may come back.
        """
        shape = (simulations, launches, pairs)
        level = self.between * rng.standard_normal((simulations, launches, 1))
        if self.gap is None:
            return level + self.within * rng.standard_normal(shape)
        measured, marked = self._episodes(rng, self.gap, (simulations, launches), 2 * pairs + 10)
        order = np.argsort(marked, axis=-1, kind="stable")[..., :pairs]
        clean = ~np.take_along_axis(marked, order, axis=-1).any(axis=(1, 2))
        return (level + np.take_along_axis(measured, order, axis=-1))[clean]

    def _episodes(
        self, rng: np.random.Generator, gap: float, servers: tuple[int, int], pairs: int
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Log ratio and mark of each pair of slices that alternate ABBA, second by second."""
        slowdown = np.zeros((*servers, 2 * pairs))
        marked = rng.random(slowdown.shape) < self.false_alarm
        episode = rng.random(servers) < EPISODE_SECONDS / (EPISODE_SECONDS + gap)
        factor = rng.uniform(1.5, 3, servers)
        for index in range(2 * pairs):
            marked[..., index] |= episode & (rng.random(servers) < self.sensitivity)
            for _ in range(SLICE_SECONDS):
                slowdown[..., index] += np.where(episode, factor, 1) / SLICE_SECONDS
                starts = ~episode & (rng.random(servers) < 1 / gap)
                ends = episode & (rng.random(servers) < 1 / EPISODE_SECONDS)
                factor = np.where(starts, rng.uniform(1.5, 3, servers), factor)
                episode = (episode | starts) & ~ends
            marked[..., index] |= episode & (rng.random(servers) < self.sensitivity)
        noise = self.within / np.sqrt(2) * rng.standard_normal(slowdown.shape)
        speed = noise - np.log(slowdown)
        sign = np.where(np.arange(pairs) % 2, 1, -1) * rng.choice([-1, 1], (*servers, 1))
        return sign * (speed[..., 1::2] - speed[..., ::2]), marked[..., ::2] | marked[..., 1::2]


MACHINES = {
    "Gaussian": Machine(),
    "episodes, probe sees 90 %": Machine(gap=120, sensitivity=0.9, false_alarm=0.03),
    "episodes, probe sees 70 %": Machine(gap=120, sensitivity=0.7, false_alarm=0.03),
    "episodes, probe sees 50 %": Machine(gap=120, sensitivity=0.5, false_alarm=0.03),
    "episodes, no probe": Machine(gap=120),
}


def covered(values: Floats, df: int) -> float:
    """Share of the 95 % t intervals over launch values that contain the truth."""
    low, high = t_interval(values, df)
    return float(np.mean((low <= 0) & (high >= 0)))


def falsely_equivalent(values: Floats, df: int, margin: float) -> float:
    """Share called equivalent when the true ratio is exactly 1 − margin."""
    edge = np.log(1 - margin)
    low, high = t_interval(values + edge, df, 1 - 2 * ALPHA)
    return float(np.mean((low > edge) & (high < np.log(1 + margin))))


@dataclass(frozen=True)
class Stopped:
    """What the stopping rule left: launch values, and how many of them each simulation used."""

    values: Floats
    launches: NDArray[np.int64]
    repeats: float

    def rate(self, planned: int | None, share: Callable[[Floats, int, int], float]) -> float:
        """Mean of `share(values, df, test_df)` over the simulations, by number of launches."""
        total = 0.0
        for count in np.unique(self.launches):
            rows = self.values[self.launches == count, :count]
            total += len(rows) * share(rows, *critical_df(int(count), planned))
        return total / len(self.values)

    def coverage(self, planned: int | None) -> float:
        """Share of intervals with the truth inside; `planned` None is the plain t interval."""
        return self.rate(planned, lambda values, df, _: covered(values, df))

    def false_equivalence(self, planned: int | None, margin: float) -> float:
        """Share called equivalent at the edge of the margin."""
        return self.rate(planned, lambda values, _, df: falsely_equivalent(values, df, margin))


def stop(pairs: Floats, precision: Precision) -> Stopped:
    """Apply the rule of `reproduce.stats.stopping.next_step` to many simulations at once."""
    simulations, most, _ = pairs.shape
    values = np.zeros((simulations, most))
    used = np.full(simulations, most)
    repeats = np.zeros((simulations, most))
    squares, freedom = np.zeros(simulations), np.zeros(simulations)
    for launch in range(most):
        undecided = np.ones(simulations, dtype=bool)
        for done in range(precision.min_repeats, precision.max_repeats + 1):
            taken = pairs[:, launch, :done]
            here = taken.var(axis=-1) * done
            within = np.sqrt((squares + here) / (freedom + done - 1))
            enough = undecided & (done >= repeats_needed(within, precision))
            values[enough, launch] = np.median(taken[enough], axis=-1)
            repeats[enough, launch] = done
            squares[enough] += here[enough]
            freedom[enough] += done - 1
            undecided &= ~enough
        count = launch + 1
        if count >= precision.min_launches:
            narrow = interval_width(values[:, :count], precision) <= precision.width
            used = np.where(narrow, np.minimum(used, count), used)
    measured = np.arange(most) < used[:, None]
    return Stopped(values, used, float(repeats[measured].mean()))


def trimmed_interval(values: Floats) -> tuple[Floats, Floats]:
    """Yuen's t interval around the mean without the smallest and the largest value."""
    ordered = np.sort(values, axis=-1)
    count = ordered.shape[-1]
    kept = count - 2
    middle = ordered[..., 1:-1].mean(axis=-1)
    ordered[..., 0], ordered[..., -1] = ordered[..., 1], ordered[..., -2]
    error = ordered.std(axis=-1, ddof=1) * np.sqrt((count - 1) / (kept * (kept - 1)))
    half = stats.t.ppf((1 + CONFIDENCE) / 2, kept - 1) * error
    return middle - half, middle + half


def stein_coverage(values: Floats, precision: Precision) -> float:
    """Stein's two stages: the SD of the planned launches fixes how many there will be."""
    planned, most = precision.min_launches, precision.max_launches
    first = values[:, :planned].std(axis=-1, ddof=1)
    factor = stats.t.ppf((1 + CONFIDENCE) / 2, planned - 1)
    needed = np.ceil((2 * factor * first / precision.width) ** 2)
    count = np.clip(needed, planned, most).astype(int)
    means = values.cumsum(axis=-1)[np.arange(len(values)), count - 1] / count
    return float(np.mean(np.abs(means) <= factor * first / np.sqrt(count)))


def _methods(rng: np.random.Generator, simulations: int) -> None:
    print("\n## 5 launches of 3 pairs: coverage (median width of the interval)\n")
    print("| machine | SD of a pair | t, medians | t, means | ranks, 93.75 % | trimmed t |")
    print("|---|---|---|---|---|---|")
    for name, machine in MACHINES.items():
        pairs = machine.pairs(rng, simulations, 5, 3)
        medians, means = np.median(pairs, axis=-1), pairs.mean(axis=-1)
        intervals = (
            t_interval(medians, 4),
            t_interval(means, 4),
            (medians.min(axis=-1), medians.max(axis=-1)),
            trimmed_interval(medians),
        )
        cells = [f"{_share(*ends)} ({np.median(ends[1] - ends[0]):.3f})" for ends in intervals]
        print("|", name, "|", f"{pairs.std():.2f}", "|", " | ".join(cells), "|")


def _share(low: Floats, high: Floats) -> str:
    return f"{np.mean((low <= 0) & (high >= 0)):.3f}"


def _bootstrap(rng: np.random.Generator, simulations: int) -> None:
    values = np.median(MACHINES["Gaussian"].pairs(rng, simulations, 5, 3), axis=-1)
    result = stats.bootstrap(
        (values,), np.mean, axis=-1, n_resamples=999, batch=50, method="percentile", rng=rng
    )
    low, high = result.confidence_interval
    print(f"\nPercentile bootstrap, Gaussian: {_share(low, high)}")


def _one_launch(rng: np.random.Generator, simulations: int) -> None:
    print("\n## One launch: coverage of that launch's own ratio (median width)\n")
    print("| pairs | machine | t | signed rank |")
    print("|---|---|---|---|")
    for count in (3, 6, 8, 12):
        for name in ("Gaussian", "episodes, probe sees 70 %", "episodes, no probe"):
            machine = Machine(**{**vars(MACHINES[name]), "between": 0.0})
            pairs = machine.pairs(rng, simulations, 1, count)[:, 0]
            low, high = t_interval(pairs, count - 1)
            cells = [f"{covered(pairs, count - 1):.3f} ({np.median(high - low):.3f})", "none"]
            if count >= 6:
                low, high = np.array([rank_interval(row) for row in pairs]).T
                cells[1] = f"{_share(low, high)} ({np.median(high - low):.3f})"
            print("|", count, "|", name, "|", " | ".join(cells), "|")


def _verdicts(rng: np.random.Generator, simulations: int) -> None:
    print("\n## Share of verdicts at a margin of 3 %, 3 pairs per launch\n")
    print("| SD between launches | launches | equal arms: equivalent | 20 % slower: different |")
    print("|---|---|---|---|")
    floor, ceiling = np.log([0.97, 1.03])
    for between in (0.005, 0.015, 0.03):
        machine = Machine(between=between, gap=120, sensitivity=0.7, false_alarm=0.03)
        for launches in (2, 3, 5, 10):
            values = np.median(machine.pairs(rng, simulations, launches, 3), axis=-1)
            low, high = t_interval(values, launches - 1, 1 - 2 * ALPHA)
            equivalent = np.mean((low > floor) & (high < ceiling))
            _, high = t_interval(values + np.log(0.8), launches - 1)
            cells = f"{launches} | {equivalent:.2f} | {np.mean(high < floor):.2f}"
            print("|", between, "|", cells, "|")


def _stopping(rng: np.random.Generator, simulations: int) -> None:
    print("\n## With the stopping rule: 5 to 10 launches of 3 to 9 pairs\n")
    print(
        "| machine | width asked | launches | pairs | coverage | plain t | Stein | same, 3 pairs | "
        "false eq. | plain t |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in ("Gaussian", "episodes, probe sees 70 %", "episodes, no probe"):
        pairs = MACHINES[name].pairs(rng, simulations, 10, 9)
        for width in (0.01, 0.02, 0.03, 0.04, 0.05, 0.07):
            precision = Precision(width)
            run = stop(pairs, precision)
            planned = precision.min_launches
            cells = [f"{run.launches.mean():.1f}", f"{run.repeats:.1f}"]
            cells += [f"{run.coverage(plan):.3f}" for plan in (planned, None)]
            fixed = np.median(pairs[..., : precision.min_repeats], axis=-1)
            cells += [f"{stein_coverage(values, precision):.3f}" for values in (run.values, fixed)]
            cells += [f"{run.false_equivalence(plan, 0.2):.3f}" for plan in (planned, None)]
            print("|", name, "|", width, "|", " | ".join(cells), "|")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=40_000)
    count = parser.parse_args().simulations
    generator = np.random.default_rng(20260804)
    _methods(generator, count)
    _bootstrap(generator, count // 10)
    _one_launch(generator, count // 4)
    _stopping(generator, count)
    _verdicts(generator, count)
