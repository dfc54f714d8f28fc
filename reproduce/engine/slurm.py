"""Slurm: the allocation a run lives in, and an engine spread over its nodes.

A run under Slurm happens on the allocation's first node, because the client belongs beside the
API server. Every node of an engine is one job step, and every step a chain of three guards::

    guard --beat            here; watches this program
      srun                  carries the heartbeat and brings the log back
        guard --listen      on the node; ends when the heartbeat does
          guard             ends the engine if the one above it is killed
            vllm serve
"""

import math
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reproduce.engine.process import GuardedProcess
from reproduce.engine.server import ENGINE, Server, ServerSpec
from reproduce.errors import ConfigError, EngineError
from reproduce.profile import Profile

PROBE = (sys.executable, "-P", "-m", "reproduce.engine.node_probe")
_GUARD = (sys.executable, "-P", "-m", "reproduce.engine.guard")
# Longer than the guards need on a node, and than srun needs to kill a step by force.
_STOP_TIMEOUT_S = 40.0
_STEP_TIMEOUT_S = 20.0


def ask_slurm(*command: str, timeout_s: float = 30) -> str:
    """What one of Slurm's own commands prints.

    Raises:
        EngineError: Slurm is not installed, does not answer, or refuses.
    """
    try:
        done = subprocess.run(  # noqa: S603  a fixed command of Slurm's
            command, env=step_env(os.environ), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=timeout_s, check=True,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise EngineError(
            f"{command[0]} is not installed: run where Slurm's commands are"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"{command[0]}: Slurm does not answer: ask its administrator") from error
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or [f"status {error.returncode}"])[-1][:200]
        raise EngineError(
            f"{reason}: check that Slurm runs here and that SLURM_CONF, if set, is its file"
        ) from error
    return done.stdout


@dataclass(frozen=True)
class Allocation:
    """The allocation that this process runs in.

    Attributes:
        job: its id.
        nodes: their names, in Slurm's order.
        address: at which the others reach the first node.
    """

    job: str
    nodes: tuple[str, ...]
    address: str

    @classmethod
    def current(cls) -> "Allocation":
        """The allocation of this process.

        Raises:
            ConfigError: there is none.
            EngineError: Slurm does not answer.
        """
        job = os.environ.get("SLURM_JOB_ID")
        if job is None:
            raise ConfigError(
                "launcher: slurm, but this is no Slurm job: use `reproduce run`, which asks for "
                "one, or sbatch what `reproduce slurm-script` prints"
            )
        listed = os.environ.get("SLURM_JOB_NODELIST", "")
        nodes = tuple(ask_slurm("scontrol", "show", "hostnames", listed).split())
        about = ask_slurm("scontrol", "show", "node", nodes[0])
        address = re.search(r"\bNodeAddr=(\S+)", about)
        return cls(job, nodes, address[1] if address else nodes[0])

    @property
    def is_here(self) -> bool:
        """Whether this process runs on the first node."""
        return os.environ.get("SLURMD_NODENAME") == self.nodes[0]


def allocation_options(profile: Profile) -> list[str]:
    """What salloc and sbatch are asked for: whole nodes, one task on each."""
    nodes = f"--nodes={profile.topology.nodes}"
    options = [nodes, "--ntasks-per-node=1", "--exclusive", "--mem=0", *_gpus(profile)]
    if profile.slurm.hours is not None:
        options.append(f"--time={math.ceil(60 * profile.slurm.hours)}")
    return options


def step_command(profile: Profile, *options: str, nodes: int = 1) -> list[str]:
    """``srun`` for one task with all of a node, beside whatever else of the job runs there."""
    return ["srun", "--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1",
            "--cpu-bind=none", "--mpi=none", *_gpus(profile), *options]  # fmt: skip


def _gpus(profile: Profile) -> list[str]:
    count = profile.slurm.gpus_per_node
    return [] if count is None else [f"--gpus-per-node={count}"]


def step_env(env: Mapping[str, str]) -> dict[str, str]:
    """An environment without what Slurm set for this step, which srun would take for options."""
    kept = ("SLURM_CONF", "SLURM_JOB_ID", "SLURM_JOB_NODELIST")
    return {k: v for k, v in env.items() if k in kept or not k.startswith(("SLURM", "SRUN_"))}


def enter(profile: Profile, command: Sequence[str]) -> None:
    """Go on as ``command`` on an allocation's first node; return when this is there already.

    Raises:
        EngineError: Slurm is not installed or does not answer.
    """
    first = step_command(profile, "--relative=0")
    if "SLURM_JOB_ID" not in os.environ:
        if shutil.which("salloc") is None:
            raise EngineError("salloc is not installed: run where Slurm's commands are")
        allocate = ["salloc", f"--job-name={profile.name}", *allocation_options(profile)]
        words = [*allocate, *first, *command]
    elif not Allocation.current().is_here:
        words = [*first, *command]
    else:
        return
    sys.stdout.flush()
    os.execvpe(words[0], words, step_env(os.environ))  # noqa: S606  no shell wanted


class SlurmServer(Server):
    """One engine over the nodes of an allocation; leaving it ends it on every node."""

    def __init__(self, spec: ServerSpec, profile: Profile, allocation: Allocation) -> None:
        self._profile = profile
        self._allocation = allocation
        self._steps = f"engine-{secrets.token_hex(4)}"
        super().__init__(spec)

    def _launch(self) -> list[GuardedProcess]:
        per_node = (self.spec.arguments, *self.spec.headless)
        processes = []
        for rank, (node, arguments) in enumerate(
            zip(self._allocation.nodes, per_node, strict=False)
        ):
            step = step_command(
                self._profile,
                f"--jobid={self._allocation.job}",
                f"--nodelist={node}",
                f"--job-name={self._steps}",
            )
            log = self.spec.log
            process = GuardedProcess(
                [*step, *_GUARD, "--listen", "--", *_GUARD, "--", *ENGINE, *arguments],
                # srun carries the environment to the nodes, past the process lists of both ends.
                env=step_env(self.spec.whole_env),
                workdir=self.spec.workdir,
                log=log if rank == 0 else log.with_suffix(f".node-{rank}{log.suffix}"),
                stop_timeout_s=_STOP_TIMEOUT_S,
                guard_options=["--beat"],
            )
            processes.append(process)
        return processes

    def stop(self) -> None:
        """End the engine on every node and verify that no step of it is left.

        Raises:
            EngineError: a step survived, or Slurm does not say.
        """
        super().stop()
        self._wait_for_steps()
        for step in self._running():
            ask_slurm("scancel", step)
        self._wait_for_steps()
        if left := self._running():
            raise EngineError(
                f"job steps of the engine survive: {', '.join(left)}: "
                f"scancel {self._allocation.job}"
            )

    def _running(self) -> list[str]:
        rows = ask_slurm("squeue", "--noheader", "--me", "--steps", "--format=%i %j").split("\n")
        pairs = [row.split(maxsplit=1) for row in rows if row.strip()]
        return [step for step, *name in pairs if name == [self._steps]]

    def _wait_for_steps(self) -> None:
        deadline = time.monotonic() + _STEP_TIMEOUT_S
        while self._running() and time.monotonic() < deadline:
            time.sleep(0.5)
