"""What a long run would stumble over, found before it starts."""

import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from reproduce import provenance
from reproduce.engine import model_source
from reproduce.engine.server import claim_port
from reproduce.errors import EngineError, ReproduceError
from reproduce.launch import CACHE
from reproduce.profile import Profile

State = Literal["ok", "note", "fail"]

MEMORY_PER_SERVER_GIB = 3.0
_DISK_GIB = 2.0


@dataclass(frozen=True)
class Check:
    """One thing looked at: its state, what was found, and the fix when it is not well."""

    name: str
    state: State
    found: str


def examine(profile: Profile, runs: Path) -> list[Check]:
    """Look at everything the profile needs on this machine; starts nothing."""
    if profile.kind == "published":
        return [disk(runs)]
    from reproduce import cluster_doctor  # noqa: PLC0415  it builds on this module

    if profile.launcher == "slurm":
        return [_engine(), _compiler(profile), *cluster_doctor.examine(profile, runs)]
    on_gpus = profile.topology.gpu is not None
    memory = cluster_doctor.budget(profile) if on_gpus else _memory(profile)
    return [_engine(), _compiler(profile), _cores(), memory, _ports(profile), disk(runs),
            _model(profile)]  # fmt: skip


def require(profile: Profile, runs: Path) -> list[Check]:
    """Like :func:`examine`, but the first failure is raised.

    Raises:
        ReproduceError: something the run cannot do without is missing.
    """
    checks = examine(profile, runs)
    for check in checks:
        if check.state == "fail":
            raise EngineError(check.found)
    return checks


def _from_error(name: str, ask: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", ask())
    except ReproduceError as error:
        return Check(name, "fail", str(error))


def _engine() -> Check:
    version = provenance.engine_version()
    if version is None:
        return Check(
            "engine", "fail",
            "vLLM is not installed: run `make setup` for the CPU engine, or install the gpu extra",
        )  # fmt: skip
    return Check("engine", "ok", f"vLLM {version}")


def _compiler(profile: Profile) -> Check:
    if profile.server.flags.get("enforce-eager") is True:
        return Check("compiler", "ok", "not needed: the profile runs eager")
    path = provenance.compiler()
    if path is None:
        return Check(
            "compiler", "note",
            "no C++ compiler for torch.compile: the run goes on eager, which is not the "
            "article's condition; install g++ for the real one",
        )  # fmt: skip
    return Check("compiler", "ok", Path(path).name)


def _cores() -> Check:
    usable = len(os.sched_getaffinity(0))
    if usable < 2:
        return Check(
            "cores", "note", "one usable core: server and client share it, times will be noisy"
        )
    return Check("cores", "ok", f"{usable} usable")


def _memory(profile: Profile) -> Check:
    servers = len(profile.arms) if profile.schedule == "resident" else 1
    cache = float(profile.server.env.get("VLLM_CPU_KVCACHE_SPACE", 0))
    needed = servers * (MEMORY_PER_SERVER_GIB + cache)
    free = psutil.virtual_memory().available / 2**30
    text = f"{free:.1f} GiB available, about {needed:.0f} GiB needed for {servers} servers"
    if free < needed:
        return Check("memory", "fail", f"memory: {text}: use -p schedule=sequential or free some")
    return Check("memory", "ok", text)


def _ports(profile: Profile) -> Check:
    first = profile.server.port

    def ask() -> str:
        if first is None:
            return "chosen when the servers start"
        resident = len(profile.arms) if profile.schedule == "resident" else 1
        wanted = range(first, first + resident)
        for port in wanted:
            claim_port(profile.server.address, port)
        return ", ".join(map(str, wanted)) + " free"

    try:
        socket.getaddrinfo(profile.server.address, None)
    except OSError:
        return Check("ports", "fail", f"server.host: {profile.server.host} is not an address")
    return _from_error("ports", ask)


def disk(runs: Path) -> Check:
    """Whether runs can be written, and have room."""
    place = next(p for p in (runs, *runs.absolute().parents) if p.exists())
    free = shutil.disk_usage(place).free / 2**30
    if not os.access(place, os.W_OK):
        return Check("disk", "fail", f"{place}: not writable: choose another --runs directory")
    if free < _DISK_GIB:
        return Check("disk", "fail", f"{place}: {free:.1f} GiB free, {_DISK_GIB:.0f} GiB needed")
    return Check("disk", "ok", f"{free:.0f} GiB free")


def _model(profile: Profile) -> Check:
    def ask() -> str:
        return model_source.resolve(profile.model, CACHE).name

    return _from_error("model", ask)
