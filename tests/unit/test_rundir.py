"""The run directory: nothing is lost, nothing is edited, nothing half-written counts."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reproduce.errors import ConfigError, DataError, StorageError
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import sha256, write_atomic
from reproduce.schemas import RepeatRecord, ServerCounters, Slot

SLOT = Slot(arm="native", launch=1, rung="c1", repeat=1)
IDLE = ServerCounters(
    running=0, waiting=0, prompt_tokens=0, generation_tokens=0, prefix_cache_hits=0
)


def record(valid: bool = True, attempt: int = 1) -> RepeatRecord:
    return RepeatRecord(
        slot=SLOT, start=1, order=0, attempt=attempt, valid=valid,
        reasons=() if valid else ("1 requests failed",), result=None, result_sha256=None,
        started_at=datetime.now(UTC), wall_s=1.5, warmups=1, argv=("vllm",), before=IDLE,
        after=IDLE,
    )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path / "runs" / "one", profile_store.load("smoke"), {"python": "3"})


def test_a_run_directory_reads_back(run: RunDir) -> None:
    again = RunDir.open(run.root)
    assert again.profile == run.profile
    assert again.manifest == run.manifest


def test_a_repeat_is_kept_untouched_and_listed(run: RunDir) -> None:
    run.save_repeat(record(), b'{"duration": 1}')
    path = run.repeat_stem(SLOT).with_name("rep-01.json")
    assert path.read_bytes() == b'{"duration": 1}'
    again = RunDir.open(run.root)
    assert again.is_measured(SLOT)
    assert again.manifest.files["raw/native/launch-01/c1/rep-01.json"] == sha256(path)
    assert again.changed_files() == []
    assert [r.slot for r in again.records()] == [SLOT]


def test_an_invalid_repeat_is_kept_and_does_not_count(run: RunDir) -> None:
    run.save_repeat(record(valid=False), b"{}")
    assert not run.is_measured(SLOT)
    assert run.attempts(SLOT) == 1
    run.save_repeat(record(valid=True, attempt=2), b"{}")
    assert run.is_measured(SLOT)
    assert [(r.attempt, r.valid) for r in run.records()] == [(1, False), (2, True)]


def test_a_result_that_was_cut_off_no_longer_counts(run: RunDir) -> None:
    run.save_repeat(record(), b'{"duration": 1}')
    path = run.repeat_stem(SLOT).with_name("rep-01.json")
    path.write_bytes(b'{"dura')
    assert not run.is_measured(SLOT)
    assert run.changed_files() == ["raw/native/launch-01/c1/rep-01.json"]


def test_raw_files_are_written_once(run: RunDir) -> None:
    run.write_raw("raw/native/launch-01/start-01/command.json", b"{}")
    with pytest.raises(DataError, match="written once"):
        run.write_raw("raw/native/launch-01/start-01/command.json", b"{}")


def test_what_a_kill_leaves_behind_is_sorted_out(run: RunDir) -> None:
    run.save_repeat(record(), b"{}")
    kept = run.manifest
    # Killed between the record and the manifest, between result and record, and in a write.
    run._save_manifest(kept.model_copy(update={"files": {}}))
    orphan = run.repeat_stem(SLOT).with_name("rep-02.json")
    orphan.write_bytes(b"{}")
    draft = run.repeat_stem(SLOT).with_name(".rep-03.json.x")
    draft.write_bytes(b"{")
    again = RunDir.open(run.root)
    with again.writing():
        assert again.manifest.files == kept.files
    assert not orphan.exists()
    assert not draft.exists()
    assert again.is_measured(SLOT)


def test_one_writer_at_a_time(run: RunDir) -> None:
    second = RunDir.open(run.root)
    with run.writing(), pytest.raises(ConfigError, match="another process"), second.writing():
        pass
    with RunDir.open(run.root).writing():
        pass


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(StorageError, match="No space"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_newer_schema_is_refused(run: RunDir) -> None:
    path = run.root / "manifest.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "schema_version": 99, "new_key": 1}))
    with pytest.raises(DataError, match="newer than this package"):
        RunDir.open(run.root)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("manifest.json", "{", "not readable as JSON"),
        ("manifest.json", "[]", "manifest.json"),
        ("manifest.json", '{"schema_version": 1}', "run_id"),
        ("profile.yaml", "a: [", "not a profile"),
        ("profile.yaml", "name: x", "not a profile"),
    ],
)
def test_a_damaged_directory_is_one_line(run: RunDir, file: str, text: str, words: str) -> None:
    (run.root / file).write_text(text)
    with pytest.raises(DataError) as caught:
        RunDir.open(run.root)
    assert words in str(caught.value)
    assert file in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_journal_line_that_was_cut_off_is_left_out(run: RunDir) -> None:
    run.log_event("plan", total=3)
    with (run.root / "journal.jsonl").open("a") as file:
        file.write('{"event": "rep')
    assert [event["event"] for event in run.events()] == ["plan"]


def test_a_directory_that_exists_is_refused(run: RunDir) -> None:
    with pytest.raises(ConfigError, match="exists already"):
        RunDir.create(run.root, run.profile, {})


def test_the_published_data_are_as_they_were_written(published: RunDir) -> None:
    assert published.changed_files() == []
    on_disk = {
        p.relative_to(published.root).as_posix()
        for p in (published.root / "raw").rglob("*")
        if p.is_file()
    }
    assert on_disk == set(published.manifest.files)
