"""Measurements → the ladder's tables. Frames in, frames out; nothing is read or saved.

A *measurements* frame has one row per attempt and these columns: arm, launch, start, rung, repeat,
order, valid, disturbed, reasons, source (raw file), the probe's times around the slice
(:data:`~reproduce.metrics.PROBE_COLUMNS`, NaN without a probe), one column per metric of
:data:`~reproduce.metrics.METRICS`, and per metric the half-width of its rounding
(``<metric>_half``; 0 for a value that was not rounded, NaN where there is none).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from reproduce.metrics import METRICS
from reproduce.plan import ladder
from reproduce.profile import Profile, Rung
from reproduce.stats.equivalence import Comparison, Effect, compare


def workload(rung: Rung) -> str:
    """A rung in words: ``concurrency 8, 128 in / 256 out``."""
    level = "unbounded" if rung.concurrency is None else f"concurrency {rung.concurrency}"
    return f"{level}, {rung.input_tokens:,} in / {rung.output_tokens:,} out"


def pairs(measurements: pd.DataFrame, profile: Profile, metric: str) -> pd.DataFrame:
    """One row per valid pair: rung, launch, pair, and one column per arm.

    A pair is the same repeat of the same rung in the same launch, measured on both arms. Rungs
    keep the profile's order; repeats that only one arm has are left out.
    """
    arms = [profile.baseline, profile.candidate]
    valid = measurements[measurements["valid"] & measurements["arm"].isin(arms)]
    wide = (
        valid.dropna(subset=[metric])
        .pivot_table(index=["rung", "launch", "repeat"], columns="arm", values=metric)
        .reindex(columns=arms)
        .dropna()
        .reset_index()
        .rename(columns={"repeat": "pair"})
    )
    wide.columns.name = None
    order = {rung.name: index for index, rung in enumerate(profile.ladder)}
    return wide.sort_values(
        ["rung", "launch", "pair"], key=lambda c: c.map(order) if c.name == "rung" else c
    ).reset_index(drop=True)


def comparison(measurements: pd.DataFrame, profile: Profile, metric: str) -> Comparison | None:
    """Candidate over baseline for one metric; None when no pair has it."""
    observations = pairs(measurements, profile, metric)
    if observations.empty:
        return None
    return compare(
        observations,
        margin=profile.margin,
        higher_is_better=METRICS[metric].higher_is_better,
        baseline=profile.baseline,
        candidate=profile.candidate,
        planned_launches=ladder.planned_launches(profile),
    )


def further_arms(profile: Profile) -> tuple[str, ...]:
    """Arms beyond the two that the verdict is about, such as an ablation."""
    return tuple(arm for arm in profile.arms if arm not in (profile.baseline, profile.candidate))


def against(profile: Profile, arm: str, baseline: str | None = None) -> Profile:
    """The profile with ``arm`` as its candidate: any table here then compares that arm.

    Args:
        profile: the run's profile.
        arm: the arm to compare.
        baseline: what ratios divide by; None keeps the profile's own.
    """
    return profile.model_copy(update={"candidate": arm, "baseline": baseline or profile.baseline})


def arm_comparison(
    measurements: pd.DataFrame, profile: Profile, arm: str, metric: str
) -> Comparison | None:
    """Any arm over the baseline for one metric; None when no pair has it."""
    return comparison(measurements, against(profile, arm), metric)


def launches_per_arm(measurements: pd.DataFrame) -> int:
    """Launches that gave an arm valid repeats; of the arm with the fewest."""
    valid = measurements[measurements["valid"]]
    return int(valid.groupby("arm")["launch"].nunique().min())


def attempts_table(measurements: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """What became of every slice, one row per rung and, last, their sum.

    Columns: rung, measured, counted, disturbed (marked by the probe), failed (invalid for another
    reason of their own), with_partner (fine themselves, measured again with the rest of their
    round), and per arm <arm>_disturbed: the rule does not look at the arm, chance decides.
    """
    frame = measurements.assign(
        with_partner=measurements["reasons"].str.startswith(ladder.WITH_PARTNER)
    )
    rows = []
    for name, here in [*((r.name, frame[frame["rung"] == r.name]) for r in profile.ladder),
                       ("all", frame)]:  # fmt: skip
        disturbed = here["disturbed"]
        rows.append(
            {
                "rung": name,
                "measured": len(here),
                "counted": int(here["valid"].sum()),
                "disturbed": int(disturbed.sum()),
                "failed": int((~here["valid"] & ~disturbed & ~here["with_partner"]).sum()),
                "with_partner": int(here["with_partner"].sum()),
                **{
                    f"{arm}_disturbed": int((disturbed & (here["arm"] == arm)).sum())
                    for arm in profile.arms
                },
            }
        )
    return pd.DataFrame(rows)


def ladder_table(measurements: pd.DataFrame, profile: Profile, metric: str) -> pd.DataFrame:
    """One row per rung of the profile, and the mean of the ratios last.

    Columns: rung, workload, <baseline>, <candidate> (medians over valid repeats), percent
    (candidate in percent of baseline), low, high (95 % interval of percent), least, most
    (extremes over single pairs), rounded_low, rounded_high (what the printed digits leave open),
    pairs, launches, invalid. What is not known is NaN.
    """
    result = comparison(measurements, profile, metric)
    effects = {e.name: e for e in result.rungs} if result else {}
    single = pairs(measurements, profile, metric)
    ratio = 100 * single[profile.candidate] / single[profile.baseline]
    rows = [
        {
            "rung": rung.name,
            "workload": workload(rung),
            **_medians(measurements, profile, rung.name, metric),
            **_percent(effects.get(rung.name)),
            "least": ratio[single["rung"] == rung.name].min(),
            "most": ratio[single["rung"] == rung.name].max(),
            **_rounding(measurements, profile, rung.name, metric),
            "invalid": _invalid(measurements, rung.name),
        }
        for rung in profile.ladder
    ]
    rows.append({"rung": "mean", "workload": "mean of the ratios", **_mean(result, rows)})
    return pd.DataFrame(rows)


def _medians(
    measurements: pd.DataFrame, profile: Profile, rung: str, metric: str
) -> dict[str, float]:
    here = measurements[measurements["valid"] & (measurements["rung"] == rung)]
    return {
        arm: float(here.loc[here["arm"] == arm, metric].median())
        for arm in (profile.baseline, profile.candidate)
    }


def _percent(effect: Effect | None) -> dict[str, float]:
    nan = float("nan")
    if effect is None or effect.ratio is None:
        return {"percent": nan, "low": nan, "high": nan, "pairs": 0, "launches": 0}
    return {
        "percent": 100 * effect.ratio,
        "low": nan if effect.low is None else 100 * effect.low,
        "high": nan if effect.high is None else 100 * effect.high,
        "pairs": effect.pairs,
        "launches": effect.launches,
    }


def _rounding(
    measurements: pd.DataFrame, profile: Profile, rung: str, metric: str
) -> dict[str, float]:
    """Least and greatest percentage that the printed digits allow; NaN when none is rounded."""
    here = measurements[measurements["valid"] & (measurements["rung"] == rung)]
    ends: dict[str, tuple[float, float]] = {}
    for arm in (profile.baseline, profile.candidate):
        rows = here[here["arm"] == arm].dropna(subset=[metric])
        if rows.empty or not (rows[f"{metric}_half"] > 0).any():
            continue
        value, half = rows[metric].median(), rows[f"{metric}_half"].max()
        ends[arm] = (value - half, value + half)
    if len(ends) < 2:
        return {"rounded_low": float("nan"), "rounded_high": float("nan")}
    base, tried = ends[profile.baseline], ends[profile.candidate]
    return {"rounded_low": 100 * tried[0] / base[1], "rounded_high": 100 * tried[1] / base[0]}


def _invalid(measurements: pd.DataFrame, rung: str) -> int:
    return int((~measurements["valid"] & (measurements["rung"] == rung)).sum())


def _mean(result: Comparison | None, rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """The ladder's mean; only when every rung has a ratio."""
    percents = np.array([row["percent"] for row in rows], dtype=float)
    if result is None or np.isnan(percents).any():
        return {"percent": float("nan"), "invalid": sum(int(str(r["invalid"])) for r in rows)}
    return {
        **_percent(result.ladder),
        "least": percents.min(),
        "most": percents.max(),
        "invalid": sum(int(str(row["invalid"])) for row in rows),
    }


def article_table(measurements: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """The article's table: total throughput of both arms, % of native, TPOT of both; mean last.

    Columns: workload, <baseline>_total_tok_s, <candidate>_total_tok_s, percent,
    <baseline>_tpot_ms, <candidate>_tpot_ms, tpot_percent.
    """
    speed = ladder_table(measurements, profile, "total_tok_s")
    decode = ladder_table(measurements, profile, "tpot_ms")
    table = pd.DataFrame({"rung": speed["rung"], "workload": speed["workload"]})
    for arm in (profile.baseline, profile.candidate):
        table[f"{arm}_total_tok_s"] = speed[arm]
    table["percent"] = speed["percent"]
    for arm in (profile.baseline, profile.candidate):
        table[f"{arm}_tpot_ms"] = decode[arm]
    table["tpot_percent"] = decode["percent"]
    named = profile.mean_tpot_over or tuple(rung.name for rung in profile.ladder)
    chosen = decode.loc[decode["rung"].isin(named), "percent"]
    table.loc[table["rung"] == "mean", "tpot_percent"] = chosen.mean(skipna=False)
    return table
