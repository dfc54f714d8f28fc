"""Runs whose engine is the stand-in and whose everything else is real."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reproduce.engine import checkpoint, probe, server
from reproduce.errors import ReproduceError
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import sha256
from reproduce.profile import Profile
from reproduce.running.launch import CACHE
from reproduce.running.measure import measure
from reproduce.stats import disturbance
from tests.conftest import REPO, unmeasured
from tests.engine.conftest import engine_processes

FAKES = REPO / "tests" / "fakes"
RUNG = {"name": "c2", "concurrency": 2, "input_tokens": 16, "output_tokens": 4, "prompts": 2,
        "warmups": 0}  # fmt: skip


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint without weights: all that the client and the stand-in need."""
    made = tmp_path_factory.mktemp("model") / "tiny"
    shutil.copytree(
        checkpoint.ensure(CACHE / "checkpoints"), made,
        ignore=shutil.ignore_patterns("*.safetensors"),
    )  # fmt: skip
    return made


@pytest.fixture
def profile(model: Path) -> Profile:
    """One short rung, twice, on two servers; deadlines that a test can wait for."""
    return profile_store.load(
        "smoke",
        {
            "model.id": str(model),
            "ladder": [RUNG],
            "repeats": 2,
            "server.ready_timeout_s": 30,
            "server.retries": 0,
            "client.rung_timeout_s": 60,
        },
    )


class StandIn:
    """What the next engines do, and what has become of those so far."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("PYTHONPATH", str(FAKES))
        monkeypatch.setenv("STAND_IN_PROMPT", str(RUNG["input_tokens"]))
        # These are faults, not noise.
        monkeypatch.setattr(probe, "SETTLE_S", 0.1)
        # Nor has this engine much to clear up.
        monkeypatch.setattr(server, "_FALL_S", 2.0)
        monkeypatch.setattr(disturbance, "is_disturbed", lambda *_: False)

    def does(self, fault: str) -> None:
        """Give the Transformers arm a fault."""
        self._monkeypatch.setenv("STAND_IN", fault)
        self._monkeypatch.setenv("STAND_IN_ARM", "transformers")

    def is_well(self) -> None:
        self._monkeypatch.delenv("STAND_IN")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return StandIn(monkeypatch)


@pytest.fixture
def run(tmp_path: Path, profile: Profile) -> RunDir:
    return RunDir.create(tmp_path / "run", profile, {})


def mount(*arguments: str) -> int:
    """Run ``mount``; its exit status."""
    command = ["mount", *arguments]
    return subprocess.run(command, capture_output=True, check=False).returncode


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() or mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)):
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)  # noqa: S607


def complaint(run: RunDir) -> str:
    """Measure a run that fails: its one line, when nothing of its engines is left."""
    with pytest.raises(ReproduceError) as caught:
        measure(run)
    assert engine_processes(run.root) == []
    return _one_line(str(caught.value))


def _one_line(text: str) -> str:
    assert "\n" not in text
    assert len(text) < 1000
    return text


def kept(run: RunDir) -> dict[Path, str]:
    """What a run has measured, with digests."""
    return {path: sha256(path) for path in (run.root / "raw").rglob("rep-*") if path.is_file()}


def resume(root: Path, before: dict[Path, str]) -> RunDir:
    """Go on with a run: nothing of ``before`` changes, everything is measured in the end."""
    measure(RunDir.open(root))
    run = RunDir.open(root)
    assert unmeasured(run) == []
    assert run.changed_files() == []
    assert {path: sha256(path) for path in before} == before
    assert engine_processes(root) == []
    return run
