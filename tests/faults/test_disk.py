"""A real disk that is full, or read-only: what is on it stays, one line says what to do."""

import os
import shutil
from pathlib import Path

import pytest

from reproduce.errors import StorageError
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import write_atomic
from reproduce.profile import Profile
from tests.conftest import PUBLISHED, command_line
from tests.faults.conftest import StandIn, complaint, kept, mount, resume


def fill(place: Path) -> Path:
    """A file that takes all the room there is."""
    file = place / "filler"
    with file.open("wb", buffering=0) as sink:
        for block in (2**16, 1):
            try:
                while sink.write(bytes(block)):
                    pass
            except OSError:
                pass
    return file


def one_line(*arguments: str) -> str:
    done = command_line(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.engine
def test_a_disk_that_an_engines_log_fills(
    small_disk: Path, profile: Profile, stand_in: StandIn
) -> None:
    run = RunDir.create(small_disk / "run", profile, {})
    stand_in.does("flood:3")
    line = complaint(run)
    assert "No space left on device" in line
    assert "cannot be written" in line
    before = kept(run)
    assert {path.name for path in before} >= {"rep-01.json", "rep-01.record.json"}
    stand_in.is_well()
    assert not mount("-o", "remount,size=64m", str(small_disk))
    assert [e["event"] for e in resume(run.root, before).events()].count("repeat") >= 3


def test_a_write_that_fails_half_way(small_disk: Path) -> None:
    run = RunDir.create(small_disk / "run", profile_store.load("smoke"), {})
    run.write_raw("raw/one.json", b"{}")
    before = {path: path.read_bytes() for path in run.root.rglob("*") if path.is_file()}
    filler = fill(small_disk)
    with pytest.raises(StorageError, match=r"two\.json: cannot be written \(No space left"):
        run.write_raw("raw/two.json", bytes(2**16))
    with pytest.raises(StorageError, match=r"one\.json: cannot be written"):
        write_atomic(run.root / "raw" / "one.json", bytes(2**16))
    assert {p: p.read_bytes() for p in run.root.rglob("*") if p.is_file()} == before
    filler.unlink()
    again = RunDir.open(run.root)
    again.write_raw("raw/two.json", b"{}")
    assert again.changed_files() == []


def test_a_journal_line_that_fails_half_way_costs_no_other(small_disk: Path) -> None:
    run = RunDir.create(small_disk / "run", profile_store.load("smoke"), {})
    run.log_event("first")
    filler = fill(small_disk)
    with pytest.raises(StorageError, match=r"journal\.jsonl: cannot be written"):
        run.log_event("second", text="x" * 2**16)
    filler.unlink()
    run.log_event("third")
    assert [event["event"] for event in run.events()] == ["first", "third"]


def test_a_report_for_which_there_is_no_room(small_disk: Path) -> None:
    copy = small_disk / "copy"
    shutil.copytree(PUBLISHED, copy)
    fill(small_disk)
    line = one_line("report", str(copy))
    assert "No space left on device" in line
    assert str(copy) in line


def test_a_run_directory_that_cannot_be_written(small_disk: Path) -> None:
    run = RunDir.create(small_disk / "run", profile_store.load("smoke"), {})
    assert not mount("-o", "remount,ro", str(small_disk))
    line = one_line("run", "--resume", str(run.root))
    assert "cannot be written (Read-only file system)" in line
    assert os.listdir(run.root) == ["manifest.json", "profile.yaml"]  # noqa: PTH208
