"""A whole `reproduce run` on the stand-in that is interrupted, or loses its kernel."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from reproduce.outside.rundir import RunDir
from reproduce.profile import Profile
from tests.conftest import REPO, command_line
from tests.engine.conftest import ORPHAN_LIMIT_S, engine_processes
from tests.faults.conftest import StandIn, kept, resume
from tests.waiting import wait_for

pytestmark = pytest.mark.engine


class Command:
    """`reproduce run` in a process of its own, in a rung that never ends."""

    def __init__(self, runs: Path, profile: Profile) -> None:
        # Whatever the command starts, and whatever that starts, bears this in its environment.
        self._stalled = runs / "stalled"
        env = {**os.environ, "STAND_IN": "stall", "STAND_IN_WHEN": str(self._stalled)}
        file = runs / "faults.yaml"
        file.write_text(yaml.safe_dump(profile.model_dump(mode="json")))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "reproduce", "run", "--profile", str(file), "--runs",
             str(runs)],
            cwd=REPO, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env=env,
        )  # fmt: skip
        wait_for(lambda: list(runs.glob("*/manifest.json")), 60, "no run directory")
        self.root = next(runs.glob("*/manifest.json")).parent
        raw = self.root / "raw"
        wait_for(lambda: len(list(raw.glob("*/launch-01/c2/rep-01.record.json"))) == 2, 120,
                 "the first repeat was not measured")  # fmt: skip
        self._stalled.touch()
        self.before = kept(RunDir.open(self.root))
        time.sleep(4)
        assert engine_processes(self.root)

    def end(self) -> str:
        """Wait for it; what it wrote to standard error."""
        _, error = self.process.communicate(timeout=120)
        assert "Traceback" not in error
        return str(error)

    def left(self) -> list[psutil.Process]:
        """Its processes, all kinds of them."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.Error):
                if process.environ().get("STAND_IN_WHEN") == str(self._stalled):
                    found.append(process)
        return found


@pytest.fixture
def command(tmp_path: Path, profile: Profile, stand_in: StandIn) -> Iterator[Command]:
    made = Command(tmp_path, profile)
    yield made
    made.process.kill()
    made.process.wait()


def test_it_is_interrupted_twice(command: Command) -> None:
    for _ in range(2):
        command.process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    error = command.end()
    assert command.process.returncode == 130
    wait_for(lambda: not command.left(), ORPHAN_LIMIT_S, "something outlived the command")
    assert error == f"interrupted; `reproduce run --resume {command.root}` goes on\n"
    resume(command.root, command.before)


def test_its_kernel_is_killed(command: Command) -> None:
    children = psutil.Process(command.process.pid).children()
    kernel = next(child for child in children if "ipykernel_launcher" in child.cmdline())
    kernel.kill()
    wait_for(lambda: not engine_processes(command.root), ORPHAN_LIMIT_S, "the engine lives on")
    error = command.end()
    wait_for(lambda: not command.left(), ORPHAN_LIMIT_S, "something outlived the command")
    assert command.process.returncode == 2
    assert error.startswith("error: notebooks/01_measure.ipynb: its kernel failed")
    assert len(error.splitlines()) == 1
    assert kept(RunDir.open(command.root)) == command.before
    assert (command.root / "report.html").is_file()


def test_it_is_measured_already(run: RunDir) -> None:
    with run.writing():
        done = command_line("run", "--resume", str(run.root))
    assert done.returncode == 2
    assert done.stderr == f"error: {run.root}: another process is measuring into it\n"
    assert not (run.root / "notebooks").exists()
