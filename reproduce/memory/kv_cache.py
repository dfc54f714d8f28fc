"""Size of the KV cache in tokens, by vLLM's own arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass

from reproduce.errors import ConfigError
from reproduce.memory.architecture import Architecture
from reproduce.memory.topology import Topology, partition_layers

CACHE_ITEM_BYTES = 2
"""Element of a BF16 cache, which `--kv-cache-dtype auto` gives these models."""

INDEXER_QUANTIZATION_BLOCK = 128
"""Indexer keys are FP8 with one FP32 scale per this many (models/deepseek_v2.py, Indexer)."""

CPU_MLA_BLOCK_SIZE = 16
CPU_BLOCK_SIZE = 128
"""Tokens per block that platforms/cpu.py sets: 16 is the only size its MLA kernel has."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What vLLM logs as "KV cache size: T tokens, Maximum concurrency …: Kx".

    Attributes:
        blocks: Blocks of the block table, the same on all ranks.
        tokens: Tokens as logged.
        max_concurrency: Requests of `max_model_len` tokens that fit at once.
        admits_one_request: Whether vLLM starts at all: it wants one full-length request
            beside the null block (v1/core/kv_cache_utils.py).
    """

    blocks: int
    tokens: int
    max_concurrency: float
    admits_one_request: bool


def kv_bytes_per_token(
    architecture: Architecture, topology: Topology, *, mla: bool = True
) -> tuple[int, ...]:
    """Bytes that one token takes on a rank of each pipeline stage.

    With MLA a layer caches the latent and the rotary key once, on every TP rank alike, and with
    sparse attention the indexer's key beside it (vLLM 0.32 may round such a block up to a whole
    row, at most 0.02 %, which is not counted). Without MLA it caches keys and values per local
    head, both as wide as a query head, because vLLM pads the values.

    Source: v1/kv_cache_interface.py; the article's section "Topology".
    """
    if mla:
        per_layer = architecture.latent_width * CACHE_ITEM_BYTES
        if architecture.index_topk and architecture.index_head_dim:
            width = architecture.index_head_dim
            per_layer += width + width // INDEXER_QUANTIZATION_BLOCK * 4
    else:
        heads = architecture.num_attention_heads // topology.tp
        per_layer = heads * 2 * architecture.qk_head_dim * CACHE_ITEM_BYTES
    stages = partition_layers(architecture.num_hidden_layers, topology.pp)
    return tuple(len(layers) * per_layer for layers in stages)


def capacity(
    cache_bytes: Sequence[int],
    bytes_per_token: Sequence[int],
    *,
    block_size: int,
    max_model_len: int,
) -> Capacity:
    """Turn memory into tokens as vLLM does (v1/core/kv_cache_utils.py).

    Args:
        cache_bytes: Memory for the cache on each stage; negative counts as none.
        bytes_per_token: From `kv_bytes_per_token`.
        block_size: Tokens per block.
        max_model_len: Length of a full request, in tokens.

    >>> capacity([2**30], [4608], block_size=16, max_model_len=4096).tokens
    233008
    """
    if block_size < 1 or max_model_len < 1:
        raise ConfigError(
            f"block size {block_size} and max model length {max_model_len} must be at least 1"
        )
    blocks = min(
        max(memory, 0) // (per_token * block_size)
        for memory, per_token in zip(cache_bytes, bytes_per_token, strict=True)
    )
    blocks_per_request = -(-max_model_len // block_size)
    concurrency = blocks / blocks_per_request
    return Capacity(
        blocks=blocks,
        tokens=int(concurrency * max_model_len),
        max_concurrency=concurrency,
        admits_one_request=blocks > blocks_per_request,
    )


def request_bytes(
    bytes_per_token: Sequence[int], *, block_size: int, max_model_len: int
) -> tuple[int, ...]:
    """Cache that one full-length request takes on each stage, whole blocks, in bytes."""
    blocks = -(-max_model_len // block_size)
    return tuple(per_token * block_size * blocks for per_token in bytes_per_token)
