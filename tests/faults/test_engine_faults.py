"""The engine fails at start or in a rung: one line says so, and the run goes on when it is well."""

import pytest

from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from tests.faults.conftest import StandIn, complaint, kept, resume

pytestmark = pytest.mark.engine


def with_changes(run: RunDir, **changes: object) -> RunDir:
    keys = {name.replace("__", "."): value for name, value in changes.items()}
    return RunDir.create(
        run.root.with_name("changed"), profile_store.changed(run.profile, keys), {}
    )


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("hang", "the transformers server was not ready within 4 s"),
        ("other-model", "the transformers server answered as 'another', not as tiny"),
        ("memory", "the transformers server exited with status 1: memory ran out: MemoryError"),
    ],
)
def test_an_engine_that_does_not_start(
    run: RunDir, stand_in: StandIn, fault: str, words: str
) -> None:
    stand_in.does(fault)
    line = complaint(with_changes(run, server__ready_timeout_s=4))
    assert words in line
    assert "raw/transformers/launch-01/start-01/engine.log" in line


def test_an_engine_that_crashes_at_start(run: RunDir, stand_in: StandIn) -> None:
    stand_in.does("crash")
    line = complaint(run)
    assert "the transformers server exited with status 3: ValueError: no such model" in line
    assert kept(run) == {}
    stand_in.is_well()
    again = resume(run.root, {})
    for arm in again.profile.arms:
        starts = sorted((again.root / "raw" / arm).glob("launch-01/start-*/command.json"))
        assert [path.parent.name for path in starts] == ["start-01", "start-02"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("die:3", "exited with status 1 in rung c2, repeat 2: RuntimeError: an illegal memory"),
        ("memory:3", "exited with status 1 in rung c2, repeat 2: memory ran out: MemoryError"),
        ("errors:3", 'answered 500: \'{"error": "EngineCore encountered an issue"}\' in rung c2'),
    ],
)
def test_an_engine_that_fails_in_a_rung(
    run: RunDir, stand_in: StandIn, fault: str, words: str
) -> None:
    stand_in.does(fault)
    line = complaint(run)
    assert f"the transformers server {words}" in line
    before = kept(RunDir.open(run.root))
    assert {path.name for path in before} >= {"rep-01.json", "rep-01.record.json"}
    assert {path.name for path in before} >= {"rep-02.invalid-1.record.json"}
    stand_in.is_well()
    assert {record.start for record in resume(run.root, before).records()} == {1, 2}


def test_an_engine_that_lives_and_no_longer_answers(
    run: RunDir, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reproduce.engine.server._REQUEST_TIMEOUT_S", 1.0)
    stand_in.does("stall:3")
    stalled = with_changes(run, client__rung_timeout_s=4)
    line = complaint(stalled)
    assert "the transformers server did not answer a completion (ReadTimeout) in rung c2" in line
    reasons = [reason for record in stalled.records() for reason in record.reasons]
    assert "the client did not finish within 4 s" in reasons
    # It was not asked again and again: a long run would lose hours with that.
    assert sum(not record.valid for record in stalled.records()) == 2
    stand_in.is_well()
    resume(stalled.root, kept(stalled))


def test_an_engine_that_answers_short(run: RunDir, stand_in: StandIn) -> None:
    stand_in.does("short:1")
    short = with_changes(run, repeats=1)
    line = complaint(short)
    assert line == "rung c2: none of 4 attempts counts: 2 outputs are not 4 tokens long"
    assert not any(record.valid for record in short.records())
    before = kept(short)
    assert len(before) == 8
    stand_in.is_well()
    resume(short.root, before)


@pytest.mark.parametrize("fault", ["babble", "flood:1"])
def test_a_log_of_megabytes_that_is_no_text(run: RunDir, stand_in: StandIn, fault: str) -> None:
    stand_in.does(fault)
    once = with_changes(run, repeats=1)
    again = resume(once.root, {})
    facts = {facts.arm: facts.engine for facts in again.launch_facts()}
    assert facts["transformers"].backend == "transformers"
    assert facts["transformers"].kv_tokens == 233_008
