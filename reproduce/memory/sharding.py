"""Bytes of each rank: the inventory divided by a topology, as vLLM divides it."""

from collections import Counter
from dataclasses import dataclass, field
from math import gcd, prod

from reproduce.errors import ConfigError
from reproduce.memory.architecture import Architecture
from reproduce.memory.inventory import Group, Inventory, Kind, Split, Tensor
from reproduce.memory.topology import Topology, check_topology, partition_layers

SMALLEST_EXPERT_BLOCK = 32
"""vLLM refines expert scales to blocks no smaller (fused_moe/oracle/fp8.py)."""


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Memory of one rank's model, in bytes.

    Attributes:
        stage: Pipeline stage.
        rank_in_stage: Rank among the stage's TP × DP ranks.
        layers: The stage's layers.
        group_bytes: Bytes per group; the groups add up to the three totals below.
        parameter_bytes: Module parameters, scales included.
        buffer_bytes: Module buffers.
        absorbed_bytes: BF16 copies of W_UK and W_UV that MLA makes from FP8 weights.
    """

    stage: int
    rank_in_stage: int
    layers: range
    group_bytes: dict[Group, int] = field(hash=False)
    parameter_bytes: int
    buffer_bytes: int
    absorbed_bytes: int

    @property
    def model_bytes(self) -> int:
        """Everything the model keeps: parameters, buffers and absorbed copies."""
        return self.parameter_bytes + self.buffer_bytes + self.absorbed_bytes


def shard(
    architecture: Architecture, inventory: Inventory, topology: Topology
) -> tuple[RankMemory, ...]:
    """Memory of every distinct rank: each stage once, more often where its ranks differ.

    Ranks of a stage differ only when whole experts do not divide evenly: the first ones hold one
    more (fused_moe/expert_map_manager.py).

    Raises:
        ConfigError: vLLM refuses the topology for this model; the message says why.
    """
    check_topology(architecture, topology)
    ranks = [0]
    remainder = architecture.n_routed_experts % topology.moe_ranks
    if topology.experts_are_whole and remainder and "moe" in inventory.layer_kinds:
        ranks.append(remainder)
    stages = partition_layers(architecture.num_hidden_layers, topology.pp)
    memories = (
        _rank_memory(inventory, topology, stage, layers, rank)
        for stage, layers in enumerate(stages)
        for rank in ranks
    )
    return tuple(
        memory
        for memory in memories
        if memory.rank_in_stage == 0
        or any(inventory.layer_kinds[layer] == "moe" for layer in memory.layers)
    )


def _rank_memory(
    inventory: Inventory, topology: Topology, stage: int, layers: range, rank: int
) -> RankMemory:
    held: Counter[Tensor] = Counter(inventory.every)
    if stage == 0:
        held.update(inventory.first)
    if stage == topology.pp - 1:
        held.update(inventory.last)
    for kind, count in Counter(inventory.layer_kinds[layer] for layer in layers).items():
        for tensor in inventory.layer_tensors[kind]:
            held[tensor] += count
    groups: Counter[Group] = Counter()
    kinds: Counter[Kind] = Counter()
    for tensor, count in held.items():
        shape = local_shape(tensor, topology, rank)
        weight_bytes = prod(shape) * tensor.item_bytes
        scale_bytes = _scale_bytes(tensor, shape)
        groups[tensor.group] += count * weight_bytes
        groups[Group.SCALES] += count * scale_bytes
        kinds[tensor.kind] += count * (weight_bytes + scale_bytes)
    return RankMemory(
        stage=stage,
        rank_in_stage=rank,
        layers=layers,
        group_bytes={group: groups[group] for group in Group},
        parameter_bytes=kinds[Kind.PARAMETER],
        buffer_bytes=kinds[Kind.BUFFER],
        absorbed_bytes=kinds[Kind.ABSORBED],
    )


def local_shape(tensor: Tensor, topology: Topology, rank: int) -> tuple[int, ...]:
    """Shape of a tensor on one rank.

    Args:
        tensor: The whole tensor.
        topology: The parallel sizes.
        rank: Rank among the stage's TP × DP ranks.

    Raises:
        ConfigError: The shard would be ragged, or would cut through FP8 blocks.
    """
    shape = tensor.shape
    match tensor.split:
        case Split.NONE:
            return shape
        case Split.EXPERT_MAP:
            return shape if topology.experts_are_whole else (0,)
        case Split.VOCABULARY:
            return (_divide(tensor, shape[0], topology.tp), shape[1])
        case Split.ROWS | Split.COLUMNS:
            whole = tensor.sequence_parallel_whole and topology.sequence_parallel_moe
            return _linear_shape(tensor, 1 if whole else topology.tp)
        case Split.EXPERT_ROWS | Split.EXPERT_COLUMNS:
            return _expert_shape(tensor, topology, rank)


def _divide(tensor: Tensor, size: int, ranks: int) -> int:
    if size % ranks:
        raise ConfigError(f"{tensor.name}: vLLM cannot divide {size} by {ranks} ranks")
    return size // ranks


def _linear_shape(tensor: Tensor, ranks: int) -> tuple[int, int]:
    """Shard of a linear layer; vLLM lets FP8 blocks be cut in merged layers only (linear.py)."""
    rows, columns = tensor.shape
    if tensor.split is Split.COLUMNS:
        columns = _divide(tensor, columns, ranks)
        _check_blocks(tensor, columns, ranks)
        return rows, columns
    rows = sum(_divide(tensor, size, ranks) for size in tensor.outputs)
    if len(tensor.outputs) == 1:
        _check_blocks(tensor, rows, ranks)
    return rows, columns


def _check_blocks(tensor: Tensor, size: int, ranks: int) -> None:
    if ranks > 1 and tensor.block is not None and size % tensor.block:
        raise ConfigError(
            f"TP {ranks}: vLLM refuses {tensor.name} in FP8, because a shard of {size} is not "
            f"divisible by the quantization block of {tensor.block}; use a smaller TP or BF16"
        )


def _expert_shape(tensor: Tensor, topology: Topology, rank: int) -> tuple[int, int, int]:
    experts, rows, columns = tensor.shape
    if topology.experts_are_whole:
        base, remainder = divmod(experts, topology.moe_ranks)
        return base + (rank < remainder), rows, columns
    if tensor.split is Split.EXPERT_ROWS:
        inner = _divide(tensor, tensor.outputs[0], topology.moe_ranks)
        shape = (experts, inner * len(tensor.outputs), columns)
    else:
        inner = _divide(tensor, columns, topology.moe_ranks)
        shape = (experts, rows, inner)
    if tensor.block is not None and not _expert_block(tensor, tensor.block, shape):
        raise ConfigError(
            f"TP × DP {topology.moe_ranks}: vLLM refuses {tensor.name} in FP8, because a shard "
            f"of {inner} expert features has no common block of at least "
            f"{SMALLEST_EXPERT_BLOCK}; use expert parallelism or BF16"
        )
    return shape


def _expert_block(tensor: Tensor, block: int, shape: tuple[int, ...]) -> int:
    """Side of the blocks of an expert's scales.

    A shard that is no multiple of the checkpoint's blocks gets finer ones (fused_moe/oracle/fp8.py,
    refine_fp8_moe_block_shape); 0 where that is impossible.
    """
    is_rows = tensor.split is Split.EXPERT_ROWS
    inner = shape[1] // len(tensor.outputs) if is_rows else shape[2]
    hidden = shape[2] if is_rows else shape[1]
    if inner % block == 0:
        return block
    refined = gcd(block, inner, hidden)
    return refined if refined >= SMALLEST_EXPERT_BLOCK else 0


def _scale_bytes(tensor: Tensor, shape: tuple[int, ...]) -> int:
    """Bytes of the FP32 scales of a local shard, one per block."""
    if tensor.block is None:
        return 0
    if len(shape) == 2:
        return 4 * _blocks(shape[0], tensor.block) * _blocks(shape[1], tensor.block)
    block = _expert_block(tensor, tensor.block, shape)
    merged = len(tensor.outputs)
    row_blocks = merged * _blocks(shape[1] // merged, block)
    return 4 * shape[0] * row_blocks * _blocks(shape[2], block)


def _blocks(size: int, block: int) -> int:
    return -(-size // block)
