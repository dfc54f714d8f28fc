"""Every way to lay a model over a number of GPUs that vLLM accepts, best cache first."""

from collections.abc import Iterator
from dataclasses import dataclass

from reproduce.errors import ConfigError
from reproduce.memory.architecture import Architecture, Arm, Precision
from reproduce.memory.budget import GIB, Budget, Gpu, Serving, budget_from_gpu
from reproduce.memory.inventory import take_inventory
from reproduce.memory.kv_cache import kv_bytes_per_token
from reproduce.memory.sharding import shard
from reproduce.memory.topology import Topology, check_topology

MOST_GPUS = 4096
"""Larger plans are mistypings."""


@dataclass(frozen=True, slots=True)
class PlannedTopology:
    """One layout and its budget.

    Attributes:
        topology: The layout.
        budget: Its memory on the given GPU.
        short_gib: What the tightest stage lacks for one full-length request when the overhead is
            high; 0 where the layout fits.
    """

    topology: Topology
    budget: Budget
    short_gib: float


@dataclass(frozen=True, slots=True)
class RefusedTopology:
    """A layout that vLLM does not build for this model, with the reason."""

    topology: Topology
    reason: str


def plan_topologies(
    architecture: Architecture,
    arm: Arm,
    precision: Precision,
    *,
    gpus: int,
    gpu: Gpu,
    serving: Serving,
) -> tuple[list[PlannedTopology], list[RefusedTopology]]:
    """Budget every TP × PP × DP with and without EP that uses all GPUs.

    Sorted by the full-length requests that one replica (one DP rank, TP × PP GPUs) surely holds,
    then by those of all replicas. Layouts that only fail an obvious rule, such as a TP that does
    not divide the heads, are left out of the refusals.

    Raises:
        ConfigError: The number of GPUs is not positive, or absurd.
    """
    if not 1 <= gpus <= MOST_GPUS:
        raise ConfigError(f"{gpus} GPUs; give 1 to {MOST_GPUS}")
    inventory = take_inventory(architecture, arm, precision)
    planned: list[PlannedTopology] = []
    refused: list[RefusedTopology] = []
    for topology in _layouts(gpus):
        try:
            check_topology(architecture, topology)
        except ConfigError:
            continue
        try:
            ranks = shard(architecture, inventory, topology)
        except ConfigError as error:
            refused.append(RefusedTopology(topology, str(error)))
            continue
        per_token = kv_bytes_per_token(architecture, topology)
        budget = budget_from_gpu(ranks, per_token, gpu, serving)
        planned.append(PlannedTopology(topology, budget, _short_gib(budget, serving)))
    planned.sort(
        key=lambda plan: (
            plan.budget.fits is not True,
            -plan.budget.at_least.max_concurrency,
            -plan.budget.at_least.max_concurrency * plan.topology.dp,
            plan.short_gib,
        )
    )
    return planned, refused


def _layouts(gpus: int) -> Iterator[Topology]:
    for tp in _divisors(gpus):
        for pp in _divisors(gpus // tp):
            dp = gpus // tp // pp
            yield Topology(tp, pp, dp)
            if tp * dp > 1:
                yield Topology(tp, pp, dp, ep=True)


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def _short_gib(budget: Budget, serving: Serving) -> float:
    """Missing cache on the worst stage, counting the null block that vLLM sets aside."""
    missing = (
        request + per_token * serving.block_size / GIB - there.low
        for request, per_token, there in zip(
            budget.request_gib, budget.kv_bytes_per_token, budget.kv_gib, strict=True
        )
    )
    return max(0.0, *missing)
