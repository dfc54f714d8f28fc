"""Kernels forked from one process that holds the notebooks' imports already.

A kernel that only reads spends most of its time on importing pandas, matplotlib and IPython.
Papermill starts, watches and ends these like any other; what differs is where the process is from.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

import psutil
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

_NURSERY = "reproduce.notebook.nursery"


@contextlib.contextmanager
def forked() -> Iterator[type[AsyncKernelManager]]:
    """A kernel manager whose kernels are forked; they end within a second of it."""
    source = _Nursery()

    class Manager(AsyncKernelManager):  # type: ignore[misc]
        async def _async_pre_start_kernel(self, **asked: Any) -> Any:
            self.provisioner = _Provisioner(
                kernel_id=str(uuid.uuid4()), kernel_spec=self.kernel_spec, parent=self
            )
            self.provisioner.nursery = source
            return await super()._async_pre_start_kernel(**asked)

    try:
        yield Manager
    finally:
        source.close()


class _Nursery:
    """The process to fork from. It ends with this one, and its kernels end with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
            [sys.executable, "-P", "-m", _NURSERY],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._asks = cast("IO[str]", self._process.stdin)
        self._answers = cast("IO[str]", self._process.stdout)

    def fork(self, connection_file: str, where: Path, env: Mapping[str, str]) -> "_Kernel":
        """Start a kernel with a directory and an environment of its own.

        Raises:
            RuntimeError: the process to fork from does not live.
        """
        asked = {"connection_file": connection_file, "where": str(where), "env": dict(env)}
        with self._lock, contextlib.suppress(OSError, ValueError, psutil.Error):
            self._asks.write(json.dumps(asked) + "\n")
            self._asks.flush()
            return _Kernel(int(self._answers.readline()))
        raise RuntimeError("the process that kernels are forked from ended")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class _Kernel(psutil.Process):
    """A process that is not our child, with as much of ``Popen`` as a provisioner asks for."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        return None if self.is_running() else 0

    def send_signal(self, sig: int) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            super().send_signal(sig)


class _Provisioner(LocalProvisioner):  # type: ignore[misc]
    nursery: _Nursery

    async def launch_kernel(self, cmd: list[str], **asked: Any) -> Any:
        where, env = Path(asked.get("cwd") or Path.cwd()), asked.get("env") or os.environ
        self.process = self.nursery.fork(self.parent.connection_file, where, env)
        self.pid, self.cwd = self.process.pid, where
        return self.connection_info
