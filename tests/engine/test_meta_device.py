"""The closed form against the installed vLLM on the meta device: 0 bytes of difference.

Run with -s to see the table.
"""

import sys
from dataclasses import dataclass
from typing import Any

import pytest

from reproduce.catalog import load_config
from reproduce.engine.meta_device import Answer, Question, ask
from reproduce.errors import ConfigError
from reproduce.memory.architecture import Arm, Precision, parse_architecture
from reproduce.memory.inventory import take_inventory
from reproduce.memory.kv_cache import (
    CPU_BLOCK_SIZE,
    CPU_MLA_BLOCK_SIZE,
    capacity,
    kv_bytes_per_token,
)
from reproduce.memory.sharding import RankMemory, shard
from reproduce.memory.topology import Topology

pytestmark = pytest.mark.engine

R1_TOPOLOGIES = [
    Topology(tp, pp, dp, ep)
    for tp, pp, dp, ep in [
        (1, 1, 1, False),
        (1, 1, 1, True),
        (1, 1, 8, False),
        (1, 1, 8, True),
        (1, 1, 16, True),
        (1, 1, 24, True),
        (1, 2, 8, True),
        (1, 8, 2, True),
        (2, 1, 1, False),
        (2, 1, 8, True),
        (2, 4, 2, True),
        (4, 1, 4, False),
        (4, 1, 4, True),
        (4, 4, 1, True),
        (8, 1, 1, False),
        (8, 1, 1, True),
        (8, 1, 2, False),
        (8, 1, 2, True),
        (8, 1, 3, True),
        (8, 1, 4, False),
        (8, 2, 1, False),
        (8, 2, 1, True),
        (8, 2, 2, True),
        (16, 1, 1, False),
        (16, 1, 1, True),
        (16, 2, 2, True),
    ]
]

TINY = load_config("tiny-deepseek-v3")


@dataclass(frozen=True)
class Case:
    """One rank that both sides count."""

    model: str
    precision: Precision
    arm: Arm
    topology: Topology
    mla: bool
    rank: RankMemory
    kv_bytes_per_token: int
    question: Question


