"""How a model is laid over GPUs, and which layouts vLLM refuses."""

from dataclasses import dataclass

from reproduce.errors import ConfigError
from reproduce.memory.architecture import Architecture


@dataclass(frozen=True, slots=True)
class Topology:
    """Sizes of the parallel groups, as `vllm serve` takes them.

    Attributes:
        tp: Tensor-parallel ranks; heads, rows and columns are divided by it.
        pp: Pipeline stages; layers are divided by it.
        dp: Data-parallel replicas; each has its own KV cache.
        ep: Expert parallelism: ranks hold whole experts, over tp × dp ranks.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return self.tp * self.pp * self.dp

    @property
    def moe_ranks(self) -> int:
        """Ranks of one stage that share its routed experts, with or without EP."""
        return self.tp * self.dp

    @property
    def experts_are_whole(self) -> bool:
        """Whether ranks hold whole experts; EP over one rank is no EP."""
        return self.ep and self.moe_ranks > 1

    @property
    def sequence_parallel_moe(self) -> bool:
        """Whether vLLM feeds experts a slice of the tokens on each TP rank.

        True for its default all-to-all backend and for both DeepEP ones (config/parallel.py,
        use_sequence_parallel_moe).
        """
        return self.ep and self.tp > 1 and self.dp > 1

    @property
    def label(self) -> str:
        """The layout as the article writes it, for example "TP8 × PP2 × EP8"."""
        sizes = {"TP": self.tp, "PP": self.pp, "DP": self.dp}
        parts = [f"{name}{size}" for name, size in sizes.items() if size > 1] or ["TP1"]
        if self.experts_are_whole:
            parts.append(f"EP{self.moe_ranks}")
        return " × ".join(parts)


def partition_layers(layers: int, stages: int) -> tuple[range, ...]:
    """Assign consecutive layers to pipeline stages as vLLM does (distributed/utils.py).

    What does not divide evenly goes to the stages before the last, from the back.

    >>> [len(stage) for stage in partition_layers(61, 4)]
    [15, 15, 16, 15]
    """
    sizes = [layers // stages] * stages
    for extra in range(layers % stages):
        sizes[-2 - extra] += 1
    starts = [sum(sizes[:stage]) for stage in range(stages)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))


def check_topology(architecture: Architecture, topology: Topology) -> None:
    """Refuse layouts that no tensor needs to be looked at to refuse.

    Raises:
        ConfigError: A size is not positive, heads do not divide by TP, or a stage has no layer.
    """
    for name in ("tp", "pp", "dp"):
        if getattr(topology, name) < 1:
            raise ConfigError(f"{name} must be at least 1, not {getattr(topology, name)}")
    heads = architecture.num_attention_heads
    if heads % topology.tp:
        raise ConfigError(
            f"TP {topology.tp}: vLLM needs the number of attention heads ({heads}) to be "
            f"divisible by the tensor parallel size; choose a divisor of {heads}"
        )
    layers = architecture.num_hidden_layers
    if topology.pp > layers:
        raise ConfigError(
            f"PP {topology.pp}: {layers} layers cannot fill {topology.pp} stages, and vLLM sizes "
            f"every stage's KV cache by the emptiest; choose at most {layers}"
        )
