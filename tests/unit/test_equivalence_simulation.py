"""The promises of the intervals, kept on simulated noise: coverage and false equivalence."""

import functools
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reproduce.stats.equivalence import Decision, compare, ladder_values
from reproduce.stats.intervals import Method
from reproduce.stats.stopping import Action, Precision, next_step

SIMULATION = runpy.run_path(
    str(Path(__file__).parents[2] / "benchmarks" / "simulate_intervals.py"), run_name="simulation"
)
MACHINES, stop = SIMULATION["MACHINES"], SIMULATION["stop"]
covered, falsely_equivalent = SIMULATION["covered"], SIMULATION["falsely_equivalent"]

SIMULATIONS = 20_000
MARGIN = 0.03
FALSE_EQUIVALENCE = 0.05 + 2 * np.sqrt(0.05 * 0.95 / SIMULATIONS)
"""5 % and two standard errors of the simulation."""

machines = pytest.mark.parametrize("name", list(MACHINES))
stopping_machines = pytest.mark.parametrize(
    "name", ["Gaussian", "episodes, probe sees 70 %", "episodes, no probe"]
)


@functools.cache
def simulate(name, launches=5, pairs=3, seed=1, scale=1.0):
    return scale * MACHINES[name].pairs(np.random.default_rng(seed), SIMULATIONS, launches, pairs)


def frame_of(pairs):
    return pd.DataFrame(
        [
            {"rung": "1", "launch": i, "pair": j, "native": 1.0, "transformers": np.exp(y)}
            for i, launch in enumerate(pairs)
            for j, y in enumerate(launch)
        ]
    )


@machines
def test_five_launches_of_three_pairs_cover_93_to_97_percent(name):
    assert 0.93 <= covered(np.median(simulate(name), axis=-1), 4) <= 0.97


@machines
@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_false_equivalence_at_the_edge_is_at_most_5_percent(name, scale):
    values = np.median(simulate(name, scale=scale), axis=-1)
    assert falsely_equivalent(values, 4, MARGIN) <= FALSE_EQUIVALENCE


def test_the_simulated_episodes_are_as_heavy_as_measured():
    clean, episodes = simulate("Gaussian"), simulate("episodes, no probe")
    assert clean.std() < 0.04
    assert 0.12 < episodes.std() < 0.43
    assert np.median(np.abs(episodes)) < 2 * np.median(np.abs(clean))


def test_means_of_disturbed_pairs_would_cover_too_much_for_wider_intervals():
    pairs = simulate("episodes, no probe")
    assert covered(pairs.mean(axis=-1), 4) > 0.97


@pytest.mark.parametrize("width", [0.02, 0.03, 0.04, 0.05, 0.07])
@stopping_machines
def test_the_stopping_rule_keeps_coverage_and_false_equivalence(name, width):
    precision = Precision(width)
    run = stop(simulate(name, launches=10, pairs=9, seed=2), precision)
    assert 0.93 <= run.coverage(precision.min_launches) <= 0.97
    assert run.false_equivalence(precision.min_launches, 0.2) <= FALSE_EQUIVALENCE


@stopping_machines
def test_a_width_out_of_reach_errs_on_the_safe_side(name):
    run = stop(simulate(name, launches=10, pairs=9, seed=2), Precision(0.005))
    assert np.mean(run.launches == 10) > 0.99
    assert run.coverage(5) >= 0.95
    assert run.false_equivalence(5, 0.2) <= FALSE_EQUIVALENCE


def test_plain_t_after_looking_at_the_width_would_not():
    run = stop(simulate("Gaussian", launches=10, pairs=9, seed=2), Precision(0.04))
    assert run.false_equivalence(None, 0.2) > FALSE_EQUIVALENCE
    assert run.coverage(None) < 0.94


@stopping_machines
def test_the_simulated_rule_is_the_rule(name):
    precision = Precision(0.05, min_launches=3, max_launches=5, min_repeats=2, max_repeats=4)
    pairs = MACHINES[name].pairs(np.random.default_rng(3), 30, 5, 4)
    run = stop(pairs, precision)
    for simulation, launches in zip(pairs, run.launches, strict=True):
        taken = [simulation[0, :2]]
        for _ in range(5 * 4):
            step = next_step(frame_of(taken), ["1"], precision, launch=len(taken) - 1, running=True)
            if step.action is Action.STOP:
                break
            if step.action is Action.LAUNCH:
                taken.append(simulation[len(taken), :2])
            else:
                taken[-1] = simulation[len(taken) - 1, : len(taken[-1]) + 1]
        assert step.action is Action.STOP
        assert len(taken) == launches


def decisions(truth):
    pairs = np.log(truth) + simulate("episodes, probe sees 70 %", scale=0.3)[:100]
    return [compare(frame_of(launches), margin=MARGIN).rungs[0].decision for launches in pairs]


def test_compare_decides_as_the_simulation_counts():
    values = np.median(simulate("episodes, probe sees 70 %", scale=0.3)[:100], axis=-1)
    share = np.mean([d is Decision.EQUIVALENT for d in decisions(1 - MARGIN)])
    assert share == pytest.approx(falsely_equivalent(values, 4, MARGIN))


def test_an_arm_against_itself_is_never_different():
    found = decisions(1.0)
    assert Decision.DIFFERENT not in found
    assert found.count(Decision.EQUIVALENT) > 50


def test_ladder_mean_covers_93_to_97_percent():
    rng = np.random.default_rng(4)
    truths = np.log([0.98, 1.0, 1.03])
    machine = MACHINES["episodes, probe sees 70 %"]
    rungs = [theta + np.median(machine.pairs(rng, 6000, 5, 3), axis=-1) for theta in truths]
    values = np.array(
        [
            ladder_values(pd.DataFrame(np.transpose(launches)), Method.LAUNCHES)
            for launches in zip(*rungs, strict=False)
        ]
    )
    assert len(values) > 5000
    assert 0.93 <= covered(values - np.log(np.exp(truths).mean()), 4) <= 0.97