def cases(
    model: str,
    precision: Precision,
    arm: Arm,
    topology: Topology,
    *,
    mla: bool = True,
    layers: int | None = None,
) -> list[Case]:
    """Every distinct rank of a topology, at most three of its stages."""
    config = dict(load_config(model))
    if layers:
        config["num_hidden_layers"] = layers
    architecture = parse_architecture(config, model)
    ranks = shard(architecture, take_inventory(architecture, arm, precision, mla=mla), topology)
    per_token = kv_bytes_per_token(architecture, topology, mla=mla)
    stages = {0, topology.pp // 2, topology.pp - 1}
    return [
        Case(
            model if layers is None else f"{model}, {layers} layers",
            precision,
            arm,
            topology,
            mla,
            rank,
            per_token[rank.stage],
            question(config, precision, arm, topology, rank.stage, rank.rank_in_stage, mla=mla),
        )
        for rank in ranks
        if rank.stage in stages
    ]


def question(
    config: dict[str, Any],
    precision: Precision,
    arm: Arm,
    topology: Topology,
    stage: int = 0,
    rank: int = 0,
    *,
    mla: bool = True,
) -> Question:
    if precision == "bf16":
        config = {key: value for key, value in config.items() if key != "quantization_config"}
    t = topology
    return Question(config, arm, t.tp, t.pp, t.dp, t.ep, stage, rank, mla)


def assert_equal_to_the_byte(compared: list[Case], answers: list[Answer]) -> None:
    """Show the comparison, then demand that nothing differs."""
    columns = "{:26}{:6}{:14}{:24}{:>8}{:>20}{:>12}"
    lines = [columns.format("model", "", "arm", "topology", "rank", "bytes", "difference")]
    wrong = []
    for case, answer in zip(compared, answers, strict=True):
        label = case.topology.label + ("" if case.mla else ", no MLA")
        assert answer.memory is not None, f"{label}: {answer.refusal}"
        rank, found = case.rank, answer.memory
        name = f"{rank.stage}.{rank.rank_in_stage}"
        difference = found.model_bytes - rank.model_bytes
        sizes = (f"{rank.model_bytes:,}", f"{difference:,}")
        lines.append(columns.format(case.model, case.precision, case.arm, label, name, *sizes))
        if found != rank or answer.kv_bytes_per_token != case.kv_bytes_per_token:
            wrong.append((case, answer))
    topologies = {(c.model, c.precision, c.arm, c.topology, c.mla) for c in compared}
    lines.append(f"{len(topologies)} topologies, {len(compared)} ranks, {len(wrong)} differ")
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    assert not wrong


def test_native_class_of_the_real_671b_model() -> None:
    compared = [
        case
        for precision in ("fp8", "bf16")
        for topology in R1_TOPOLOGIES
        for case in cases("deepseek-r1", precision, "native", topology)
    ]
    assert len({(case.precision, case.topology) for case in compared}) >= 40
    assert_equal_to_the_byte(compared, ask([case.question for case in compared]))


def test_transformers_class_of_the_real_671b_model() -> None:
    compared = [
        *cases("deepseek-r1", "fp8", "transformers", Topology(8, 2, 1, ep=True)),
        *cases("deepseek-r1", "fp8", "transformers", Topology(8, 1, 2, ep=True)),
        *cases("deepseek-r1", "bf16", "transformers", Topology(1, 1, 24, ep=True)),
        *cases("deepseek-r1", "fp8", "transformers", Topology(8), mla=False),
    ]
    assert_equal_to_the_byte(compared, ask([case.question for case in compared]))


def test_the_rest_of_the_family() -> None:
    compared = [
        *cases("deepseek-r1", "fp8", "native", Topology(8), mla=False),
        *cases("deepseek-v3.2", "fp8", "native", Topology(8)),
        *cases("deepseek-v3.2", "bf16", "native", Topology(8, 2, 2, ep=True)),
        *cases("kimi-k2", "fp8", "native", Topology(16, ep=True)),
        *cases("kimi-k2", "bf16", "transformers", Topology(8), layers=6),
        *cases("deepseek-v2", "bf16", "native", Topology(8, 2)),
        *cases("deepseek-v2", "bf16", "transformers", Topology(8), mla=False, layers=6),
        *cases("deepseek-v2-lite", "bf16", "native", Topology(2, 2)),
        *cases("deepseek-v2-lite", "bf16", "native", Topology(8, 1, 2, ep=True)),
        *cases("deepseek-v2-lite", "bf16", "transformers", Topology(8, 1, 2, ep=True), layers=6),
        *cases("tiny-deepseek-v3", "bf16", "native", Topology()),
        *cases("tiny-deepseek-v3", "bf16", "native", Topology(), mla=False),
        *cases("tiny-deepseek-v3", "bf16", "transformers", Topology(2)),
        *cases("tiny-deepseek-v3", "bf16", "transformers", Topology(), mla=False),
    ]
    assert_equal_to_the_byte(compared, ask([case.question for case in compared]))


def test_vllm_refuses_what_the_closed_form_refuses() -> None:
    r1 = load_config("deepseek-r1")
    refused = [Topology(7), Topology(32), Topology(32, 2), Topology(1, 1, 128)]
    architecture = parse_architecture(r1, "model")
    inventory = take_inventory(architecture, "native", "fp8")
    for topology in refused:
        with pytest.raises(ConfigError):
            shard(architecture, inventory, topology)
    answers = ask([question(r1, "fp8", "native", topology) for topology in refused])
    assert [answer.refusal is not None for answer in answers] == [True] * len(refused)


def test_blocks_that_a_merged_layer_may_cut() -> None:
    """V2-Lite's MLP is no multiple of the FP8 blocks; vLLM takes it anyway, and rounds up."""
    blocks = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128] * 2}
    config = {**load_config("deepseek-v2-lite"), "quantization_config": blocks}
    architecture = parse_architecture(config, "model")
    (rank,) = shard(architecture, take_inventory(architecture, "native", "fp8"), Topology())
    (answer,) = ask([question(config, "fp8", "native", Topology())])
    assert answer.memory == rank


def test_tokens_on_this_machine() -> None:
    """The two capacities that both arms log for 1 GiB on a CPU without AMX."""
    expected = {True: (CPU_MLA_BLOCK_SIZE, 233_008), False: (CPU_BLOCK_SIZE, 87_296)}
    asked = [(arm, mla) for arm in ("native", "transformers") for mla in (True, False)]
    answers = ask([question(TINY, "bf16", arm, Topology(), mla=mla) for arm, mla in asked])
    for (arm, mla), answer in zip(asked, answers, strict=True):
        assert answer.kv_bytes_per_token is not None
        assert answer.block_size is not None
        assert answer.max_model_len is not None
        found = capacity(
            [2**30],
            [answer.kv_bytes_per_token],
            block_size=answer.block_size,
            max_model_len=answer.max_model_len,
        )
        assert (answer.block_size, found.tokens) == expected[mla], arm


def test_any_other_architecture() -> None:
    llama = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 512,
        "max_position_embeddings": 2048,
        "num_attention_heads": 8,
        "num_hidden_layers": 4,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-05,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": 1024,
    }
    whole, first, last = ask(
        [
            Question(llama),
            Question(llama, pp=2, stage=0),
            Question(llama, pp=2, stage=1),
        ]
    )
    assert whole.memory
    assert first.memory
    assert last.memory
    parts = first.memory.parameter_bytes + last.memory.parameter_bytes
    assert whole.memory.parameter_bytes == parts
    assert whole.kv_bytes_per_token == 4 * 2 * 4 * 32 * 2
