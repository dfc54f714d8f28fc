"""What is measured next: order, rounds, stopping, and what a resumed run still lacks."""

from collections import Counter
from datetime import UTC, datetime

import pandas as pd
import pytest

from reproduce.errors import ConfigError
from reproduce.outside import profile_store
from reproduce.plan import ladder
from reproduce.plan.ladder import Block
from reproduce.schemas import Failure, Probes, RepeatRecord, Slot
from reproduce.stats.stopping import Action

RESIDENT = Block(1, ("native", "transformers"))
NO_PAIRS = pd.DataFrame(columns=["rung", "launch", "pair", "native", "transformers"])


def smoke(**overrides):
    return profile_store.load("smoke", overrides)


def record(slot, valid=True):
    return RepeatRecord(
        slot=slot, start=1, order=0, attempt=1, valid=valid, reasons=() if valid else ("why",),
        result=None, result_sha256=None, started_at=datetime.now(UTC), wall_s=1.0, warmups=1,
        argv=(), before=None, after=None,
    )  # fmt: skip


def pairs(*rows):
    """(rung, launch, pair, ratio) → paired observations."""
    return pd.DataFrame(
        [(rung, launch, pair, 100.0, 100 * ratio) for rung, launch, pair, ratio in rows],
        columns=list(NO_PAIRS.columns),
    )


def carried_out(profile, block, ratio=lambda rung, repeat: 1.0, works=lambda slot: True):
    """Every round that one block measures, in order, on an imaginary engine."""
    records, rows, spent, rounds = [], [], Counter(), []
    while due := ladder.due_rounds(profile, block, records, pairs(*rows), spent):
        for slots in due:
            rounds.append(slots)
            spent[slots[0].rung] += 1
            counts = all(works(slot) for slot in slots)
            records += [record(slot, counts) for slot in slots]
            if counts:
                rung, repeat = slots[0].rung, slots[0].repeat
                rows.append((rung, block.launch, repeat, ratio(rung, repeat)))
    return rounds


def test_a_fixed_plan_is_launches_times_repeats_around_the_ladder():
    profile = smoke(repeats=3)
    rounds = carried_out(profile, RESIDENT)
    assert [(r[0].rung, r[0].repeat) for r in rounds] == [
        (rung, repeat) for repeat in (1, 2, 3) for rung in ("c1", "c4")
    ]
    assert [slot for slots in rounds for slot in slots] == ladder.slots(profile)


def test_the_arms_of_a_rung_alternate_and_the_seed_draws_the_first():
    profile = smoke(repeats=4)
    for rung in ("c1", "c4"):
        order = [s.arm for s in ladder.slots(profile) if s.rung == rung]
        first, second = order[:2]
        assert order == [first, second, second, first] * 2
    firsts = {ladder.round_of(smoke(seed=seed), RESIDENT, "c1", 1)[0].arm for seed in range(20)}
    assert firsts == {"native", "transformers"}


def test_three_arms_take_turns_too():
    profile = profile_store.load("ablation")
    block = Block(1, tuple(profile.arms))
    one, two = (ladder.round_of(profile, block, "c1", n) for n in (1, 2))
    assert [s.arm for s in one] == [s.arm for s in two][::-1]
    assert {s.arm for s in one} == set(profile.arms)


def test_the_order_does_not_depend_on_how_much_is_measured():
    few, many = ladder.slots(smoke(repeats=1)), ladder.slots(smoke(repeats=5))
    assert [s for s in many if s.repeat == 1] == few


def test_sequential_launches_one_arm_at_a_time_in_turn():
    profile = smoke(schedule="sequential", launches=3)
    arms = [[block.arms for block in ladder.blocks(profile, n)] for n in (1, 2, 3)]
    assert arms[0] == arms[1][::-1] == arms[2]
    rounds = carried_out(profile, Block(1, ("native",)))
    assert [(r[0].rung, r[0].repeat) for r in rounds] == [
        ("c1", 1), ("c4", 1), ("c1", 2), ("c4", 2)
    ]  # fmt: skip
    assert {len(r) for r in rounds} == {1}


def test_a_round_that_does_not_count_is_measured_again_as_a_whole_and_later():
    profile = smoke(repeats=2)
    failing = iter([False] + [True] * 50)
    rounds = carried_out(profile, RESIDENT, works=lambda slot: next(failing))
    assert [(r[0].rung, r[0].repeat) for r in rounds] == [
        ("c1", 1), ("c4", 1), ("c1", 1), ("c4", 2), ("c1", 2)
    ]  # fmt: skip
    assert {len(r) for r in rounds} == {2}


def test_a_machine_that_is_never_quiet_is_not_measured_forever():
    profile = smoke(repeats=2)
    rounds = carried_out(profile, RESIDENT, works=lambda slot: slot.rung != "c4")
    assert Counter(r[0].rung for r in rounds) == {"c1": 2, "c4": 4}
    step = ladder.after_launch(profile, pairs(("c1", 1, 1, 1.0), ("c1", 1, 2, 1.0)), 1)
    assert step.action is Action.STOP


