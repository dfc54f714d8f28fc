"""The engine's parent process: when whoever wanted the engine is gone, so is the engine.

``python -m reproduce.engine.guard [--report FD] [--owner PID ...] [--log FILE] [--beat | --listen]
-- COMMAND``

The guard starts the command in a session of its own and watches the owners, its parent if none
is named. It ends the whole process group when an owner disappears (kill -9 included), when it is
asked to (SIGTERM), and when the command itself exits and leaves workers behind. It is the reaper
of its descendants, so a worker whose parent died first is still found.

An owner on another machine is heard instead: a guard with ``--beat`` writes to its command's
standard input as long as all is well, and one with ``--listen``, at the other end of whatever
carries that input there, takes silence for its owner's death.

With ``--log`` it also keeps the file that the command prints into from growing without end.
"""

import argparse
import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from reproduce.engine import logs

POLL_S = 0.25
GRACE_S = 5.0
SILENCE_S = 8.0
FAREWELL_S = 2 * GRACE_S + 4
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def prctl(option: int, value: int) -> None:
    """Linux process control; ignored where libc does not have it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def group_members(pgid: int) -> list[psutil.Process]:
    """Living processes of a process group, zombies left out."""
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == pgid and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members


def end_group(pgid: int, grace_s: float = GRACE_S) -> bool:
    """Terminate, wait, kill, verify; True when nothing of the group lives any more."""
    for sign, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, GRACE_S)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pgid, sign)
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
            if not group_members(pgid):
                return True
            time.sleep(0.05)
    return False


def _end_descendants() -> None:
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            process.kill()


class _Owners:
    """Whoever wants the command: processes here, and perhaps a heartbeat from elsewhere."""

    def __init__(self, pids: Sequence[int], *, listen: bool) -> None:
        self._watched = [psutil.Process(pid) for pid in pids]
        self._listen = listen
        self._heard = time.monotonic()

    def wait(self) -> bool:
        """Wait for a moment; whether all of them are still there."""
        if not self._listen:
            time.sleep(POLL_S)
        elif select.select([0], [], [], POLL_S)[0]:
            if not os.read(0, 4096):
                return False
            self._heard = time.monotonic()
        silent = self._listen and time.monotonic() - self._heard > SILENCE_S
        return not silent and all(map(_alive, self._watched))


def _beat(child: subprocess.Popen[bytes]) -> None:
    if child.stdin is not None:
        with contextlib.suppress(OSError):
            os.write(child.stdin.fileno(), b".")


def _say_farewell(child: subprocess.Popen[bytes]) -> None:
    """Let whoever listens end by itself first: from afar, a signal could only kill it."""
    if child.stdin is not None:
        with contextlib.suppress(OSError):
            child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(FAREWELL_S)


def watch(
    command: Sequence[str],
    owners: Sequence[int],
    report_fd: int | None = None,
    *,
    beat: bool = False,
    listen: bool = False,
    log: Path | None = None,
) -> int:
    """Run ``command`` until it exits, an owner disappears or SIGTERM arrives.

    Args:
        command: what to run.
        owners: processes that want it.
        report_fd: descriptor that is told the command's process id.
        beat: write to the command's standard input as long as it is wanted.
        listen: also end when this process's standard input closes or falls silent.
        log: file that the command prints into, to be bounded.

    Returns:
        The command's exit status, 128 and the signal's number when a signal ended it; 0 when the
        guard did.
    """
    asked = False

    def ask(*_: object) -> None:
        nonlocal asked
        asked = True

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # A guard outlives its parent, were that another guard, for as long as ending takes.
    prctl(_PR_SET_PDEATHSIG, 0)
    try:
        wanted = _Owners(owners, listen=listen)
    except psutil.NoSuchProcess:
        return 0
    child = subprocess.Popen(  # noqa: S603  the launcher's own command
        command,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509  this process has one thread
        stdin=subprocess.PIPE if beat else subprocess.DEVNULL,
    )
    if child.stdin is not None:
        os.set_blocking(child.stdin.fileno(), False)
    if report_fd is not None:
        with os.fdopen(report_fd, "w") as report:
            report.write(f"{child.pid}\n")
    while not asked and child.poll() is None and wanted.wait():
        _beat(child)
        if log is not None:
            # A disk that is full or away is no reason to end the engine.
            with contextlib.suppress(OSError):
                logs.trim(log)
    status = child.poll()
    _say_farewell(child)
    end_group(child.pid)
    _end_descendants()
    return 128 - status if status and status < 0 else status or 0


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of the guard."""
    parser = argparse.ArgumentParser(prog="reproduce.engine.guard", description=__doc__)
    parser.add_argument("--report", type=int)
    parser.add_argument("--owner", type=int, action="append")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--beat", action="store_true")
    parser.add_argument("--listen", action="store_true")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    owners = options.owner or [os.getppid()]
    return watch(
        options.command,
        owners,
        options.report,
        beat=options.beat,
        listen=options.listen,
        log=options.log,
    )


if __name__ == "__main__":
    sys.exit(main())
