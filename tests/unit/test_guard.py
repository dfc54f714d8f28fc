"""Whoever wanted the engine is gone, so is the engine: real processes, no vLLM needed."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from reproduce.engine.guard import end_group, group_members

# An engine in small: a parent with two workers that ignore SIGTERM.
ENGINE = """
import subprocess, sys, time
worker = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
workers = [subprocess.Popen([sys.executable, "-c", worker]) for _ in range(2)]
time.sleep(600)
"""
PATIENCE_S = 15


class Tree:
    """An owner process, the guard, the engine and its workers."""

    def __init__(self) -> None:
        self.owner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        read_fd, write_fd = os.pipe()
        self.guard = subprocess.Popen(
            [sys.executable, "-m", "reproduce.engine.guard", "--report", str(write_fd),
             "--owner", str(self.owner.pid), "--", sys.executable, "-c", ENGINE],
            pass_fds=(write_fd,), start_new_session=True,
        )  # fmt: skip
        os.close(write_fd)
        with os.fdopen(read_fd) as report:
            self.pgid = int(report.readline())
        self.wait(lambda: len(group_members(self.pgid)) == 3)

    def wait(self, condition: object) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():  # type: ignore[operator]
            assert time.monotonic() < deadline, "not within the time allowed"
            time.sleep(0.1)

    def gone(self) -> bool:
        return not group_members(self.pgid)


@pytest.fixture
def tree() -> Iterator[Tree]:
    made = Tree()
    yield made
    for pid in (made.owner.pid, made.guard.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    made.owner.wait()
    made.guard.wait()
    end_group(made.pgid, grace_s=0.1)


def test_kill_9_of_the_owner_ends_the_engine(tree: Tree) -> None:
    tree.owner.kill()
    tree.owner.wait()
    tree.wait(tree.gone)
    tree.guard.wait(PATIENCE_S)


def test_an_owner_that_is_a_zombie_is_gone(tree: Tree) -> None:
    tree.owner.kill()
    tree.wait(tree.gone)


def test_terminating_the_guard_ends_the_engine(tree: Tree) -> None:
    tree.guard.terminate()
    tree.guard.wait(PATIENCE_S)
    assert tree.gone()


def test_kill_9_of_the_engines_first_process_ends_its_workers(tree: Tree) -> None:
    os.kill(tree.pgid, signal.SIGKILL)
    tree.wait(tree.gone)
    assert tree.guard.wait(PATIENCE_S) == -signal.SIGKILL % 256 or tree.guard.returncode != 0


def test_kill_9_of_the_guard_kills_the_engines_first_process(tree: Tree) -> None:
    tree.guard.kill()
    tree.guard.wait()
    tree.wait(lambda: tree.pgid not in {p.pid for p in group_members(tree.pgid)})
    # The workers are the owner's to end; the server's stop() does that.
    assert end_group(tree.pgid, grace_s=0.1)


def test_an_owner_that_is_gone_already_starts_nothing() -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    read_fd, write_fd = os.pipe()
    guard = subprocess.run(
        [sys.executable, "-m", "reproduce.engine.guard", "--report", str(write_fd), "--owner",
         str(dead.pid), "--", sys.executable, "-c", "print('started')"],
        pass_fds=(write_fd,), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    os.close(write_fd)
    os.close(read_fd)
    assert (guard.returncode, guard.stdout) == (0, "")


def test_the_engine_is_not_in_the_owners_group(tree: Tree) -> None:
    assert os.getpgid(tree.pgid) == tree.pgid
    assert psutil.Process(tree.pgid).ppid() == tree.guard.pid
