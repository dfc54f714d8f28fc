"""Where the time of a run went, and how much is still to come."""

from datetime import UTC, datetime, timedelta

import pytest

from reproduce.outside import profile_store
from reproduce.pages import display_course
from reproduce.plan import ladder, timing
from reproduce.plan.ladder import Block
from reproduce.schemas import EngineFacts, LaunchFacts, RepeatRecord, Slot

BEGIN = datetime(2026, 11, 29, 12, tzinfo=UTC)
ARMS = ("native", "transformers")
SMOKE = profile_store.load("smoke", {"launches": 2})


def slice_at(second, arm="native", rung="c1", launch=1, repeat=1, **change):
    given = {
        "slot": Slot(arm=arm, launch=launch, rung=rung, repeat=repeat), "start": 1, "order": 0,
        "attempt": 1, "valid": True, "reasons": (), "result": None, "result_sha256": None,
        "started_at": BEGIN + timedelta(seconds=second), "wall_s": 8.0, "warmup_s": 2.0,
        "warmups": 1, "argv": (), "before": None, "after": None,
    }  # fmt: skip
    return RepeatRecord(**{**given, **change})


def ready(arm, second, launch=1, ready_s=50.0):
    return LaunchFacts(
        arm=arm, launch=launch, start=1, ready_s=ready_s, engine=EngineFacts(),
        ready_at=None if second is None else BEGIN + timedelta(seconds=second),
    )  # fmt: skip


LAUNCHES = [ready("native", 0), ready("transformers", 10)]
SLICES = [(slice_at(13), 5.0), (slice_at(22, "transformers"), 5.5)]


def test_what_is_neither_measured_nor_warm_up_is_the_harness():
    (found,) = timing.spent(SLICES, LAUNCHES)
    assert (found.launch, found.arms) == (1, ARMS)
    assert found.total_s == pytest.approx(20)  # from 10, when the last arm was ready, to 30
    assert found.traffic_s == pytest.approx(10.5)
    assert found.warmup_s == pytest.approx(4)
    assert found.harness_s == pytest.approx(5.5)


def test_a_slice_without_a_result_is_all_harness():
    failed = (slice_at(31, valid=False, reasons=("why",), warmup_s=None), None)
    (found,) = timing.spent([*SLICES, failed], LAUNCHES)
    assert found.total_s == pytest.approx(29)
    assert found.harness_s == pytest.approx(5.5 + 9)


def test_starts_of_servers_lie_between_launches_and_belong_to_none():
    later = [ready("native", 500, 2), ready("transformers", 505, 2)]
    again = [(slice_at(510, launch=2), 5.0)]
    found = timing.spent([*SLICES, *again], [*LAUNCHES, *later])
    assert [(one.launch, round(one.total_s)) for one in found] == [(1, 20), (2, 13)]
    shown = display_course.cost(found, [])
    assert "33 s" in shown
    assert "16 s, 47 %" in shown


@pytest.mark.parametrize(
    ("slices", "launches"),
    [
        ([], LAUNCHES),
        (SLICES, []),
        (SLICES, [ready("native", None)]),
        ([(slice_at(13, warmup_s=None), 5.0)], LAUNCHES),
    ],
    ids=["nothing measured", "no launches", "older launches", "older records"],
)
def test_records_that_do_not_say_give_a_plain_word(slices, launches):
    assert timing.spent(slices, launches) == []
    assert "do not say" in display_course.cost([], [])


UP = Block(1, ARMS)


def test_nothing_measured_is_no_estimate():
    assert timing.left_s(SMOKE, ladder.slots(SMOKE), [], LAUNCHES, UP) is None


def test_the_rest_takes_what_its_rungs_took_and_the_pauses_between():
    records = [slice_at(0, wall_s=4.0), slice_at(5, "transformers", wall_s=6.0),
               slice_at(12, rung="c4", wall_s=20.0)]  # fmt: skip
    missing = [slot for slot in ladder.slots(SMOKE) if slot.launch == 1 and slot.repeat == 2]
    left = timing.left_s(SMOKE, missing, records, LAUNCHES, UP)
    assert left == pytest.approx(2 * (5 + 1) + 2 * (20 + 1))


def test_servers_to_come_take_their_start_and_those_of_a_block_start_together():
    records = [slice_at(0, wall_s=4.0), slice_at(5, rung="c4", wall_s=4.0)]
    launches = [ready("native", 0, ready_s=50), ready("transformers", 0, ready_s=70)]
    missing = ladder.slots(SMOKE)
    resident = timing.left_s(SMOKE, missing, records, launches, UP)
    assert resident == pytest.approx(len(missing) * 5 + 70)
    profile = profile_store.load("smoke", {"launches": 2, "schedule": "sequential"})
    sequential = timing.left_s(profile, missing, records, launches, Block(1, ("native",)))
    assert sequential == pytest.approx(len(missing) * 5 + 70 + 50 + 70)


def test_a_rung_that_was_not_measured_yet_goes_by_its_decoding_steps():
    # Two requests one by one, then eight by four: as many steps of the same length.
    missing = [slot for slot in ladder.slots(SMOKE) if slot.launch == 1 and slot.rung == "c4"]
    left = timing.left_s(SMOKE, missing, [slice_at(0, wall_s=3.0)], LAUNCHES, UP)
    assert left == pytest.approx(len(missing) * 3)
