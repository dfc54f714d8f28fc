"""What runs inside one rung's process: `vllm bench serve`'s own code.

Importing the benchmark costs several seconds, a short rung less than that. The forkserver has
imported it already (:mod:`reproduce.engine.bench_preload`); every rung still gets a process of
its own, with fresh random state and connections.
"""

import asyncio
import os
import sys
import traceback
from collections.abc import Sequence

from reproduce.engine.guard import die_with_parent


def run(arguments: Sequence[str], workdir: str, console: str, env: dict[str, str]) -> None:
    """Run one rung; its console text goes to ``console``, its JSON where the arguments say.

    Exits 0 when the client finished, 1 with the traceback in ``console`` when it did not. Whether
    the requests succeeded is not in the status: vLLM's client ends normally when all of them fail.
    """
    die_with_parent()
    os.chdir(workdir)
    os.environ.update(env)
    descriptor = os.open(console, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
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
