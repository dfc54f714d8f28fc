"""What was read is remembered, and read again when the file is another."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from reproduce.outside.memo import once, remembered


@remembered
def lines(path: Path, keep: int) -> list[str]:
    return path.read_text().splitlines()[:keep]


@remembered
def names(root: Path) -> list[str]:
    return [path.name for path in root.iterdir()]


def test_a_file_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2")
    assert lines(tmp_path / "a", 1) is lines(tmp_path / "a", 1)
    assert lines(tmp_path / "a", 2) == ["1", "2"]


def test_another_content_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2")
    assert lines(tmp_path / "a", 1) == ["1"]
    (tmp_path / "a").write_text("changed")
    assert lines(tmp_path / "a", 1) == ["changed"]


def test_a_run_directory_is_read_again_when_its_manifest_changes(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    before = names(tmp_path)
    assert names(tmp_path) is before
    (tmp_path / "manifest.json").write_text("{ }")
    assert names(tmp_path) is not before


def test_a_missing_file_is_the_readers_to_report(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        lines(tmp_path / "none", 1)
    (tmp_path / "none").write_text("there now")
    assert lines(tmp_path / "none", 1) == ["there now"]


@dataclass(eq=False)
class Run:
    root: Path


@once
def size(run: Run) -> list[int]:
    return [len(list(run.root.iterdir()))]


def test_a_run_is_looked_at_once_until_its_manifest_changes(tmp_path: Path) -> None:
    run = Run(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    assert size(run) is size(run)
    assert size(Run(tmp_path)) is not size(run)
    (tmp_path / "more").write_text("")
    (tmp_path / "manifest.json").write_text("{ }")
    assert size(run) == [2]
