"""A command whose whole process group ends with it, with its object, or with this program."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from reproduce.engine.guard import end_group, group_members
from reproduce.errors import EngineError


def ending(status: int) -> str:
    """How a process ended, by its exit status: 3, or -9 or 137 for one that SIGKILL ended."""
    number = -status if status < 0 else status - 128
    if number not in {sign.value for sign in signal.Signals}:
        return f"exited with status {status}"
    text = f"was killed by {signal.Signals(number).name}"
    # The kernel tells nobody but its own log.
    hint = " (as the kernel does when memory runs out)" if number == signal.SIGKILL else ""
    return f"{text}{hint}"


class GuardedProcess:
    """A running command under :mod:`reproduce.engine.guard`.

    Attributes:
        log: file that gets everything the command prints, from its first byte.
        guard: the guard's process.
        pgid: process group of the command, None when it did not start.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        workdir: Path,
        log: Path,
        stop_timeout_s: float,
        guard_options: Sequence[str] = (),
    ) -> None:
        self.log = log
        self._stop_timeout_s = stop_timeout_s
        read_fd, write_fd = os.pipe()
        owners = [os.getpid()]
        # A kernel outlives a killed papermill by seconds; its parent is watched as well.
        if parent := os.environ.get("JPY_PARENT_PID"):
            owners.append(int(parent))
        watched = [argument for pid in owners for argument in ("--owner", str(pid))]
        guard = [sys.executable, "-m", "reproduce.engine.guard", "--report", str(write_fd)]
        guard += ["--log", str(log.absolute())]
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self.guard = subprocess.Popen(  # noqa: S603  our own interpreter and modules
                [*guard, *watched, *guard_options, "--", *command],
                cwd=workdir,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(write_fd,),
                start_new_session=True,
            )
        os.close(write_fd)
        with os.fdopen(read_fd) as report:
            line = report.readline()
        self.pgid = int(line) if line.strip() else None

    @property
    def alive(self) -> bool:
        """Whether the command's first process is still running."""
        return self.guard.poll() is None

    def ask(self) -> None:
        """Ask the command to end; :meth:`stop` waits for it."""
        if self.alive:
            self.guard.terminate()

    def stop(self) -> None:
        """End the command and verify that nothing of its group lives.

        Raises:
            EngineError: a process survived even SIGKILL.
        """
        self.ask()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.guard.wait(self._stop_timeout_s)
        # The guard may itself have been killed: then its command is ours to end.
        if self.pgid is not None and group_members(self.pgid) and not end_group(self.pgid):
            raise EngineError(f"processes of the engine survive (process group {self.pgid})")
        if self.alive:
            self.guard.kill()
            self.guard.wait()
