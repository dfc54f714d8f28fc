"""The counts that vLLM 0.32.0 gave on the meta device, and what must hold for any model."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduce.errors import ConfigError
from reproduce.memory.architecture import Architecture, Arm, Precision, parse_architecture
from reproduce.memory.budget import GIB
from reproduce.memory.inventory import Group, take_inventory
from reproduce.memory.sharding import RankMemory, shard
from reproduce.memory.topology import Topology, partition_layers
from reproduce.outside.catalog import load_config


def ranks(
    architecture: Architecture,
    topology: Topology,
    arm: Arm = "native",
    precision: Precision = "fp8",
    *,
    mla: bool = True,
) -> tuple[RankMemory, ...]:
    return shard(architecture, take_inventory(architecture, arm, precision, mla=mla), topology)


@pytest.mark.parametrize(
    ("topology", "gib"),
    [
        (Topology(), [626.920]),
        (Topology(8), [79.293]),
        (Topology(8, ep=True), [79.293]),
        (Topology(16), [40.177]),
        (Topology(8, 2, ep=True), [38.411, 40.882]),
        (Topology(1, 1, 16, ep=True), [55.843]),
        (Topology(8, 1, 2), [41.221]),
        (Topology(8, 1, 2, ep=True), [43.303]),
    ],
)
def test_parameters_as_vllm_allocates_them(
    r1: Architecture, topology: Topology, gib: list[float]
) -> None:
    found = [rank.parameter_bytes / GIB for rank in ranks(r1, topology)]
    assert found == pytest.approx(gib, abs=0.0005)


def test_absorbed_copies_come_from_fp8_only(r1: Architecture) -> None:
    (whole,) = ranks(r1, Topology())
    assert whole.absorbed_bytes == 61 * 33_554_432
    assert [r.absorbed_bytes for r in ranks(r1, Topology(8, 2))] == [31 * 2**22, 30 * 2**22]
    assert ranks(r1, Topology(), precision="bf16")[0].absorbed_bytes == 0
    assert ranks(r1, Topology(), mla=False)[0].absorbed_bytes == 0


def test_arms_differ_where_experts_are_sequence_parallel(r1: Architecture) -> None:
    for topology, differ in [(Topology(8, 1, 2, ep=True), True), (Topology(8, ep=True), False)]:
        native, transformers = (ranks(r1, topology, arm)[0] for arm in ("native", "transformers"))
        shared = Group.SHARED_EXPERTS
        assert (native.group_bytes[shared] != transformers.group_bytes[shared]) == differ


def test_the_correction_bias_is_a_parameter_in_one_class_and_a_buffer_in_the_other(
    r1: Architecture,
) -> None:
    (native,), (transformers,) = (ranks(r1, Topology(8), arm) for arm in ("native", "transformers"))
    assert native.parameter_bytes - transformers.parameter_bytes == 59_392


def test_ranks_of_a_stage_are_listed_apart_only_where_they_differ(r1: Architecture) -> None:
    uneven = ranks(r1, Topology(1, 1, 24, ep=True))
    assert [rank.rank_in_stage for rank in uneven] == [0, 16]
    assert uneven[0].parameter_bytes > uneven[1].parameter_bytes
    assert len(ranks(r1, Topology(1, 1, 16, ep=True))) == 1
    all_dense = Topology(1, 61, 24, ep=True)
    stages = Counter(rank.stage for rank in ranks(r1, all_dense))
    assert [stages[0], stages[2], stages[3]] == [1, 1, 2]


@pytest.mark.parametrize(
    ("topology", "reason"),
    [
        (Topology(7), "attention heads"),
        (Topology(1, 62), "61 layers"),
        (Topology(32), "576 is not divisible by the quantization block of 128"),
        (Topology(1, 1, 128), "16 expert features"),
        (Topology(1, 1, 24), "2048 by 24"),
        (Topology(0), "at least 1"),
        (Topology(1, 1, -2), "at least 1"),
    ],
)
def test_refusals_say_why(r1: Architecture, topology: Topology, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ranks(r1, topology)


def test_bf16_is_not_bound_to_blocks(r1: Architecture) -> None:
    assert ranks(r1, Topology(32), precision="bf16")


def test_expert_scales_get_finer_blocks_where_a_shard_cuts_them(r1: Architecture) -> None:
    """64 features a rank: blocks of 64 × 64, four times as many per weight as 128 × 128."""
    coarse, fine = (ranks(r1, Topology(8, 1, dp))[0] for dp in (2, 4))
    dense = ranks(r1, Topology(8, 1, 4, ep=True), "transformers")[0]
    routed = Group.ROUTED_EXPERTS
    assert coarse.group_bytes[routed] == 2 * fine.group_bytes[routed]
    assert fine.group_bytes[Group.SCALES] > coarse.group_bytes[Group.SCALES]
    assert dense.group_bytes[routed] == fine.group_bytes[routed]


def test_models_without_fp8_weights_have_none() -> None:
    lite = parse_architecture(load_config("deepseek-v2-lite"), "lite")
    with pytest.raises(ConfigError, match="quantization_config"):
        take_inventory(lite, "native", "fp8")


def test_sparse_attention_has_one_way_only() -> None:
    sparse = parse_architecture(load_config("deepseek-v3.2"), "v3.2")
    with pytest.raises(ConfigError, match="--arm native"):
        take_inventory(sparse, "transformers", "fp8")
    with pytest.raises(ConfigError, match="needs MLA"):
        take_inventory(sparse, "native", "fp8", mla=False)


@pytest.mark.parametrize(
    ("stages", "sizes"),
    [(2, [31, 30]), (4, [15, 15, 16, 15]), (8, [7, 7, 8, 8, 8, 8, 8, 7])],
)
def test_partition_of_61_layers(stages: int, sizes: list[int]) -> None:
    assert [len(stage) for stage in partition_layers(61, stages)] == sizes


@given(layers=st.integers(1, 200), data=st.data())
def test_stages_hold_every_layer_once(layers: int, data: st.DataObject) -> None:
    stages = partition_layers(layers, data.draw(st.integers(1, layers)))
    assert [layer for stage in stages for layer in stage] == list(range(layers))
    sizes = [len(stage) for stage in stages]
    assert max(sizes) - min(sizes) <= 1


@st.composite
def small_models(draw: st.DrawFn) -> dict[str, Any]:
    """Configurations of the family whose sizes divide by 8, FP8 blocks included."""
    layers = draw(st.integers(1, 12))
    config = {
        "model_type": "deepseek_v3",
        "hidden_size": 128 * draw(st.integers(1, 4)),
        "num_hidden_layers": layers,
        "num_attention_heads": 16 * draw(st.integers(1, 3)),
        "vocab_size": draw(st.integers(64, 5000)),
        "max_position_embeddings": 4096,
        "intermediate_size": 1024 * draw(st.integers(1, 3)),
        "q_lora_rank": draw(st.sampled_from([None, 128, 192])),
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "n_routed_experts": draw(st.integers(1, 40)),
        "n_shared_experts": draw(st.sampled_from([None, 1, 2])),
        "moe_intermediate_size": 1024,
        "first_k_dense_replace": draw(st.integers(0, layers)),
        "moe_layer_freq": draw(st.integers(1, 3)),
        "topk_method": draw(st.sampled_from([None, "noaux_tc"])),
    }
    blocks = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    return {**config, "quantization_config": blocks} if draw(st.booleans()) else config


arms = st.sampled_from(["native", "transformers"])


@given(config=small_models(), arm=arms, data=st.data())
def test_stages_add_up_to_the_whole(config: dict[str, Any], arm: Arm, data: st.DataObject) -> None:
    model = parse_architecture(config, "generated")
    pp = data.draw(st.integers(1, model.num_hidden_layers))
    tp = data.draw(st.sampled_from([1, 2, 4, 8]))
    (whole,) = ranks(model, Topology(tp), arm, model.precision)
    stages = ranks(model, Topology(tp, pp), arm, model.precision)
    assert sum(rank.parameter_bytes for rank in stages) == whole.parameter_bytes
    assert sum(rank.absorbed_bytes for rank in stages) == whole.absorbed_bytes


@given(config=small_models(), arm=arms, tp=st.sampled_from([2, 4, 8]), ep=st.booleans())
def test_more_ranks_never_hold_more_and_together_hold_everything(
    config: dict[str, Any], arm: Arm, tp: int, ep: bool
) -> None:
    model = parse_architecture(config, "generated")
    (whole,) = ranks(model, Topology(), arm, model.precision)
    parts = ranks(model, Topology(tp, ep=ep), arm, model.precision)
    assert all(part.parameter_bytes <= whole.parameter_bytes for part in parts)
    assert tp * max(part.parameter_bytes for part in parts) >= whole.parameter_bytes


@given(config=small_models(), data=st.data(), ranks_in_group=st.integers(1, 48))
def test_every_expert_is_on_one_rank(
    config: dict[str, Any], data: st.DataObject, ranks_in_group: int
) -> None:
    model = parse_architecture(config, "generated")
    topology = Topology(1, 1, ranks_in_group, ep=True)
    parts = ranks(model, topology, precision=model.precision)
    (whole,) = ranks(model, Topology(), precision=model.precision)
    routed = [part.group_bytes[Group.ROUTED_EXPERTS] for part in parts]
    first = parts[1].rank_in_stage if len(parts) == 2 else ranks_in_group
    total = first * routed[0] + (ranks_in_group - first) * routed[-1]
    assert total == whole.group_bytes[Group.ROUTED_EXPERTS]


@given(config=small_models(), arm=arms, tp=st.sampled_from([1, 8]), dp=st.integers(1, 3))
def test_groups_add_up(config: dict[str, Any], arm: Arm, tp: int, dp: int) -> None:
    model = parse_architecture(config, "generated")
    for rank in ranks(model, Topology(tp, 1, dp, ep=True), arm, model.precision):
        assert sum(rank.group_bytes.values()) == rank.model_bytes
        assert rank.group_bytes[Group.BUFFERS] == rank.buffer_bytes
        assert rank.group_bytes[Group.ABSORBED] == rank.absorbed_bytes
