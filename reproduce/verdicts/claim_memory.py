"""What the memory model says of the article's claims on topology, weights and cache.

The model counts what vLLM 0.32.0 allocates; nothing here depends on a run.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

from reproduce.memory.architecture import Architecture
from reproduce.memory.budget import GIB, Budget, Gpu, Serving, budget_from_gpu
from reproduce.memory.inventory import Group, Inventory, Kind, Tensor, take_inventory
from reproduce.memory.kv_cache import capacity, kv_bytes_per_token
from reproduce.memory.sharding import RankMemory, shard
from reproduce.memory.topology import Topology
from reproduce.text.rounding import Span, exact, printed
from reproduce.verdicts.claims import Answer, Claim, Standing

_VERSION = "As vLLM 0.32.0 allocates it."
_REPLICATED = (Group.ATTENTION, Group.DENSE_MLP, Group.EMBEDDINGS, Group.SHARED_EXPERTS)


@dataclass(frozen=True)
class MemoryTests:
    """Rules on the model that the article serves; each takes the claim and its values.

    Attributes:
        architecture: the article's model.
        experts_per_token: routed experts that one token passes through, from config.json.
        gpus: by name.
        utilization: of the GPU's memory, as served.
        figures: printed memory figures by name, as text.
    """

    architecture: Architecture
    experts_per_token: int
    gpus: Mapping[str, Gpu]
    utilization: float
    figures: Mapping[str, str]

    def rules(self) -> dict[str, Callable[..., Answer]]:
        """Every rule by name."""
        return {
            "parameters": self.parameters,
            "context_length": self.context_length,
            "kv_heads": self.kv_heads,
            "cache_replicated": self.cache_replicated,
            "cache_per_replica": self.cache_per_replica,
            "experts_per_rank": self.experts_per_rank,
            "others_replicated": self.others_replicated,
            "fits": self.fits,
            "weights": self.weights,
            "left_over": self.left_over,
            "wanted": self.wanted,
            "concurrency": self.concurrency,
            "capping": self.capping,
        }

    @cached_property
    def _inventory(self) -> Inventory:
        return take_inventory(self.architecture, "native", self.architecture.precision)

    @property
    def _serving(self) -> Serving:
        return Serving(self.architecture.max_position_embeddings, self.utilization)

    def _ranks(self, topology: Topology) -> tuple[RankMemory, ...]:
        return shard(self.architecture, self._inventory, topology)

    def _per_token(self, topology: Topology, *, mla: bool = True) -> tuple[int, ...]:
        return kv_bytes_per_token(self.architecture, topology, mla=mla)

    def _budget(self, topology: Topology, gpu: str) -> Budget:
        ranks, per_token = self._ranks(topology), self._per_token(topology)
        return budget_from_gpu(ranks, per_token, self.gpus[gpu], self._serving)

    def _tensors(self) -> Iterator[Tensor]:
        for kind in self._inventory.layer_kinds:
            yield from self._inventory.layer_tensors[kind]
        yield from (*self._inventory.first, *self._inventory.last)

    def parameters(self, _: Claim, value: str, active: bool = False) -> Answer:
        """Weights of the model, or those that a token is multiplied by, in 10^9."""
        counted = [
            tensor
            for tensor in self._tensors()
            if tensor.kind is Kind.PARAMETER and tensor.group is not Group.SCALES
        ]
        total = sum(prod(tensor.shape) for tensor in counted)
        if active:
            routed = sum(prod(t.shape) for t in counted if t.group is Group.ROUTED_EXPERTS)
            idle = Fraction(
                self.architecture.n_routed_experts - self.experts_per_token,
                self.architecture.n_routed_experts,
            )
            lookup = sum(prod(tensor.shape) for tensor in self._inventory.first)
            total = int(total - routed * idle - lookup)
        found = exact(total / 1e9)
        return _decide(found.inside(printed(value)), f"{found.text(2)} billion")

    def context_length(self, _: Claim, value: str) -> Answer:
        """The longest request, from the model's configuration."""
        tokens = self.architecture.max_position_embeddings
        return _decide(tokens == int(value.replace(",", "")), f"{tokens:,} tokens")

    def kv_heads(self, _: Claim) -> Answer:
        """MLA caches one latent per token, whatever the number of heads."""
        one = self.architecture.model_copy(update={"num_attention_heads": 1})
        ours = self._per_token(Topology())
        same = ours == kv_bytes_per_token(one, Topology())
        heads = self.architecture.num_attention_heads
        return _decide(same, f"{sum(ours):,} bytes a token, with {heads} heads as with 1")

    def cache_replicated(self, _: Claim, tp: int) -> Answer:
        """Bytes per token on a rank do not fall with tensor parallelism."""
        alone, divided = self._per_token(Topology()), self._per_token(Topology(tp=tp))
        heads = self._per_token(Topology(tp=tp), mla=False)
        return _decide(
            alone == divided,
            f"{sum(divided):,} bytes a token on each rank at TP{tp}, {sum(alone):,} at TP1 "
            f"(without MLA {sum(heads):,} at TP{tp})",
        )

    def cache_per_replica(self, _: Claim, dp: int) -> Answer:
        """Each data-parallel rank caches its own requests, so that no byte is stored twice."""
        same = self._per_token(Topology(dp=dp, ep=True)) == self._per_token(Topology())
        tokens = sum(self._per_token(Topology()))
        return _decide(same, f"{tokens:,} bytes a token on the one rank that serves it")

    def experts_per_rank(self, _: Claim, topology: dict[str, int], experts: int) -> Answer:
        """Whole experts that a rank of a stage holds."""
        layout = Topology(**topology, ep=True)
        total = self.architecture.n_routed_experts
        held = total / layout.moe_ranks
        return _decide(
            total == experts and held.is_integer(),
            f"{held:g} of {total} experts on each of the {layout.moe_ranks} ranks of a stage",
        )

    def others_replicated(self, _: Claim, dp: int) -> Answer:
        """Everything but the routed experts is as large on a data-parallel rank as on one GPU."""
        (one,), (many,) = self._ranks(Topology()), self._ranks(Topology(dp=dp, ep=True))
        rest = [sum(rank.group_bytes[group] for group in _REPLICATED) for rank in (one, many)]
        return _decide(rest[0] == rest[1], f"{rest[1] / GIB:.2f} GiB on each of {dp} ranks")

    def fits(self, claim: Claim, topology: dict[str, int], gpu: str) -> Answer:
        """Whether one full-length request fits beside the model."""
        budget = self._budget(Topology(**topology, ep=True), gpu)
        if budget.fits == "depends":
            return Answer(Standing.INCONCLUSIVE, budget.reason, _VERSION)
        return _decide(budget.fits is (claim.direction == "fits"), budget.reason)

    def weights(self, _: Claim, figure: str, topology: dict[str, int]) -> Answer:
        """Weights of a rank: as allocated, or with the attention in BF16 instead of FP8."""
        (rank,) = self._ranks(Topology(**topology, ep=True))
        model = rank.model_bytes / GIB
        wider = model + rank.group_bytes[Group.ATTENTION] / GIB
        stated = printed(self.figures[figure])
        found = f"{model:.2f} GiB"
        if exact(model).inside(stated):
            return Answer(Standing.REPRODUCED, found, _VERSION)
        difference = float(self.figures[figure]) - model
        if exact(wider).inside(stated):
            return Answer(
                Standing.INCONCLUSIVE,
                f"{found}, {difference:.2f} GiB less",
                f"With attention weights in BF16 instead of FP8 it is {wider:.2f} GiB, the printed "
                "figure; no log in the article decides between the two.",
            )
        return Answer(Standing.CONTRADICTED, f"{found}, {difference:+.2f} GiB", _VERSION)

    def left_over(self, _: Claim, figure: str, topology: dict[str, int], gpu: str) -> Answer:
        """Memory left for the cache beside weights and overhead."""
        (band,) = self._budget(Topology(**topology, ep=True), gpu).kv_gib
        found = Span(Fraction(band.low), Fraction(band.high))
        inside = found.meets(printed(self.figures[figure]))
        return Answer(
            Standing.INCONCLUSIVE,
            f"{found.text(1)} GiB at utilization {self.utilization:g}",
            f"The figure lies {'in' if inside else 'out'}side that band, which is as wide as the "
            "overhead is uncertain; with the printed weights it is the whole card, nothing taken "
            "off.",
        )

    def wanted(self, _: Claim, figure: str, topology: dict[str, int], gpu: str) -> Answer:
        """The cache that "was wanted", in full-length requests."""
        (request,) = self._budget(Topology(**topology, ep=True), gpu).request_gib
        share = float(self.figures[figure]) / request
        return Answer(
            Standing.NOT_TESTABLE,
            f"{share:.2f} requests of {request:.2f} GiB",
            "For how many tokens is not stated, and no stated setting yields it.",
        )

    def concurrency(self, _: Claim, figure: str, topology: dict[str, int], gpu: str) -> Answer:
        """Full-length requests at once, which depend on an overhead that only the GPU shows."""
        budget = self._budget(Topology(**topology, ep=True), gpu)
        low, high = budget.at_least.max_concurrency, budget.at_most.max_concurrency
        inside = low <= float(self.figures[figure]) <= high
        return Answer(
            Standing.NOT_TESTABLE,
            f"{low:.2f} to {high:.2f} over the known overheads",
            f"The figure lies {'in' if inside else 'out'}side; which backend it belongs to is not "
            "stated.",
        )

    def capping(self, _: Claim, topology: dict[str, int], gpu: str, length: int) -> Answer:
        """The reported multiple with a shorter longest request, on the same cache."""
        layout = Topology(**topology, ep=True)
        cache = [int(band.high * GIB) for band in self._budget(layout, gpu).kv_gib]
        full, capped = (
            capacity(
                cache,
                self._per_token(layout),
                block_size=self._serving.block_size,
                max_model_len=tokens,
            ).max_concurrency
            for tokens in (self.architecture.max_position_embeddings, length)
        )
        return _decide(capped > full, f"{capped:.1f} instead of {full:.1f} at {length:,} tokens")


def _decide(holds: bool, found: str) -> Answer:
    standing = Standing.REPRODUCED if holds else Standing.CONTRADICTED
    return Answer(standing, found, _VERSION)
