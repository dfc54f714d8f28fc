"""Imports what the notebooks import, then forks a kernel for every line on standard input."""

import contextlib
import gc
import json
import os
import signal
import sys

from ipykernel.kernelapp import IPKernelApp
from matplotlib.backends import backend_agg, backend_svg

from reproduce.notebook import claims, evidence, measuring, memory, verdict

_PRELOADED = (backend_agg, backend_svg, claims, evidence, measuring, memory, verdict)


def serve() -> None:
    """Answer every request with the process id of its kernel, until standard input ends."""
    # Nobody waits for the kernels here, and what they find imported they need not go through.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _be_kernel(**json.loads(line))
            return
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _be_kernel(connection_file: str, where: str, env: dict[str, str]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()  # a Ctrl-C at the terminal is for whoever asked for the kernel
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    os.chdir(where)
    os.environ.clear()
    os.environ.update(env)
    with contextlib.suppress(SystemExit):
        IPKernelApp.launch_instance(argv=["-f", connection_file], parent_handle=os.getppid())
    os._exit(0)


if __name__ == "__main__":
    serve()
