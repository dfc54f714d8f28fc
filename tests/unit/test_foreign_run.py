"""A run directory from elsewhere: nothing in it leads out of it, whatever it says."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reproduce.errors import DataError
from reproduce.outside import pdf, profile_store
from reproduce.outside.rundir import RunDir
from reproduce.running import pipeline
from tests.conftest import command_line
from tests.synthetic import make_run


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    profile = profile_store.load("smoke", {"repeats": 1})
    return make_run(tmp_path_factory.mktemp("honest") / "run", profile).root


@pytest.fixture
def foreign(honest: Path, tmp_path: Path) -> Path:
    """A copy to tamper with."""
    return Path(shutil.copytree(honest, tmp_path / "runs" / "foreign"))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file that nothing may touch."""
    path = tmp_path / "outside" / "precious"
    path.parent.mkdir()
    path.write_text("precious")
    return path


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


NAMES = ["/etc/passwd", "../outside/precious", "raw/../../outside/precious", "raw/..", "raw//x",
         "profile.yaml", "raw/.hidden", "raw/a\\b", "raw/a\nb", "raw/a\x00b", ""]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_listed_name_that_leads_elsewhere_is_refused(foreign: Path, name: str) -> None:
    edit(foreign / "manifest.json", lambda m: m["files"].update({name: "0" * 64}))
    with pytest.raises(DataError, match=r"manifest\.json: files") as caught:
        RunDir.open(foreign)
    assert "\n" not in str(caught.value)


LINKS = ["raw", "raw/native", "raw/native/launch-01/c1/rep-01.json", "journal.jsonl", ".lock",
         "report.html", "report.pdf", "ro-crate-metadata.json", "tables", "notebooks",
         "figures/ladder_light.svg", "tables/measurements.csv", "profile.yaml"]  # fmt: skip


@pytest.mark.parametrize("name", LINKS)
def test_a_link_is_refused_wherever_it_lies(foreign: Path, outside: Path, name: str) -> None:
    place = foreign / name
    place.parent.mkdir(exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(outside.parent if "." not in name else outside)
    with pytest.raises(DataError, match=f"{name}: a link"):
        RunDir.open(foreign)
    place.unlink()
    place.symlink_to("raw/nothing-there")
    with pytest.raises(DataError, match=f"{name}: a link"):
        RunDir.open(foreign)


def test_what_is_no_file_is_not_waited_for(foreign: Path) -> None:
    os.mkfifo(foreign / "raw" / "native" / "launch-01" / "c1" / "rep-02.json")
    with pytest.raises(DataError, match="no regular file"):
        RunDir.open(foreign)


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("raw/<script>", "the name of an arm"),
        ("raw/native/launch-x", "the name of a launch"),
        ("raw/native/launch-01/start-x", "the name of a start or a rung"),
        ("raw/native/launch-01/c1/deeper", "a folder where no run has one"),
    ],
)
def test_folders_that_no_run_makes_are_refused(foreign: Path, folder: str, words: str) -> None:
    (foreign / folder).mkdir()
    with pytest.raises(DataError, match=words):
        RunDir.open(foreign)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("arm", "../../outside"), ("arm", "/etc"), ("arm", ".."), ("arm", "<b>"),
        ("rung", "../../../outside"), ("rung", "a/b"), ("rung", "A"), ("launch", -1),
    ],
)  # fmt: skip
def test_a_slot_makes_no_path_that_leads_out(foreign: Path, key: str, value: Any) -> None:
    record = foreign / "raw/native/launch-01/c1/rep-01.record.json"
    edit(record, lambda r: r["slot"].update({key: value}))
    with pytest.raises(DataError, match=rf"record\.json: slot\.{key}"):
        RunDir.open(foreign).records()


def test_a_record_speaks_of_its_own_place(foreign: Path) -> None:
    record = foreign / "raw/native/launch-01/c1/rep-01.record.json"
    edit(record, lambda r: r["slot"].update({"arm": "transformers"}))
    with pytest.raises(DataError, match="of another place"):
        RunDir.open(foreign).records()


@pytest.mark.parametrize("name", ["../../../../profile.yaml", "/etc/passwd", "..", "a/b", ""])
def test_a_record_names_a_file_beside_itself(foreign: Path, name: str) -> None:
    record = foreign / "raw/native/launch-01/c1/rep-01.record.json"
    edit(record, lambda r: r.update({"result": name}))
    with pytest.raises(DataError, match=r"record\.json: result"):
        RunDir.open(foreign).records()


def test_a_replay_copies_nothing_from_outside(
    foreign: Path, outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (foreign / "raw" / "setup.json").symlink_to(outside)
    monkeypatch.setattr(pipeline, "REPO", tmp_path)
    profile = profile_store.load("published", {"source": "runs/foreign"})
    with pytest.raises(DataError, match="a link"):
        pipeline.create(profile, tmp_path / "new")


def test_a_page_is_not_printed_through_a_link(
    outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "chromium"
    fake.write_text(
        '#!/bin/sh\nfor word; do case $word in --print-to-pdf=*) echo pdf > "${word#*=}";; esac\n'
        "done\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    page = tmp_path / "report.html"
    page.write_text("<p>page</p>")
    page.with_suffix(".pdf").symlink_to(outside)
    assert pdf.render(page).read_text() == "pdf\n"
    assert outside.read_text() == "precious"


COMMANDS = [
    ["report", "RUN"], ["run", "--resume", "RUN"], ["claims", "RUN"], ["diff", "RUN", "RUN"],
]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_every_command_says_so_in_one_line(foreign: Path, outside: Path, words: list[str]) -> None:
    (foreign / "journal.jsonl").symlink_to(outside)
    done = command_line(*(word.replace("RUN", str(foreign)) for word in words))
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {foreign}/journal.jsonl: a link")
    assert done.stderr.count("\n") == 1
    assert outside.read_text() == "precious"
    assert sorted(path.name for path in outside.parent.iterdir()) == ["precious"]


def test_a_journal_of_anything_is_read(foreign: Path) -> None:
    (foreign / "journal.jsonl").write_bytes(
        b'{"event": "plan"}\n[1]\n\xff\n' + b"[" * 100_000 + b'\n"x"\n{"event": "ready"}\n{"ev'
    )
    assert [e["event"] for e in RunDir.open(foreign).events()] == ["plan", "ready"]
