"""The closed form against the installed vLLM on the meta device: 0 bytes of difference.

Run with -s to see the table.
"""

import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from reproduce.cli.memory import register
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
from reproduce.outside.catalog import load_config

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


REFUSED = [Topology(7), Topology(32), Topology(32, 2), Topology(1, 1, 128)]
BLOCKS = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128] * 2}
LITE_FP8 = {**load_config("deepseek-v2-lite"), "quantization_config": BLOCKS}
LLAMA = {
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
GEMMA = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "head_dim": 64,
    "hidden_size": 256,
    "intermediate_size": 512,
    "max_position_embeddings": 2048,
    "num_attention_heads": 4,
    "num_hidden_layers": 6,
    "num_key_value_heads": 1,
    "sliding_window": 512,
    "torch_dtype": "bfloat16",
    "vocab_size": 1024,
}


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    """Single questions, asked of one process because importing vLLM takes longer than they do."""
    tiny = [(arm, mla) for arm in ("native", "transformers") for mla in (True, False)]
    r1 = load_config("deepseek-r1")
    questions = {
        **{t.label: question(r1, "fp8", "native", t) for t in REFUSED},
        **{f"{a} {m}": question(TINY, "bf16", a, Topology(), mla=m) for a, m in tiny},
        "lite fp8": question(LITE_FP8, "fp8", "native", Topology()),
        "llama": Question(LLAMA),
        "llama, first stage": Question(LLAMA, pp=2, stage=0),
        "llama, last stage": Question(LLAMA, pp=2, stage=1),
        "gemma": Question(GEMMA),
    }
    return dict(zip(questions, ask(list(questions.values())), strict=True))


@pytest.mark.parametrize("topology", REFUSED, ids=lambda topology: topology.label)
def test_both_refuse(answers: dict[str, Answer], topology: Topology) -> None:
    architecture = parse_architecture(load_config("deepseek-r1"), "model")
    with pytest.raises(ConfigError):
        shard(architecture, take_inventory(architecture, "native", "fp8"), topology)
    assert answers[topology.label].refusal


def test_blocks_that_a_merged_layer_may_cut(answers: dict[str, Answer]) -> None:
    """V2-Lite's MLP is no multiple of the FP8 blocks; vLLM takes it anyway, and rounds up."""
    architecture = parse_architecture(LITE_FP8, "model")
    (rank,) = shard(architecture, take_inventory(architecture, "native", "fp8"), Topology())
    assert answers["lite fp8"].memory == rank


@pytest.mark.parametrize("arm", ["native", "transformers"])
@pytest.mark.parametrize("mla", [True, False])
def test_tokens_on_this_machine(answers: dict[str, Answer], arm: Arm, mla: bool) -> None:
    """What both arms log for 1 GiB; with AMX, MLA's blocks have 128 tokens instead of 16."""
    expected = {
        (True, CPU_MLA_BLOCK_SIZE): 233_008,
        (True, CPU_BLOCK_SIZE): 232_960,
        (False, CPU_BLOCK_SIZE): 87_296,
    }
    answer = answers[f"{arm} {mla}"]
    assert answer.kv_bytes_per_token is not None
    assert answer.block_size is not None
    assert answer.max_model_len is not None
    found = capacity(
        [2**30],
        [answer.kv_bytes_per_token],
        block_size=answer.block_size,
        max_model_len=answer.max_model_len,
    )
    assert found.tokens == expected[mla, answer.block_size]


def test_both_ways_print_the_same_budget() -> None:
    app = typer.Typer()
    register(app)
    shape = ["--gpu", "h100-80gb", "--tp", "8", "--pp", "2", "--ep", "--json"]
    printed = [
        CliRunner().invoke(app, ["budget", "--model", "deepseek-r1", *shape, *way]).stdout
        for way in ([], ["--from-engine"])
    ]
    assert json.loads(printed[0]) == json.loads(printed[1])


def test_any_other_architecture(answers: dict[str, Answer]) -> None:
    whole, first, last = (
        answers[name].memory for name in ("llama", "llama, first stage", "llama, last stage")
    )
    assert whole
    assert first
    assert last
    assert whole.parameter_bytes == first.parameter_bytes + last.parameter_bytes
    assert answers["llama"].kv_bytes_per_token == 4 * 2 * 4 * 32 * 2


def test_a_cache_that_does_not_grow_evenly(answers: dict[str, Answer]) -> None:
    assert answers["gemma"].memory is not None
    assert answers["gemma"].kv_bytes_per_token is None
