"""A launch that fails is tried again; what it leaves out is a gap that the report names."""

from collections.abc import Callable
from typing import Any

import pytest

from reproduce.engine import logs
from reproduce.errors import LaunchError, WrongEngineError
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.pages import display_course
from reproduce.profile import Profile
from reproduce.reading import analysis, judgement
from reproduce.running.measure import measure
from reproduce.verdicts import confounders
from tests.faults.conftest import StandIn, kept, resume

pytestmark = pytest.mark.engine


@pytest.fixture
def when(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Do something when a run's journal gets a certain event for the first time."""

    def listen(act: Callable[[], None], **wanted: Any) -> None:
        told, acts = RunDir.log_event, [act]

        def log_event(run: RunDir, event: str, **details: Any) -> None:
            told(run, event, **details)
            if wanted.items() <= {"event": event, **details}.items():
                while acts:
                    acts.pop()()

        monkeypatch.setattr(RunDir, "log_event", log_event)

    return listen


@pytest.fixture
def made(run: RunDir) -> Callable[..., RunDir]:
    """A run of the short profile with other values for some keys."""

    def make(profile: Profile = run.profile, **changes: object) -> RunDir:
        keys = {name.replace("__", "."): value for name, value in changes.items()}
        root = run.root.with_name("changed")
        return RunDir.create(root, profile_store.changed(profile, keys), {})

    return make


def events(run: RunDir, kind: str, key: str) -> list[Any]:
    return [event[key] for event in run.events() if event["event"] == kind]


def test_a_crash_at_start_is_tried_again_ever_later(
    made: Callable[..., RunDir], stand_in: StandIn, when: Callable[..., None]
) -> None:
    run = made(server__retries=3, server__retry_wait_s=0.1)
    stand_in.does("crash")
    when(stand_in.is_well, event="retry", wait_s=0.2)
    measure(run)
    assert events(run, "retry", "wait_s") == [0.1, 0.2]
    assert run.failures() == []
    assert {record.start for record in run.records() if record.valid} == {3}
    # The failed starts are on file, with their reasons.
    failed = sorted(path.parent.name for path in run.root.rglob("failure.json"))
    assert failed == ["start-01", "start-02"]
    assert analysis.gaps(run) == []


def test_a_death_in_a_rung_is_tried_again_and_nothing_is_lost(
    made: Callable[..., RunDir], stand_in: StandIn, when: Callable[..., None]
) -> None:
    run = made(server__retries=1, server__retry_wait_s=0)
    stand_in.does("die:3")
    when(stand_in.is_well, event="retry")
    measure(run)
    assert {r.slot.repeat: r.start for r in run.records() if r.valid} == {1: 1, 2: 2}
    (start,) = [path.parent for path in run.root.rglob("failure.json")]
    assert start.name == "start-01"
    assert "illegal memory access" in (start / "failure.json").read_text()
    assert logs.stored(start / "engine.log").name == "engine.log.gz"


def test_a_launch_that_stays_out_is_a_gap_and_resume_fills_it(
    made: Callable[..., RunDir], stand_in: StandIn, when: Callable[..., None]
) -> None:
    run = made(launches=2, repeats=1, server__retries=0)
    when(lambda: stand_in.does("crash"), event="starting", arm="native", launch=1)
    when(stand_in.is_well, event="failed", launch=1)
    measure(run)
    assert {record.slot.launch for record in run.records()} == {2}
    (gap,) = analysis.gaps(run)
    assert (gap.launch, gap.arms, gap.rungs) == (1, ("native", "transformers"), ("c2",))
    words = "exited with status 3: ValueError: no such model"
    assert words in gap.failure.problem
    assert str(run.root) not in gap.failure.problem
    assert words in display_course.gaps([gap], [])
    found = [
        one for one in confounders.find(judgement.conditions(run)) if "Launch 1" in one.sentence
    ]
    assert [one.severity for one in found] == [confounders.Severity.WARNING]
    again = resume(run.root, kept(run))
    assert {record.slot.launch for record in again.records()} == {1, 2}
    assert analysis.gaps(again) == []


def test_a_run_of_which_no_launch_could_be_measured_is_one_line(
    made: Callable[..., RunDir], stand_in: StandIn
) -> None:
    run = made(launches=2, schedule="sequential", server__retries=0)
    stand_in.does("crash")
    with pytest.raises(LaunchError, match="exited with status 3") as caught:
        measure(run)
    assert str(caught.value).endswith("start-01/engine.log.gz)")
    assert {gap.launch for gap in analysis.gaps(run)} == {1, 2}
    # The arm that is well was measured all the same.
    assert {record.slot.arm for record in run.records() if record.valid} == {"native"}


def test_the_wrong_engine_is_not_tried_again(
    made: Callable[..., RunDir], stand_in: StandIn
) -> None:
    run = made(server__retries=3)
    stand_in.does("silent")
    with pytest.raises(WrongEngineError, match="loaded unknown classes"):
        measure(run)
    assert events(run, "retry", "wait_s") == []
    assert len(run.failures()) == 1
