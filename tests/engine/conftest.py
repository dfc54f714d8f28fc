"""Whole runs on the real engine, made once for all tests that look at them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import requests

from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import sha256
from tests.conftest import REPO, command_line
from tests.waiting import wait_for

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


SECRETS = {
    "HF_TOKEN": "hf_plantedPlantedPlanted",
    "OPENAI_API_KEY": "sk-planted-0123456789abcdef",
    "AWS_SECRET_ACCESS_KEY": "planted/Planted+0123456789",
    "PIP_INDEX_URL": "https://planted-user:planted-password@localhost/simple",
    "DEPLOY_KEY": "-----BEGIN KEY-----\nplantedLineOne0123\nplantedLineTwo4567\n-----END KEY-----",
}
"""Variables of whoever starts the smoke run."""


@dataclass(frozen=True)
class Door:
    """A server of a run, as somebody else on the machine meets it while it is up.

    Attributes:
        key: that its own environment holds, which only its user can read.
        statuses: of requests for the models without a key, with a wrong one and with its own.
    """

    key: str
    statuses: tuple[int, int, int]


class Watched:
    """One `reproduce run --profile smoke`, from papermill to HTML, with secrets around it.

    Attributes:
        run: what it left.
        doors: its servers, while they were up.
        command_lines: of every process of the machine at that moment.
        printed: by the command.
    """

    def __init__(self, runs: Path) -> None:
        with ThreadPoolExecutor(max_workers=1) as pool:
            finished = pool.submit(
                command_line, "run", "--profile", "smoke", "--runs", str(runs), **SECRETS
            )
            wait_for(
                lambda: finished.done() or any('"ready"' in j.read_text()
                                               for j in runs.glob("*/journal.jsonl")),
                600, "the servers were not ready",
            )  # fmt: skip
            self.doors = [] if finished.done() else _doors(next(runs.glob("*/raw")).parent)
            self.command_lines = _command_lines()
            done = finished.result()
        self.printed = done.stdout + done.stderr
        assert done.returncode == 0, self.printed
        report = Path(done.stdout.strip().splitlines()[-1])
        assert report.name == "report.html"
        assert report.is_file()
        self.run = RunDir.open(report.parent)


def _doors(run: Path) -> list[Door]:
    """Every server of a run: the process that was told a port."""
    found = {}
    for process in engine_processes(run):
        words = process.cmdline()
        if "reproduce.engine.vllm_main" not in words or "--owner" in words:
            continue
        url = f"http://127.0.0.1:{words[words.index('--port') + 1]}/v1/models"
        key = process.environ()["VLLM_API_KEY"]
        asked = (None, "wrong", key)
        headers = [{"Authorization": f"Bearer {k}"} if k else {} for k in asked]
        answers = [requests.get(url, headers=each, timeout=60) for each in headers]
        found[url] = Door(key, tuple(answer.status_code for answer in answers))
    return list(found.values())


def _command_lines() -> list[str]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            found.append(" ".join(process.cmdline()))
    return found


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """The smoke run, and what it looked like from outside."""
    return Watched(tmp_path_factory.mktemp("smoke"))


@pytest.fixture(scope="session")
def smoke(watched: Watched) -> RunDir:
    """One `reproduce run --profile smoke`, from papermill to HTML."""
    return watched.run


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
