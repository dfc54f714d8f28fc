"""The comparison of two arms: estimates, intervals, verdicts, and the rule that stops."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from reproduce.errors import ConfigError, DataError
from reproduce.stats.equivalence import (
    LADDER,
    Comparison,
    Decision,
    Effect,
    compare,
    variance_components,
)
from reproduce.stats.intervals import Method, critical_df, rank_interval, walsh_averages
from reproduce.stats.stopping import Action, Precision, interval_width, next_step

RUNGS = ("1", "8", "long")


def observations(logs, native=100.0, rungs=("1",)):
    """Frame from log ratios with the axes rung, launch, pair."""
    logs = np.asarray(logs, dtype=float)
    return pd.DataFrame(
        [
            {
                "rung": rungs[r],
                "launch": launch,
                "pair": p,
                "native": native,
                "transformers": native * np.exp(logs[r, launch, p]),
            }
            for r, launch, p in itertools.product(*map(range, logs.shape))
        ]
    )


def noisy(seed, *, truth=0.0, launches=5, pairs=3, rungs=("1",), between=0.004, within=0.01):
    rng = np.random.default_rng(seed)
    shape = (len(rungs), launches, pairs)
    level = truth + between * rng.standard_normal((*shape[:2], 1))
    return observations(level + within * rng.standard_normal(shape), rungs=rungs)


def only(comparison: Comparison) -> Effect:
    (effect,) = comparison.rungs
    return effect


# Estimate and interval over launches


def test_interval_is_t_over_the_medians_of_the_launches():
    frame = noisy(1)
    medians = np.log(frame.transformers / frame.native).groupby(frame.launch).median()
    expected = stats.ttest_1samp(medians, 0).confidence_interval(0.95)
    effect = only(compare(frame, margin=0.03))
    assert effect.method is Method.LAUNCHES
    assert (effect.launches, effect.pairs) == (5, 15)
    assert effect.ratio == pytest.approx(np.exp(medians.mean()))
    assert (effect.low, effect.high) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))
    assert effect.caveat is None


def test_one_wild_pair_in_a_launch_does_not_move_the_estimate():
    frame = noisy(2)
    before = only(compare(frame, margin=0.03))
    frame.loc[0, "transformers"] = frame.loc[:2, "transformers"].min() / 3
    after = only(compare(frame, margin=0.03))
    assert after.ratio == pytest.approx(before.ratio, abs=0.005)
    assert after.sd_within > 10 * before.sd_within


def test_one_sided_tests_agree_with_statsmodels():
    frame = noisy(3, truth=-0.01)
    medians = np.log(frame.transformers / frame.native).groupby(frame.launch).median()
    p, below, above = DescrStatsW(medians.to_numpy()).ttost_mean(np.log(0.97), np.log(1.03))
    effect = only(compare(frame, margin=0.03))
    assert effect.p_below == pytest.approx(below[1])
    assert effect.p_above == pytest.approx(above[1])
    assert max(effect.p_below, effect.p_above) == pytest.approx(p)


def test_the_columns_of_the_arms_can_have_other_names():
    frame = noisy(4).rename(columns={"native": "a", "transformers": "b"})
    forth = only(compare(frame, margin=0.03, baseline="a", candidate="b"))
    back = only(compare(frame, margin=0.03, baseline="b", candidate="a"))
    assert forth.ratio == pytest.approx(1 / back.ratio)
    assert forth.low == pytest.approx(1 / back.high)


# Variance components


def test_variance_components_recover_what_was_put_in():
    rng = np.random.default_rng(5)
    y = 0.04 * rng.standard_normal((400, 1)) + 0.02 * rng.standard_normal((400, 6))
    rows = pd.DataFrame({"launch": np.repeat(np.arange(400), 6), "y": y.ravel()})
    assert variance_components(rows) == pytest.approx((0.04, 0.02), rel=0.1)


def test_variance_components_are_missing_where_the_design_cannot_separate_them():
    one_pair_each = only(compare(noisy(6, pairs=1), margin=0.03))
    assert (one_pair_each.sd_between, one_pair_each.sd_within) == (None, None)
    one_launch = only(compare(noisy(6, launches=1, pairs=4), margin=0.03))
    assert one_launch.sd_between is None
    assert one_launch.sd_within > 0


# Verdicts


def test_equal_arms_with_little_noise_are_equivalent():
    effect = only(compare(noisy(7), margin=0.03))
    assert effect.decision is Decision.EQUIVALENT
    assert effect.noninferior


@pytest.mark.parametrize("seed", range(20))
def test_twenty_percent_slower_is_different_and_never_equivalent(seed):
    frame = noisy(seed, truth=np.log(0.8), rungs=RUNGS, between=0.01, within=0.03)
    comparison = compare(frame, margin=0.03)
    assert {e.decision for e in (*comparison.rungs, comparison.ladder)} == {Decision.DIFFERENT}
    assert not comparison.ladder.noninferior


def test_a_small_but_established_difference_is_still_equivalent():
    effect = only(compare(noisy(8, truth=-0.01, between=0.001, within=0.001), margin=0.03))
    assert effect.decision is Decision.EQUIVALENT
    assert effect.excludes_one


def test_wide_intervals_decide_nothing():
    effect = only(compare(noisy(9, between=0.1), margin=0.03))
    assert effect.decision is Decision.INCONCLUSIVE
    assert not effect.excludes_one


def test_smallest_margin_is_where_equivalence_begins():
    frame = noisy(10)
    smallest = only(compare(frame, margin=0.03)).smallest_margin
    assert only(compare(frame, margin=smallest * 1.001)).decision is Decision.EQUIVALENT
    assert only(compare(frame, margin=smallest * 0.999)).decision is Decision.INCONCLUSIVE


def test_noninferiority_looks_at_the_bad_side_only():
    faster = noisy(11, truth=np.log(1.2))
    slower = noisy(11, truth=np.log(0.8))
    assert only(compare(faster, margin=0.03)).noninferior
    assert not only(compare(slower, margin=0.03)).noninferior
    assert not only(compare(faster, margin=0.03, higher_is_better=False)).noninferior
    assert only(compare(slower, margin=0.03, higher_is_better=False)).noninferior


log_ratio = st.floats(-0.5, 0.5)


@settings(max_examples=150, deadline=None)
@given(
    logs=st.lists(st.lists(log_ratio, min_size=1, max_size=9), min_size=1, max_size=8),
    margin=st.floats(0.001, 0.5),
    planned=st.one_of(st.none(), st.integers(1, 6)),
)
def test_no_verdict_contradicts_its_numbers(logs, margin, planned):
    frame = pd.DataFrame(
        [
            {"rung": "r", "launch": i, "pair": j, "native": 1.0, "transformers": np.exp(y)}
            for i, launch in enumerate(logs)
            for j, y in enumerate(launch)
        ]
    )
    comparison = compare(frame, margin=margin, planned_launches=planned)
    for effect in (*comparison.rungs, comparison.ladder):
        assert effect.ratio > 0
        if effect.low is None:
            assert effect.caveat
            assert effect.decision is Decision.INCONCLUSIVE
            continue
        assert effect.low <= effect.ratio <= effect.high
        equivalent = effect.decision is Decision.EQUIVALENT
        p = max(effect.p_below, effect.p_above)
        if abs(p - 0.05) > 1e-6 and effect.method is not Method.RANKS:
            assert equivalent == (p < 0.05)
        outside = effect.high < 1 - margin or effect.low > 1 + margin
        assert (effect.decision is Decision.DIFFERENT) == (outside and not equivalent)
        assert not (outside and equivalent)


# One launch, or less


def test_one_launch_says_what_its_interval_does_not_cover():
    few = only(compare(noisy(12, launches=1, pairs=4), margin=0.03))
    assert few.method is Method.PAIRS
    many = only(compare(noisy(12, launches=1, pairs=12), margin=0.03))
    assert many.method is Method.RANKS
    for effect in (few, many):
        assert "not the variation from launch to launch" in effect.caveat
        assert effect.low < effect.ratio < effect.high


def test_a_single_pair_has_a_ratio_and_no_interval():
    comparison = compare(observations([[[-0.02]]]), margin=0.03)
    effect = only(comparison)
    assert effect.ratio == pytest.approx(np.exp(-0.02))
    assert effect.low is effect.high is effect.smallest_margin is effect.noninferior is None
    assert effect.decision is Decision.INCONCLUSIVE
    assert "no interval" in effect.caveat
    assert np.isnan(comparison.frame().loc[0, "low"])


def test_equal_replicates_are_no_evidence_of_no_noise():
    effect = only(compare(observations(np.zeros((1, 5, 3))), margin=0.03))
    assert effect.low is None
    assert effect.decision is Decision.INCONCLUSIVE
    assert "no noise" in effect.caveat


def test_rank_interval_inverts_the_signed_rank_test():
    values = np.random.default_rng(13).normal(0.01, 0.03, 12)
    low, high = rank_interval(values)
    for inside, outside in ((low + 1e-9, low - 1e-9), (high - 1e-9, high + 1e-9)):
        assert stats.wilcoxon(values - inside).pvalue > 0.05
        assert stats.wilcoxon(values - outside).pvalue <= 0.05
    assert low < np.median(walsh_averages(values)) < high


def test_five_values_have_no_signed_rank_interval_of_95_percent():
    values = np.arange(1.0, 7.0)
    with pytest.raises(ValueError, match="5 values"):
        rank_interval(values[:5])
    assert rank_interval(values) == (1.0, 6.0)
    assert rank_interval(values[:5], 0.9375) == (1.0, 5.0)


# The ladder's mean


def test_ladder_mean_is_the_arithmetic_mean_of_the_ratios():
    percentages = [0.980, 0.989, 0.998, 0.993, 1.028, 0.986]
    rungs = tuple("abcdef")
    frame = observations(np.log(percentages)[:, None, None], rungs=rungs)
    comparison = compare(frame, margin=0.03)
    assert comparison.ladder.ratio == pytest.approx(np.mean(percentages))
    assert comparison.ladder.name == LADDER
    assert comparison.ladder.low is None


def test_ladder_interval_keeps_rungs_of_one_launch_together():
    rng = np.random.default_rng(14)
    shared = 0.02 * rng.standard_normal((1, 6, 1))
    own = 0.001 * rng.standard_normal((3, 6, 3))
    together = compare(observations(shared + own, rungs=RUNGS), margin=0.03)
    width = together.ladder.high - together.ladder.low
    rung = together.rungs[0]
    assert width == pytest.approx(rung.high - rung.low, rel=0.1)
    apart = compare(noisy(14, launches=6, rungs=RUNGS, between=0.02, within=0.001), margin=0.03)
    assert apart.ladder.high - apart.ladder.low < 0.8 * max(e.high - e.low for e in apart.rungs)


def test_ladder_uses_only_launches_with_every_rung():
    frame = noisy(15, rungs=RUNGS)
    frame = frame[(frame.rung != "8") | (frame.launch != 2)]
    comparison = compare(frame, margin=0.03)
    assert [e.launches for e in comparison.rungs] == [5, 4, 5]
    assert comparison.ladder.launches == 4
    disjoint = frame[(frame.rung == "1") == (frame.launch == 0)]
    ladder = compare(disjoint, margin=0.03).ladder
    assert ladder.ratio is None
    assert "every rung" in ladder.caveat


def test_frame_has_a_row_per_rung_in_the_order_of_the_ladder_and_the_mean_last():
    frame = compare(noisy(16, rungs=RUNGS), margin=0.03).frame()
    assert frame["name"].tolist() == [*RUNGS, LADDER]


# Bad input


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, None, "fast"])
def test_values_that_are_not_positive_numbers_are_refused(value):
    frame = noisy(17).astype({"native": object})
    frame.loc[3, "native"] = value
    with pytest.raises(DataError, match="positive number"):
        compare(frame, margin=0.03)


def test_missing_columns_repeated_pairs_and_empty_frames_are_refused():
    frame = noisy(18)
    with pytest.raises(DataError, match="launch"):
        compare(frame.drop(columns="launch"), margin=0.03)
    with pytest.raises(DataError, match="twice"):
        compare(pd.concat([frame, frame.iloc[:1]]), margin=0.03)
    with pytest.raises(DataError, match="no paired observation"):
        compare(frame.iloc[:0], margin=0.03)


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.03, float("nan")])
def test_a_margin_must_lie_between_0_and_1(margin):
    with pytest.raises(ValueError, match="margin"):
        compare(noisy(19), margin=margin)


# Stopping

PRECISION = Precision(width=0.05, min_launches=3, max_launches=5, min_repeats=2, max_repeats=4)


def step(frame, *, launch=None, running=True, rungs=("1",), precision=PRECISION):
    launch = frame.launch.max() if launch is None else launch
    decision = next_step(frame, rungs, precision, launch=launch, running=running)
    return decision.action, decision.rungs


def test_critical_values_do_not_shrink_with_added_launches():
    assert critical_df(5, None) == (4, 4)
    assert critical_df(5, 5) == (4, 4)
    assert critical_df(4, 5) == (3, 3)
    assert critical_df(8, 5) == (4, 3)
    assert critical_df(8, 1) == (1, 1)


def test_planned_launches_widen_the_interval_of_an_extended_run():
    frame = noisy(20, launches=8)
    fixed = only(compare(frame, margin=0.03))
    extended = only(compare(frame, margin=0.03, planned_launches=5))
    assert extended.ratio == fixed.ratio
    assert extended.low < fixed.low < fixed.high < extended.high
    assert extended.test_low < fixed.test_low


def test_repeats_come_before_launches_and_only_where_they_are_needed():
    quiet = noisy(21, launches=1, pairs=2, within=0.001)
    loud = noisy(21, launches=1, pairs=2, rungs=("8",), within=0.2)
    both = pd.concat([quiet, loud])
    assert step(both, rungs=("1", "8")) == (Action.REPEAT, ("8",))
    assert step(both, rungs=("1", "8"), running=False) == (Action.LAUNCH, ("1", "8"))
    loudest = noisy(21, launches=1, pairs=4, rungs=("8",), within=0.2)
    assert step(loudest, rungs=("8",)) == (Action.LAUNCH, ("8",))


def test_a_launch_without_an_undisturbed_pair_is_repeated():
    frame = noisy(22, launches=1, within=0.001)
    assert step(frame, launch=1) == (Action.REPEAT, ("1",))
    assert step(frame.iloc[:0], launch=0) == (Action.REPEAT, ("1",))


def test_it_stops_when_narrow_and_at_the_limit():
    narrow = noisy(23, launches=3, between=0.001, within=0.001)
    assert step(narrow) == (Action.STOP, ())
    wide = noisy(23, launches=3, between=0.2, within=0.001)
    assert step(wide) == (Action.LAUNCH, ("1",))
    limit = noisy(23, launches=5, between=0.2, within=0.001)
    assert step(limit) == (Action.STOP, ("1",))


def test_a_rung_without_observations_keeps_it_going():
    narrow = noisy(24, launches=3, between=0.001, within=0.001)
    assert step(narrow, rungs=("1", "8"), running=False) == (Action.LAUNCH, ("8",))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), shift=st.floats(-1, 1), launches=st.integers(1, 6))
def test_the_rule_never_looks_at_the_verdict(seed, shift, launches):
    frame = noisy(seed, launches=launches, within=0.03)
    shifted = frame.assign(transformers=frame.transformers * np.exp(shift))
    assert step(frame) == step(shifted)


def test_the_rule_measures_the_width_that_the_result_will_have():
    frame = noisy(25, launches=5)
    medians = np.log(frame.transformers / frame.native).groupby(frame.launch).median()
    effect = only(compare(frame, margin=0.03, planned_launches=PRECISION.min_launches))
    width = interval_width(medians.to_numpy(), PRECISION)
    assert np.log(effect.high / effect.low) == pytest.approx(width)


@pytest.mark.parametrize(
    "bad",
    [
        {"width": 0},
        {"width": float("nan")},
        {"min_launches": 0},
        {"min_launches": 11},
        {"max_repeats": 2},
    ],
)
def test_impossible_precision_is_refused(bad):
    with pytest.raises(ConfigError, match="precision"):
        Precision(**{"width": 0.04, **bad})
