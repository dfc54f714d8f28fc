"""Holds an engine on two nodes until one of its processes is gone, then ends the rest.

``python -m tests.cluster.owner DIRECTORY TOKEN``, inside an allocation. The engine is a stand-in
with workers that ignore SIGTERM; ``TOKEN`` is in the arguments of everything that belongs to it.
"""

import sys
import time
from pathlib import Path

from reproduce.engine import slurm
from reproduce.engine.server import ServerSpec
from reproduce.outside import profile_store

ENGINE = """
import subprocess, sys, time
worker = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
for _ in range(2):
    subprocess.Popen([sys.executable, "-c", worker, *sys.argv[1:]])
print("started", flush=True)
time.sleep(600)
"""


def main(directory: Path, token: str) -> None:
    slurm.ENGINE = (sys.executable, "-c", ENGINE, token)
    spec = ServerSpec(
        arguments=["head"], headless=[["headless"]], env={}, workdir=directory,
        log=directory / "engine.log", host="127.0.0.1", port=1, model="m", backend="native",
        ready_timeout_s=60,
    )  # fmt: skip
    allocation = slurm.Allocation.current()
    with slurm.SlurmServer(spec, profile_store.load("cpu-slurm"), allocation) as server:
        while server.alive:
            time.sleep(0.2)
    (directory / "ended").write_text("")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
