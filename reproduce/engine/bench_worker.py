"""What runs inside one rung's process: `vllm bench serve`'s own code.

Importing the benchmark costs several seconds, a short rung less than that. The forkserver has
imported it already (:mod:`reproduce.engine.bench_preload`); every rung still gets a process of
its own, with fresh random state and connections.
"""

import asyncio
import os
import sys
import time
import traceback
from collections.abc import MutableSequence, Sequence
from typing import TextIO

from reproduce.engine.guard import die_with_parent

_PHASES = ("Starting initial single prompt test run", "Starting main benchmark run")
"""What `vllm bench serve` prints before its first request, and before the measured ones."""


class _Console:
    """A text stream that notes when the benchmark announces a phase."""

    def __init__(self, stream: TextIO, moments: MutableSequence[float]) -> None:
        self._stream, self._moments = stream, moments

    def write(self, text: str) -> int:
        for index, phase in enumerate(_PHASES):
            if phase in text:
                self._moments[index] = time.monotonic()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def run(
    arguments: Sequence[str], workdir: str, console: str, env: dict[str, str],
    moments: MutableSequence[float],
) -> None:  # fmt: skip
    """Run one rung; its console text goes to ``console``, its JSON where the arguments say.

    ``moments`` is shared with the parent: the system's monotonic clock, in seconds, at the first
    request and at the first measured one.

    Exits 0 when the client finished, 1 with the traceback in ``console`` when it did not. Whether
    the requests succeeded is not in the status: vLLM's client ends normally when all of them fail.
    """
    die_with_parent()
    os.chdir(workdir)
    os.environ.update(env)
    descriptor = os.open(console, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = _Console(os.fdopen(1, "w", buffering=1, closefd=False), moments)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    try:
        from reproduce.engine.bench_preload import (  # noqa: PLC0415  preloaded by the forkserver
            FlexibleArgumentParser,
            serve,
        )

        parser = FlexibleArgumentParser(prog="vllm bench serve")
        serve.add_cli_args(parser)
        asyncio.run(serve.main_async(parser.parse_args(arguments)))
    except Exception:
        traceback.print_exc()
        sys.exit(1)
