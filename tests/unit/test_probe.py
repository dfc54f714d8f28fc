"""Which slices the machine disturbed: the probe, and the rule that reads it."""

import inspect

import numpy as np
import pytest

from reproduce.engine.probe import Probe
from reproduce.stats import disturbance

QUIET = 17.0


def test_the_quiet_level_ignores_disturbances_and_one_lucky_probe():
    rng = np.random.default_rng(3)
    probes = QUIET * (1 + 0.03 * np.abs(rng.standard_normal(200)))
    probes[-24:-14] *= 2.5
    probes[-3] = 0.5 * QUIET
    assert disturbance.quiet_level(probes) == pytest.approx(QUIET, rel=0.05)


@pytest.mark.parametrize(
    ("before", "after", "disturbed"),
    [(17, 17, False), (20, 20, False), (30, 17, True), (17, 30, True), (10, 12, False)],
)
def test_either_side_marks_the_slice_and_a_fast_probe_does_not(before, after, disturbed):
    assert disturbance.is_disturbed(before, after, QUIET) is disturbed


def test_the_rule_cannot_see_the_arm_or_the_result():
    assert list(inspect.signature(disturbance.is_disturbed).parameters) == [
        "before_ms",
        "after_ms",
        "quiet_ms",
    ]


def test_a_machine_that_is_never_quiet_is_its_own_quiet_level():
    loaded = [40.0] * 50
    assert not disturbance.is_disturbed(40, 41, disturbance.quiet_level(loaded))


def test_a_machine_that_changes_its_speed_for_good_is_quiet_again_after_a_while():
    levels = [disturbance.quiet_level([8.6] * 100 + [16.0] * n) for n in range(25)]
    assert levels[0] == 8.6
    assert levels[-1] == 16.0
    assert levels.index(16.0) == pytest.approx(18, abs=1)


def test_the_probe_takes_a_time_that_can_show_a_disturbance():
    times = [Probe().time_ms() for _ in range(3)]
    assert 5 < min(times) < 100
