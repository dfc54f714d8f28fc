"""Whichever process of an engine over two nodes is killed, nothing of it is left on any node."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cluster.conftest import processes, slurm
from tests.conftest import REPO
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

GUARD = "reproduce.engine.guard"
LIMIT_S = 15


class Engine:
    """The owner in an allocation, and everything that bears its token."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.token = secrets.token_hex(8)
        command = ["salloc", "--nodes=2", "--quiet", sys.executable, "-m", "tests.cluster.owner"]
        self.command = subprocess.Popen([*command, str(directory), self.token], cwd=REPO)
        # On each node: srun and its helper, a guard here and two there, an engine, two workers.
        wait_for(lambda: len(self.all()) == 17, 60, "the engine did not start")

    def all(self) -> list[psutil.Process]:
        mine = processes(lambda process: self.token in process.cmdline())
        return [process for process in mine if process.name() != "salloc"]

    def pick(self, kind: str) -> list[psutil.Process]:
        """Processes of a kind, node 0 first."""
        found = [process for process in self.all() if self._kind(process.cmdline()) == kind]
        return sorted(found, key=lambda process: "headless" in process.cmdline())

    @staticmethod
    def _kind(words: list[str]) -> str:
        own = words[: words.index("--")] if "--" in words else words
        if words[0] == "srun":
            return "srun"
        if "tests.cluster.owner" in own:
            return "owner"
        if GUARD not in own:
            return "engine" if "Popen" in words[2] else "worker"
        return "guard" + "".join(word for word in own if word in ("--beat", "--listen"))

    def gone(self) -> bool:
        return not self.all() and not slurm("squeue", "-h")


@pytest.fixture
def engine(cluster: Path, tmp_path: Path) -> Iterator[Engine]:
    wait_for(lambda: not slurm("squeue", "-h"), 60, "an earlier job is left")
    made = Engine(tmp_path)
    yield made
    # A killed salloc leaves its allocation to Slurm.
    slurm("scancel", "--partition=ci")
    made.command.wait(60)


@pytest.mark.parametrize("node", [0, 1])
@pytest.mark.parametrize("kind", ["guard--beat", "srun", "guard--listen", "guard", "engine"])
def test_kill_9_of_one_ends_all(engine: Engine, kind: str, node: int) -> None:
    victims = engine.pick(kind)
    victim = victims[node * (len(victims) // 2)]
    victim.send_signal(signal.SIGKILL)
    wait_for(lambda: not engine.all(), LIMIT_S, f"{kind} of node {node} left processes")
    wait_for(engine.gone, LIMIT_S, "the job is not over")
    assert (engine.directory / "ended").is_file()


def test_kill_9_of_the_owner_ends_all(engine: Engine) -> None:
    engine.pick("owner")[0].send_signal(signal.SIGKILL)
    wait_for(lambda: not engine.all(), LIMIT_S, "processes are left")


def test_kill_9_of_everything_here_ends_all_there(engine: Engine) -> None:
    # Nothing here can tell the nodes: they notice the silence.
    for process in engine.pick("owner") + engine.pick("guard--beat") + engine.pick("srun"):
        process.send_signal(signal.SIGKILL)
    os.kill(engine.command.pid, signal.SIGKILL)
    wait_for(lambda: not engine.all(), LIMIT_S, "processes are left")


def test_scancel_ends_all(engine: Engine) -> None:
    slurm("scancel", slurm("squeue", "-h", "-o", "%i"))
    wait_for(lambda: not engine.all(), LIMIT_S, "processes are left")


def test_each_node_has_its_log_and_the_key_that_no_command_line_shows(engine: Engine) -> None:
    keys = [process.environ()["VLLM_API_KEY"] for process in engine.pick("engine")]
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert len(keys[0]) >= 40
    assert not processes(lambda process: any(keys[0] in word for word in process.cmdline()))
    for name in ("engine.log", "engine.node-1.log"):
        assert (engine.directory / name).read_text().endswith("started\n")
