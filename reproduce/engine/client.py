"""Rungs as separate processes of a forkserver that has imported vLLM's benchmark once."""

import importlib.util
import multiprocessing
import multiprocessing.forkserver
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from reproduce.engine import bench_worker
from reproduce.engine.process import ending
from reproduce.errors import EngineError

_PRELOAD = "reproduce.engine.bench_preload"


@dataclass(frozen=True)
class ClientRun:
    """One client process's outcome.

    Attributes:
        result: bytes of the JSON it wrote, None when it wrote none.
        problem: why there is no result, in its own last words; None when there is one.
        wall_s: whole process, warm-up included.
        warmup_s: from the first request to the first measured one; None when it did not get there.
        measured_at: when it sent the first measured request, on the monotonic clock.
    """

    result: bytes | None
    problem: str | None
    wall_s: float
    warmup_s: float | None = None
    measured_at: float | None = None


def context() -> ForkServerContext:
    """A forkserver context whose server has vLLM's benchmark imported.

    Raises:
        EngineError: vLLM is not installed.
    """
    if importlib.util.find_spec("vllm") is None:
        raise EngineError("vLLM is not installed: run `make setup` (CPU) or install the gpu extra")
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload([_PRELOAD])
    return made


class Client:
    """Runs rungs one after another, each in a fresh process."""

    def __init__(self, workdir: Path, env: Mapping[str, str]) -> None:
        self._context = context()
        # The import goes on while the servers start.
        multiprocessing.forkserver.ensure_running()
        self._workdir = workdir
        self._env = dict(env)

    def run(
        self, arguments: Sequence[str], result: Path, timeout_s: float, api_key: str
    ) -> ClientRun:
        """Run ``vllm bench serve`` with ``arguments``, which name ``result`` as their output.

        A client that fails, hangs past ``timeout_s`` or is killed gives a run with a problem,
        never an exception: what it means for the rung is the caller's to decide.
        """
        with tempfile.NamedTemporaryFile(suffix=".txt") as console:
            moments = self._context.RawArray("d", 2)
            process: BaseProcess = self._context.Process(
                target=bench_worker.run,
                args=(
                    list(arguments),
                    str(self._workdir),
                    console.name,
                    {**self._env, "OPENAI_API_KEY": api_key},
                    moments,
                ),
            )
            started = time.monotonic()
            try:
                process.start()
                process.join(timeout_s)
                late = process.is_alive()
            finally:
                if process.is_alive():
                    process.kill()
                    process.join()
            wall_s = time.monotonic() - started
            words = _last_line(Path(console.name).read_text(errors="replace"))
        problem = None
        if late:
            problem = f"the client did not finish within {timeout_s:.0f} s"
        elif process.exitcode:
            problem = f"the client {ending(process.exitcode)}: {words}"
        elif not result.is_file():
            problem = f"the client wrote no result: {words}"
        data = result.read_bytes() if problem is None else None
        result.unlink(missing_ok=True)
        first, measured = moments
        if not (first and measured):
            return ClientRun(data, problem, wall_s)
        return ClientRun(data, problem, wall_s, measured - first, measured)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:240] if lines else "it printed nothing"
