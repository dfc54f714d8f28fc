"""What a run asks for, held against the memory model, earlier runs and the time there is."""

from pathlib import Path
from typing import Any

from reproduce.doctor.checks import Check
from reproduce.errors import ReproduceError
from reproduce.memory import topology as layout
from reproduce.memory.architecture import parse_architecture
from reproduce.memory.budget import Budget, Serving, budget_from_gpu
from reproduce.memory.inventory import take_inventory
from reproduce.memory.kv_cache import kv_bytes_per_token
from reproduce.memory.sharding import shard
from reproduce.outside import catalog
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from reproduce.plan import ladder
from reproduce.profile import Profile
from reproduce.reading import analysis

UTILISATION = 0.9
"""vLLM's own share of a GPU's memory, where a profile gives none."""


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
        float(flags.get("gpu-memory-utilization", UTILISATION)),
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


def time(profile: Profile, runs: Path, limit_s: float | None) -> Check:
    """Whether the plan, and its longest rung, end before an allocation does."""
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
