"""A wall clock that stands still or goes back: it names moments, and decides nothing."""

from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import ClassVar

import pytest

from reproduce.outside import profile_store, provenance
from reproduce.outside.rundir import RunDir
from reproduce.running import pipeline
from tests.faults.conftest import StandIn, complaint, kept, resume


class Backwards(datetime):
    """Every look at the clock finds it an hour earlier."""

    moment: ClassVar[datetime] = datetime(2026, 6, 1, tzinfo=UTC)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "Backwards":
        cls.moment -= timedelta(hours=1)
        m = cls.moment
        return cls(m.year, m.month, m.day, m.hour, tzinfo=UTC)


@pytest.fixture
def backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("outside.rundir", "running.launch", "running.measure"):
        monkeypatch.setattr(f"reproduce.{module}.datetime", Backwards)


@pytest.mark.engine
@pytest.mark.usefixtures("backwards")
def test_a_clock_that_goes_back_in_a_run(run: RunDir, stand_in: StandIn) -> None:
    stand_in.does("die:3")
    complaint(run)
    before = kept(run)
    stand_in.is_well()
    records = resume(run.root, before).records()
    assert [record.order for record in records] == list(range(len(records)))
    moments = [record.started_at for record in records]
    assert moments == sorted(moments, reverse=True)
    assert all(0 < record.wall_s < 60 for record in records)
    assert [record.slot.repeat for record in records if record.start == 2] == [2, 2]


def test_runs_that_begin_in_the_same_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Still(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Still":
            return cls(2026, 6, 1, tzinfo=tz)

    monkeypatch.setattr(pipeline, "datetime", Still)
    monkeypatch.setattr(provenance, "collect", dict)
    profile = profile_store.load("smoke")
    runs = [pipeline.create(profile, tmp_path) for _ in range(20)]
    assert len({run.root for run in runs}) == 20
    assert all(RunDir.open(run.root).profile == run.profile for run in runs)
