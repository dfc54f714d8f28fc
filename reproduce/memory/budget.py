"""What a GPU has left for the KV cache, and how many full-length requests that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from reproduce.errors import ConfigError
from reproduce.memory.kv_cache import Capacity, capacity, request_bytes
from reproduce.memory.sharding import RankMemory

GIB = 2**30

Fits = Literal[True, False, "depends"]


@dataclass(frozen=True, slots=True)
class Band:
    """A quantity known only to lie between two values."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Gpu:
    """Memory of one GPU.

    Attributes:
        name: As in data/gpus.yaml.
        total_gib: What the driver reports, not what the name says.
        overhead_gib: What vLLM takes beside the model and the cache: activations of the profiling
            run, CUDA graphs, communication buffers, the CUDA context. No formula gives it, so it
            is the band seen in public logs.
    """

    name: str
    total_gib: float
    overhead_gib: Band


@dataclass(frozen=True, slots=True)
class Serving:
    """Server settings that decide what the cache holds.

    Attributes:
        max_model_len: Length of a full request, in tokens.
        gpu_memory_utilization: Share of the GPU's memory that vLLM may take.
        block_size: Tokens per block of the KV cache.
    """

    max_model_len: int
    gpu_memory_utilization: float = 0.9
    block_size: int = 64

    def __post_init__(self) -> None:
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ConfigError(
                f"gpu memory utilization is {self.gpu_memory_utilization}; give a share above 0 "
                "and up to 1"
            )


@dataclass(frozen=True, slots=True)
class Budget:
    """A server's memory, from the model to the requests it admits.

    Attributes:
        ranks: Every distinct rank.
        kv_bytes_per_token: Per stage.
        request_gib: Cache of one full-length request, per stage.
        total_gib: Of one GPU; None when the cache size was given.
        overhead_gib: Assumed band; None when the cache size was given.
        kv_gib: Cache per stage; where the overhead is a band, so is this. May be negative.
        at_least: Capacity at the low end of the cache.
        at_most: Capacity at the high end.
        fits: Whether one full-length request fits at both ends, at none, or only at the high one.
        reason: Why, in one sentence.
    """

    ranks: tuple[RankMemory, ...]
    kv_bytes_per_token: tuple[int, ...]
    request_gib: tuple[float, ...]
    total_gib: float | None
    overhead_gib: Band | None
    kv_gib: tuple[Band, ...]
    at_least: Capacity
    at_most: Capacity
    fits: Fits
    reason: str


def budget_from_gpu(
    ranks: Sequence[RankMemory],
    kv_bytes_per_token: Sequence[int],
    gpu: Gpu,
    serving: Serving,
) -> Budget:
    """Budget of a GPU: utilisation × total − model − overhead = KV cache.

    The fullest rank of each stage decides, and of the stages the one with the fewest blocks.
    """
    usable_gib = serving.gpu_memory_utilization * gpu.total_gib
    kv_gib = tuple(
        Band(
            usable_gib - model_bytes / GIB - gpu.overhead_gib.high,
            usable_gib - model_bytes / GIB - gpu.overhead_gib.low,
        )
        for model_bytes in _model_bytes_per_stage(ranks)
    )
    return _budget(ranks, kv_bytes_per_token, kv_gib, serving, gpu)


def budget_from_cache(
    ranks: Sequence[RankMemory],
    kv_bytes_per_token: Sequence[int],
    kv_gib: Sequence[float],
    serving: Serving,
) -> Budget:
    """Budget of a cache whose size is known, so that tokens and concurrency are exact.

    Args:
        ranks: Every distinct rank.
        kv_bytes_per_token: Per stage.
        kv_gib: One size for all stages, or one per stage.
        serving: The server's settings.

    Raises:
        ConfigError: The number of sizes is neither one nnor that of the stages, or one is no size.
    """
    stages = len(kv_bytes_per_token)
    if len(kv_gib) not in (1, stages):
        raise ConfigError(
            f"{len(kv_gib)} KV cache sizes for {stages} pipeline stages; give one, or {stages}"
        )
    for size in kv_gib:
        if not 0 <= size < inf:
            raise ConfigError(f"a KV cache of {size} GiB; give a size of 0 or more")
    sizes = tuple(kv_gib) if len(kv_gib) == stages else tuple(kv_gib) * stages
    bands = tuple(Band(size, size) for size in sizes)
    return _budget(ranks, kv_bytes_per_token, bands, serving, None)


def _model_bytes_per_stage(ranks: Sequence[RankMemory]) -> list[int]:
    stages = sorted({rank.stage for rank in ranks})
    return [max(rank.model_bytes for rank in ranks if rank.stage == stage) for stage in stages]


def _budget(
    ranks: Sequence[RankMemory],
    kv_bytes_per_token: Sequence[int],
    kv_gib: tuple[Band, ...],
    serving: Serving,
    gpu: Gpu | None,
) -> Budget:
    shape = {"block_size": serving.block_size, "max_model_len": serving.max_model_len}
    at_least = capacity([int(b.low * GIB) for b in kv_gib], kv_bytes_per_token, **shape)
    at_most = capacity([int(b.high * GIB) for b in kv_gib], kv_bytes_per_token, **shape)
    needed = request_bytes(kv_bytes_per_token, **shape)
    fits: Fits = "depends"
    if at_least.admits_one_request:
        fits = True
    elif not at_most.admits_one_request:
        fits = False
    request_gib = tuple(size / GIB for size in needed)
    return Budget(
        ranks=tuple(ranks),
        kv_bytes_per_token=tuple(kv_bytes_per_token),
        request_gib=request_gib,
        total_gib=gpu.total_gib if gpu else None,
        overhead_gib=gpu.overhead_gib if gpu else None,
        kv_gib=kv_gib,
        at_least=at_least,
        at_most=at_most,
        fits=fits,
        reason=_reason(fits, kv_gib, request_gib, serving),
    )


def _reason(
    fits: Fits, kv_gib: tuple[Band, ...], request_gib: tuple[float, ...], serving: Serving
) -> str:
    """The tightest stage in words: what one request takes, what there is."""
    stage = min(range(len(kv_gib)), key=lambda s: kv_gib[s].low / request_gib[s])
    there, needed = kv_gib[stage], request_gib[stage]
    size = (
        f"{there.low:.2f} GiB"
        if there.low == there.high
        else f"{there.low:.2f} to {there.high:.2f} GiB"
    )
    verdict = {
        True: "fits",
        False: f"does not fit, {needed - there.high:.2f} GiB short at best",
        "depends": f"fits only if the overhead is low, up to {needed - there.low:.2f} GiB short",
    }[fits]
    return (
        f"one request of {serving.max_model_len:,} tokens takes {needed:.2f} GiB of KV cache on "
        f"stage {stage}, which has {size}: {verdict}"
    )
