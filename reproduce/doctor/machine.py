"""What a run needs of the machine it is started on."""

import os
import shutil
import socket
from pathlib import Path

import psutil

from reproduce.doctor.checks import Check, checked
from reproduce.engine import model_source
from reproduce.engine.server import claim_port
from reproduce.outside import provenance
from reproduce.profile import Profile
from reproduce.running.launch import CACHE

_PER_SERVER_GIB = 3.0
_DISK_GIB = 2.0


def servers_at_once(profile: Profile) -> int:
    """Servers that are up together."""
    return len(profile.arms) if profile.schedule == "resident" else 1


def memory_needed_gib(profile: Profile) -> float:
    """Memory that the servers of a CPU profile take together, about, in GiB."""
    cache = float(profile.server.env.get("VLLM_CPU_KVCACHE_SPACE", 0))
    return servers_at_once(profile) * (_PER_SERVER_GIB + cache)


def engine() -> Check:
    """Whether an engine is installed."""
    version = provenance.engine_version()
    if version is None:
        return Check(
            "engine", "fail",
            "vLLM is not installed: run `make setup` for the CPU engine, or install the gpu extra",
        )  # fmt: skip
    return Check("engine", "ok", f"vLLM {version}")


def compiler(profile: Profile) -> Check:
    """Whether torch.compile has the compiler it needs; a note when not, as eager works."""
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


def cores() -> Check:
    """Whether a server and a client have a core each."""
    usable = len(os.sched_getaffinity(0))
    if usable < 2:
        return Check(
            "cores", "note", "one usable core: server and client share it, times will be noisy"
        )
    return Check("cores", "ok", f"{usable} usable")


def memory(profile: Profile) -> Check:
    """Whether the servers fit into what is free."""
    servers, needed = servers_at_once(profile), memory_needed_gib(profile)
    free = psutil.virtual_memory().available / 2**30
    text = f"{free:.1f} GiB available, about {needed:.0f} GiB needed for {servers} servers"
    if free < needed:
        return Check("memory", "fail", f"memory: {text}: use -p schedule=sequential or free some")
    return Check("memory", "ok", text)


def ports(profile: Profile) -> Check:
    """Whether the ports that a profile names are free here, which is node 0 of a cluster's."""
    first, master = profile.server.port, profile.server.master_port
    wanted = [] if first is None else [first + i for i in range(servers_at_once(profile))]
    wanted += [] if master is None else [master]

    def ask() -> str:
        for port in wanted:
            claim_port(profile.server.address, port)
        return f"{', '.join(map(str, wanted))} free" if wanted else "chosen when the servers start"

    try:
        socket.getaddrinfo(profile.server.address, None)
    except OSError:
        return Check("ports", "fail", f"server.host: {profile.server.host} is not an address")
    return checked("ports", ask)


def disk(runs: Path) -> Check:
    """Whether runs can be written, and have room."""
    place = next(p for p in (runs, *runs.absolute().parents) if p.exists())
    free = shutil.disk_usage(place).free / 2**30
    if not os.access(place, os.W_OK):
        return Check("disk", "fail", f"{place}: not writable: choose another --runs directory")
    if free < _DISK_GIB:
        return Check("disk", "fail", f"{place}: {free:.1f} GiB free, {_DISK_GIB:.0f} GiB needed")
    return Check("disk", "ok", f"{free:.0f} GiB free")


def model(profile: Profile) -> Check:
    """Whether the model is here, or can be made."""

    def ask() -> str:
        return model_source.resolve(profile.model, CACHE).name

    return checked("model", ask)