def test_what_is_on_file_is_not_measured_again():
    profile = smoke(repeats=2)
    done = [record(s) for s in ladder.slots(profile) if s.rung == "c1" and s.repeat == 1]
    due = ladder.due_rounds(profile, RESIDENT, done, pairs(("c1", 1, 1, 1.0)), Counter())
    assert [(r[0].rung, r[0].repeat) for r in due] == [("c1", 2), ("c4", 1)]
    half = [record(Slot(arm="native", launch=1, rung="c1", repeat=1))]
    due = ladder.due_rounds(profile, RESIDENT, half, NO_PAIRS, Counter())
    assert [(r[0].rung, r[0].repeat) for r in due] == [("c1", 1), ("c4", 1)]


def precise(**keys):
    return smoke(precision={"width": 0.04, **keys})


def test_a_noisy_rung_gets_more_repeats_a_steady_one_does_not():
    profile = precise()
    noisy = {"c1": 0.002, "c4": 0.06}
    rounds = carried_out(
        profile, RESIDENT, ratio=lambda rung, n: 1 + noisy[rung] * (-1) ** n * (1 + n / 10)
    )
    assert Counter(r[0].rung for r in rounds) == {"c1": 3, "c4": 9}


def launches(spread, number, centre=1.0):
    """``number`` launches of three equal pairs, alternating around the centre."""
    return pairs(
        *(
            (rung, launch, pair, centre + spread * (-1) ** launch)
            for rung in ("c1", "c4")
            for launch in range(1, number + 1)
            for pair in (1, 2, 3)
        )
    )


def test_launches_go_on_until_narrow_or_the_limit():
    profile = precise(min_launches=5, max_launches=7)
    assert ladder.after_launch(profile, launches(0.001, 4), 4).action is Action.LAUNCH
    assert ladder.after_launch(profile, launches(0.001, 5), 5).action is Action.STOP
    wide = ladder.after_launch(profile, launches(0.1, 5), 5)
    assert (wide.action, wide.rungs) == (Action.LAUNCH, ("c1", "c4"))
    assert "limit" in ladder.after_launch(profile, launches(0.1, 7), 7).reason


@pytest.mark.parametrize("centre", [0.8, 0.97, 1.0, 1.2])
def test_stopping_does_not_look_at_the_ratio(centre):
    profile = precise()
    steps = {
        spread: ladder.after_launch(profile, launches(spread * centre, 5, centre), 5).action
        for spread in (0.001, 0.1)
    }
    assert steps == {0.001: Action.STOP, 0.1: Action.LAUNCH}


def test_planned_launches_are_told_to_the_statistics_only_where_more_may_follow():
    assert ladder.planned_launches(smoke(launches=3)) is None
    assert ladder.planned_launches(precise(min_launches=5)) == 5


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"precision": {"width": 0}}, "precision.width"),
        ({"precision": {"width": 0.04, "min_launches": 8, "max_launches": 6}}, "min_launches"),
        ({"precision": {"width": 0.04}, "schedule": "sequential"}, "sequential"),
        ({"time_limit_s": 0}, "time_limit_s"),
    ],
)
def test_an_impossible_target_is_refused(overrides, words):
    with pytest.raises(ConfigError, match=words):
        smoke(**overrides)


def failure(arm, launch=1):
    now = datetime.now(UTC)
    return Failure(arm=arm, launch=launch, start=2, at=now, problem="exited with status 3")


def test_a_gap_is_what_a_failed_launch_has_not_measured():
    profile = smoke(launches=2)
    slots = ladder.slots(profile)
    half = [record(s) for s in slots if s.launch == 1 and (s.rung == "c1" or s.repeat == 1)]
    half += [record(s, valid=False) for s in slots if s.launch == 1 and s.rung == "c4"]
    (gap,) = ladder.gaps(profile, half, [failure("transformers")])
    assert (gap.launch, gap.arms, gap.rungs) == (1, ("native", "transformers"), ("c4",))
    whole = [record(s) for s in slots]
    assert ladder.gaps(profile, whole, [failure("transformers")]) == []
    assert ladder.gaps(profile, half, []) == []


def test_in_a_sequential_schedule_only_the_failed_arm_has_a_gap():
    profile = smoke(schedule="sequential")
    done = [record(s) for s in ladder.slots(profile) if s.arm == "native"]
    (gap,) = ladder.gaps(profile, done, [failure("transformers")])
    assert (gap.arms, gap.rungs) == (("transformers",), ("c1", "c4"))
    assert ladder.gaps(profile, done, [failure("nobody")]) == []


@pytest.mark.parametrize(
    ("reasons", "disturbed", "valid", "fruitless"),
    [
        (("2 outputs are short",), False, False, True),
        (("disturbed machine: the probe took 9 ms",), True, False, False),
        ((f"{ladder.WITH_PARTNER} native",), False, False, False),
        ((), False, True, False),
    ],
)
def test_a_rung_of_which_nothing_counts_is_named_unless_it_was_noise(
    reasons, disturbed, valid, fruitless
):
    probes = Probes(before_ms=9, after_ms=9, quiet_ms=8, disturbed=disturbed)
    slot = Slot(arm="native", launch=1, rung="c4", repeat=1)
    tried = record(slot, valid).model_copy(update={"reasons": reasons, "probes": probes})
    said = ladder.fruitless(smoke(), [tried])
    assert said == (f"rung c4: none of 1 attempts counts: {reasons[0]}" if fruitless else None)
