"""kill -9 of one process after another, in a run whose engine is the stand-in."""

import contextlib
import multiprocessing.forkserver
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from reproduce.outside.rundir import RunDir
from reproduce.running.measure import measure
from tests.conftest import unmeasured
from tests.engine.conftest import engine_processes
from tests.faults.conftest import StandIn, complaint, kept, resume

pytestmark = pytest.mark.engine


def of_engine(run: RunDir, kind: str) -> psutil.Process | None:
    """A process of the Transformers arm's engine."""
    for process in engine_processes(run.root):
        words = process.cmdline()
        if "reproduce.engine.guard" in words:
            found = "guard"
        elif words[-1] in ("EngineCore", "Worker"):
            found = words[-1]
        else:
            found = "server"
        output = Path(f"/proc/{process.pid}/fd/1").readlink()
        if found == kind and "transformers" in output.parts:
            return process
    return None


def forkserver() -> psutil.Process:
    pid = multiprocessing.forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return psutil.Process(pid)


def client() -> psutil.Process | None:
    return next(iter(forkserver().children()), None)


@contextlib.contextmanager
def kill_in_a_rung(run: RunDir, pick: Callable[[], psutil.Process | None]) -> Iterator[list[int]]:
    """Kill a process while the second repeat's first client is running; yields what was killed."""
    killed: list[int] = []
    over = threading.Event()

    def hunt() -> None:
        while not over.wait(0.01):
            measured = len(list((run.root / "raw").glob("*/launch-01/c2/rep-01.record.json"))) == 2
            with contextlib.suppress(psutil.Error, OSError):
                if measured and client() is not None and (victim := pick()) is not None:
                    victim.send_signal(signal.SIGKILL)
                    killed.append(victim.pid)
                    return

    hunter = threading.Thread(target=hunt)
    hunter.start()
    yield killed
    over.set()
    hunter.join()


@pytest.mark.parametrize("kind", ["guard", "server", "EngineCore", "Worker"])
def test_of_the_engine(run: RunDir, stand_in: StandIn, kind: str) -> None:
    with kill_in_a_rung(run, lambda: of_engine(run, kind)) as killed:
        line = complaint(run)
    assert killed
    ends = {
        "guard": "was killed by SIGKILL",
        "server": "was killed by SIGKILL (as the kernel does when memory runs out)",
        "EngineCore": "exited with status 1",
        "Worker": "exited with status 1",
    }
    assert f"the transformers server {ends[kind]}" in line
    before = kept(run)
    assert {path.name for path in before} >= {"rep-01.json", "rep-01.record.json"}
    if kind == "EngineCore":
        resume(run.root, before)


@pytest.mark.parametrize("pick", [client, forkserver])
def test_of_the_client(
    run: RunDir, stand_in: StandIn, pick: Callable[[], psutil.Process | None]
) -> None:
    with kill_in_a_rung(run, pick) as killed:
        measure(run)
    assert killed
    assert unmeasured(run) == []
    failed = [record for record in run.records() if not record.valid]
    told = [reason for record in failed for reason in record.reasons]
    ends = ("the client was killed by SIGKILL", "the client exited with status 255")
    assert any(reason.startswith(ends) for reason in told)
    assert run.changed_files() == []
    assert engine_processes(run.root) == []
