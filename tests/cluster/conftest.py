"""A two-node Slurm on this host, started once for all tests that need it."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import REPO

START = REPO / ".ci" / "slurm" / "start.sh"


def slurm(*command: str) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, cwd=REPO
    ).stdout.strip()


def processes(mark: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Living processes with a mark."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and mark(process):
                found.append(process)
    return found


def of_job(job: str) -> list[psutil.Process]:
    """Processes on any node that belong to a job, by the environment they were started with."""
    return processes(lambda process: process.environ().get("SLURM_JOB_ID") == job)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    """The directory of a running two-node Slurm; SLURM_CONF names its configuration."""
    # Not pytest's own directory: the name of munge's socket may not be long.
    directory = Path(tempfile.mkdtemp(prefix="slurm-"))
    started = subprocess.run(
        [str(START), str(directory)], capture_output=True, text=True, timeout=60, check=False
    )
    assert started.returncode == 0, started.stderr
    os.environ["SLURM_CONF"] = str(directory / "slurm.conf")
    try:
        yield directory
    finally:
        del os.environ["SLURM_CONF"]
        subprocess.run([str(START), "stop", str(directory)], timeout=60, check=True)
        shutil.rmtree(directory, ignore_errors=True)
