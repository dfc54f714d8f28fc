import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduce.errors import ConfigError
from reproduce.memory.architecture import Architecture, parse_architecture
from reproduce.memory.budget import (
    GIB,
    Band,
    Budget,
    Gpu,
    Serving,
    budget_from_cache,
    budget_from_gpu,
)
from reproduce.memory.inventory import take_inventory
from reproduce.memory.kv_cache import kv_bytes_per_token
from reproduce.memory.plan import plan_topologies
from reproduce.memory.sharding import shard
from reproduce.memory.topology import Topology
from reproduce.outside.catalog import load_config, load_gpu

FULL = Serving(163_840)
SIXTEEN_RANKS = Topology(1, 1, 16, ep=True)
THREE_AXES = Topology(8, 2, ep=True)


def budget(architecture: Architecture, topology: Topology, gpu: str | Gpu) -> Budget:
    return budget_from_gpu(
        shard(architecture, take_inventory(architecture, "native", "fp8"), topology),
        kv_bytes_per_token(architecture, topology),
        load_gpu(gpu) if isinstance(gpu, str) else gpu,
        FULL,
    )


def test_the_story_of_sixteen_h100(r1: Architecture) -> None:
    assert budget(r1, SIXTEEN_RANKS, "h100-80gb").fits is False
    assert budget(r1, THREE_AXES, "h100-80gb").fits is True


def test_the_same_two_on_h200(r1: Architecture) -> None:
    assert budget(r1, SIXTEEN_RANKS, "h200-141gb").fits is True
    assert budget(r1, THREE_AXES, "h200-141gb").fits is True


def test_the_band_decides_where_it_straddles_one_request(r1: Architecture) -> None:
    wide = budget(r1, SIXTEEN_RANKS, Gpu("any", 79.2, Band(1.0, 9.0)))
    assert wide.fits == "depends"
    assert "only if the overhead is low" in wide.reason


def test_utilisation_times_total_is_used_up_exactly(r1: Architecture) -> None:
    gpu = Gpu("any", 100.0, Band(3.0, 5.0))
    found = budget(r1, THREE_AXES, gpu)
    for rank in found.ranks:
        kv = found.kv_gib[rank.stage]
        assert rank.model_bytes / GIB + kv.low + 5.0 == pytest.approx(90.0)
        assert rank.model_bytes / GIB + kv.high + 3.0 == pytest.approx(90.0)


def test_a_given_cache_is_exact(r1: Architecture) -> None:
    ranks = shard(r1, take_inventory(r1, "native", "fp8"), THREE_AXES)
    per_token = kv_bytes_per_token(r1, THREE_AXES)
    found = budget_from_cache(ranks, per_token, [23.5], FULL)
    assert found.at_least == found.at_most
    assert found.at_least.max_concurrency == pytest.approx(23.5 / found.request_gib[0], abs=0.001)
    assert found.total_gib is None
    apart = budget_from_cache(ranks, per_token, [23.5, 5.0], FULL)
    assert apart.at_least.blocks < found.at_least.blocks
    for wrong in ([1.0, 2.0, 3.0], [-1.0]):
        with pytest.raises(ConfigError):
            budget_from_cache(ranks, per_token, wrong, FULL)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01])
def test_an_absurd_utilisation_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="utilization"):
        Serving(4096, share)


R1 = parse_architecture(load_config("deepseek-r1"), "deepseek-r1")


@given(total=st.floats(60, 300), more=st.floats(0, 100), overhead=st.floats(0, 20))
def test_a_larger_gpu_never_holds_less(total: float, more: float, overhead: float) -> None:
    band = Band(overhead, overhead + 1)
    small, large = (budget(R1, THREE_AXES, Gpu("any", t, band)) for t in (total, total + more))
    assert small.at_least.tokens <= large.at_least.tokens
    assert small.at_least.tokens <= small.at_most.tokens


def test_plan_lists_every_accepted_topology_best_replica_first(r1: Architecture) -> None:
    planned, refused = plan_topologies(
        r1, "native", "fp8", gpus=16, gpu=load_gpu("h100-80gb"), serving=FULL
    )
    assert all(plan.topology.gpus == 16 for plan in planned)
    assert len({plan.topology for plan in planned}) == len(planned) == 29
    assert not refused
    fitting = [p for p in planned if p.budget.fits is True]
    assert planned[: len(fitting)] == fitting
    requests = [plan.budget.at_least.max_concurrency for plan in fitting]
    assert requests == sorted(requests, reverse=True)
    by_topology = {plan.topology: plan for plan in planned}
    assert by_topology[THREE_AXES].short_gib == 0
    short = by_topology[SIXTEEN_RANKS]
    assert short.short_gib == pytest.approx(short.budget.request_gib[0]
                                            - short.budget.kv_gib[0].low, abs=0.01)  # fmt: skip


def test_plan_names_what_vllm_refuses(r1: Architecture) -> None:
    gpu = load_gpu("h100-80gb")
    planned, refused = plan_topologies(r1, "native", "fp8", gpus=32, gpu=gpu, serving=FULL)
    assert Topology(32) in {refusal.topology for refusal in refused}
    assert not {p.topology for p in planned} & {r.topology for r in refused}
    with pytest.raises(ConfigError, match="0 GPUs"):
        plan_topologies(r1, "native", "fp8", gpus=0, gpu=gpu, serving=FULL)
