"""Whole runs on the real engine, made once for all tests that look at them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from reproduce.rundir import RunDir, sha256
from tests.conftest import REPO, command_line

ORPHAN_LIMIT_S = 15


def engine_processes(run: Path) -> list[psutil.Process]:
    """Living processes that write into a run's engine logs: guards, servers, cores, workers."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            output = Path(f"/proc/{process.pid}/fd/1").readlink()
            if output.is_relative_to(run) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def wait_for(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.25)


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """One `reproduce run --profile smoke`, from papermill to HTML."""
    runs = tmp_path_factory.mktemp("smoke")
    done = command_line("run", "--profile", "smoke", "--runs", str(runs))
    assert done.returncode == 0, done.stdout + done.stderr
    report = Path(done.stdout.strip().splitlines()[-1])
    assert report.name == "report.html"
    assert report.is_file()
    return RunDir.open(report.parent)


class Killed:
    """A run whose papermill process was killed in the middle of a rung, then resumed."""

    def __init__(self, runs: Path) -> None:
        profile = runs / "no-mla.yaml"
        profile.write_text(
            "extends: smoke\nname: no-mla\n"
            "arms: {transformers: {env: {VLLM_MLA_DISABLE: '1'}}}\n"
            "repeats: 3\n"
        )
        started = subprocess.Popen(
            [sys.executable, "-m", "reproduce", "run", "--profile", str(profile), "--runs",
             str(runs)],
            cwd=REPO, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        wait_for(lambda: bool(list(runs.glob("*/manifest.json"))), 60, "no run directory")
        root = next(runs.glob("*/manifest.json")).parent
        raw = root / "raw"
        wait_for(lambda: len(list(raw.glob("*/launch-01/*/rep-*.record.json"))) >= 3, 300,
                 "three repeats were not measured")  # fmt: skip
        assert engine_processes(root)
        os.kill(started.pid, signal.SIGKILL)
        started.wait()
        killed = time.monotonic()
        wait_for(
            lambda: not engine_processes(root), ORPHAN_LIMIT_S, "the engine outlived its owner"
        )
        self.orphan_s = time.monotonic() - killed
        self.before = {path: sha256(path) for path in raw.rglob("rep-*") if path.is_file()}
        self.resumed = command_line("run", "--resume", str(root))
        self.run = RunDir.open(root)


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """The killed and resumed run; its Transformers arm has no MLA."""
    return Killed(tmp_path_factory.mktemp("killed"))
