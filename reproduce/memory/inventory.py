"""Every tensor that vLLM allocates for a model, before it is divided over ranks."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from reproduce.errors import ConfigError
from reproduce.memory.architecture import Architecture, Arm, Precision

VOCABULARY_PADDING = 64
"""vLLM pads the vocabulary to a multiple of this (layers/vocab_parallel_embedding.py)."""


class Group(StrEnum):
    """What a person calls the memory."""

    ROUTED_EXPERTS = "routed_experts"
    SHARED_EXPERTS = "shared_experts"
    ATTENTION = "attention"
    DENSE_MLP = "dense_mlp"
    EMBEDDINGS = "embeddings_and_head"
    NORMS = "norms_and_gates"
    SCALES = "scales"
    ABSORBED = "absorbed_copies"
    BUFFERS = "buffers"


class Kind(StrEnum):
    """How the module holds a tensor; absorbed copies appear after loading, as plain attributes."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    ABSORBED = "absorbed"


class Split(StrEnum):
    """Which ranks of a stage share a tensor, and along which dimension."""

    NONE = "every rank holds all of it"
    ROWS = "output features over TP"
    COLUMNS = "input features over TP"
    VOCABULARY = "rows over TP, after padding"
    EXPERT_ROWS = "whole experts over TP × DP under EP, else their output features"
    EXPERT_COLUMNS = "whole experts over TP × DP under EP, else their input features"
    EXPERT_MAP = "every rank holds all of it, under EP only"


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of the whole model.

    Attributes:
        name: vLLM's name inside the layer or the model.
        shape: Dimensions before any split.
        item_bytes: Bytes per element.
        group: Where a person would look for it.
        kind: Parameter, buffer or absorbed copy.
        split: How ranks share it.
        outputs: Row counts of the matrices that make up a linear layer; empty for other tensors.
        block: Side of the square that shares one FP32 scale, None without FP8.
        sequence_parallel_whole: Not split when the experts are sequence parallel.
    """

    name: str
    shape: tuple[int, ...]
    item_bytes: int
    group: Group
    kind: Kind = Kind.PARAMETER
    split: Split = Split.NONE
    outputs: tuple[int, ...] = ()
    block: int | None = None
    sequence_parallel_whole: bool = False


@dataclass(frozen=True, slots=True)
class Inventory:
    """A model as tensors. Layers of one kind have the same tensors, so each kind is listed once.

    Attributes:
        layer_kinds: Name of the kind of each layer, first to last.
        layer_tensors: Tensors of one layer, by kind.
        first: Tensors of the first stage only.
        last: Tensors of the last stage only.
        every: Tensors that each stage holds once, however many layers it has.
    """

    layer_kinds: tuple[str, ...]
    layer_tensors: dict[str, tuple[Tensor, ...]]
    first: tuple[Tensor, ...]
    last: tuple[Tensor, ...]
    every: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class _Writer:
    """Builds tensors in one model's types."""

    architecture: Architecture
    arm: Arm
    block: int | None
    mla: bool

    def matrix(
        self,
        name: str,
        outputs: int | tuple[int, ...],
        inputs: int,
        group: Group,
        split: Split = Split.NONE,
        *,
        experts: int | None = None,
        sequence_parallel_whole: bool = False,
    ) -> Tensor:
        """Weight of a linear layer (rows × columns), in FP8 with scales or in BF16."""
        merged = outputs if isinstance(outputs, tuple) else (outputs,)
        shape = (sum(merged), inputs)
        return Tensor(
            name=f"{name}.weight" if experts is None else name,
            shape=shape if experts is None else (experts, *shape),
            item_bytes=2 if self.block is None else 1,
            group=group,
            split=split,
            outputs=merged,
            block=self.block,
            sequence_parallel_whole=sequence_parallel_whole,
        )

    def norm(self, name: str, width: int) -> Tensor:
        return Tensor(f"{name}.weight", (width,), 2, Group.NORMS)

    def buffer(self, name: str, *shape: int, split: Split = Split.NONE) -> Tensor:
        return Tensor(name, shape, 4, Group.BUFFERS, Kind.BUFFER, split)


def take_inventory(
    architecture: Architecture, arm: Arm, precision: Precision, *, mla: bool = True
) -> Inventory:
    """List a model's tensors as vLLM 0.32.0 builds them.

    Follows models/deepseek_v2.py (native) and models/transformers/ (transformers), compared with
    both on the meta device. The MTP layer is not loaded without speculative decoding.

    Args:
        architecture: The model.
        arm: vLLM's own class, or the Transformers modeling backend.
        precision: "fp8" for the block-quantised checkpoint, "bf16" for 16-bit weights.
        mla: False for the ablation under VLLM_MLA_DISABLE=1.

    Raises:
        ConfigError: FP8 is asked of a model that has no FP8 checkpoint.
    """
    quantization = architecture.quantization_config
    if precision == "fp8" and quantization is None:
        raise ConfigError(
            f"quant fp8: this {architecture.model_type} configuration has no quantization_config, "
            "so there are no FP8 weights to load; use --quant bf16"
        )
    block = quantization.weight_block_size[0] if quantization and precision == "fp8" else None
    writer = _Writer(architecture, arm, block, mla)
    kinds = tuple(
        "moe" if architecture.is_moe(layer) else "dense"
        for layer in range(architecture.num_hidden_layers)
    )
    attention = (*_attention(writer), *_indexer(writer))
    mlp = {"dense": _dense_mlp, "moe": _experts}
    hidden, vocabulary = architecture.hidden_size, architecture.vocab_size
    padded = -(-vocabulary // VOCABULARY_PADDING) * VOCABULARY_PADDING
    embedding = Tensor(
        "model.embed_tokens.weight",
        (padded, hidden),
        2,
        Group.EMBEDDINGS,
        split=Split.VOCABULARY,
    )
    head = Tensor("lm_head.weight", (padded, hidden), 2, Group.EMBEDDINGS, split=Split.VOCABULARY)
    return Inventory(
        layer_kinds=kinds,
        layer_tensors={kind: (*attention, *mlp[kind](writer)) for kind in sorted(set(kinds))},
        first=(embedding,),
        last=(head, writer.norm("model.norm", hidden)),
        every=tuple(_rotary(writer)),
    )


def _attention(writer: _Writer) -> Iterator[Tensor]:
    """Attention of one layer, and the layer's norms.

    Without MLA the Transformers class shards nothing here for the V3 family: that modeling code's
    TP plan leaves attention out, V2's does not, and the MLA fuser needs none.
    """
    a = writer.architecture
    heads, group = a.num_attention_heads, Group.ATTENTION
    is_split = writer.mla or writer.arm == "native" or a.model_type == "deepseek_v2"
    rows, columns = (Split.ROWS, Split.COLUMNS) if is_split else (Split.NONE, Split.NONE)
    q_out = heads * a.qk_head_dim
    if a.q_lora_rank is None:
        yield writer.matrix("self_attn.q_proj", q_out, a.hidden_size, group, rows)
        yield writer.matrix("self_attn.kv_a_proj_with_mqa", a.latent_width, a.hidden_size, group)
    else:
        if writer.mla:
            outputs = (a.q_lora_rank, a.latent_width)
            yield writer.matrix("self_attn.fused_qkv_a_proj", outputs, a.hidden_size, group)
        else:
            yield writer.matrix("self_attn.q_a_proj", a.q_lora_rank, a.hidden_size, group)
            yield writer.matrix(
                "self_attn.kv_a_proj_with_mqa", a.latent_width, a.hidden_size, group
            )
        yield writer.norm("self_attn.q_a_layernorm", a.q_lora_rank)
        yield writer.matrix("self_attn.q_b_proj", q_out, a.q_lora_rank, group, rows)
    yield writer.norm("self_attn.kv_a_layernorm", a.kv_lora_rank)
    kv_out = heads * (a.qk_nope_head_dim + a.v_head_dim)
    yield writer.matrix("self_attn.kv_b_proj", kv_out, a.kv_lora_rank, group, rows)
    yield writer.matrix("self_attn.o_proj", a.hidden_size, heads * a.v_head_dim, group, columns)
    yield writer.norm("input_layernorm", a.hidden_size)
    yield writer.norm("post_attention_layernorm", a.hidden_size)
    yield writer.buffer("self_attn.attn.qkv_and_prob_scale", 4)
    if not writer.mla and writer.block is not None:
        yield Tensor("self_attn.attn.k_scale+v_scale", (2,), 4, Group.SCALES)
    if writer.mla and writer.block is not None:
        yield Tensor(
            "self_attn.W_UK_T+W_UV",
            (kv_out, a.kv_lora_rank),
            2,
            Group.ABSORBED,
            Kind.ABSORBED,
            Split.ROWS,
            (kv_out,),
        )


def _indexer(writer: _Writer) -> Iterator[Tensor]:
    """Sparse attention's indexer (V3.2), replicated over TP; its key norm is FP32."""
    a = writer.architecture
    if not (a.index_topk and a.index_head_dim and a.index_n_heads and a.q_lora_rank):
        return
    if not writer.mla:
        raise ConfigError("the indexer of this model needs MLA; vLLM has no path without it")
    if writer.arm == "transformers":
        raise ConfigError(
            "arm transformers: the modeling code builds no sparse-attention indexer, so this "
            "model's weights have no place there; use --arm native"
        )
    width, heads = a.index_head_dim, a.index_n_heads
    yield writer.matrix("self_attn.indexer.wq_b", width * heads, a.q_lora_rank, Group.ATTENTION)
    yield Tensor(
        "self_attn.indexer.wk_weights_proj.weight",
        (width + heads, a.hidden_size),
        2,
        Group.ATTENTION,
    )
    for part in ("weight", "bias"):
        yield Tensor(f"self_attn.indexer.k_norm.{part}", (width,), 4, Group.NORMS)


def _dense_mlp(writer: _Writer) -> Iterator[Tensor]:
    hidden, inner = writer.architecture.hidden_size, writer.architecture.intermediate_size
    group = Group.DENSE_MLP
    yield writer.matrix("mlp.gate_up_proj", (inner, inner), hidden, group, Split.ROWS)
    yield writer.matrix("mlp.down_proj", hidden, inner, group, Split.COLUMNS)


def _experts(writer: _Writer) -> Iterator[Tensor]:
    a = writer.architecture
    hidden, inner, count = a.hidden_size, a.moe_intermediate_size, a.n_routed_experts
    yield Tensor("mlp.gate.weight", (count, hidden), 2, Group.NORMS)
    if _has_correction_bias(writer):
        is_native = writer.arm == "native"
        yield Tensor(
            "mlp.gate.e_score_correction_bias",
            (count,),
            4,
            Group.NORMS if is_native else Group.BUFFERS,
            Kind.PARAMETER if is_native else Kind.BUFFER,
        )
    if a.n_shared_experts:
        shared, whole = inner * a.n_shared_experts, writer.arm == "native"
        yield writer.matrix(
            "mlp.shared_experts.gate_up_proj",
            (shared, shared),
            hidden,
            Group.SHARED_EXPERTS,
            Split.ROWS,
            sequence_parallel_whole=whole,
        )
        yield writer.matrix(
            "mlp.shared_experts.down_proj",
            hidden,
            shared,
            Group.SHARED_EXPERTS,
            Split.COLUMNS,
            sequence_parallel_whole=whole,
        )
    routed = Group.ROUTED_EXPERTS
    yield writer.matrix(
        "mlp.experts.w13_weight", (inner, inner), hidden, routed, Split.EXPERT_ROWS, experts=count
    )
    yield writer.matrix(
        "mlp.experts.w2_weight", hidden, inner, routed, Split.EXPERT_COLUMNS, experts=count
    )
    yield writer.buffer("mlp.experts._expert_map", count, split=Split.EXPERT_MAP)


def _has_correction_bias(writer: _Writer) -> bool:
    """The native class asks topk_method, the Transformers class follows the modeling code."""
    if writer.arm == "native":
        return writer.architecture.topk_method == "noaux_tc"
    return writer.architecture.model_type != "deepseek_v2"


def _rotary(writer: _Writer) -> Iterator[Tensor]:
    """Rotary tables: cos and sin per position (native), inverse frequencies (transformers)."""
    a = writer.architecture
    if writer.arm == "transformers":
        for name in ("inv_freq", "original_inv_freq"):
            yield writer.buffer(f"model.rotary_emb.{name}", a.qk_rope_head_dim // 2)
        return
    tables = ("rotary_emb", "indexer_rope_emb") if a.index_topk else ("rotary_emb",)
    for table in tables:
        yield Tensor(
            f"self_attn.{table}.cos_sin_cache",
            (a.rope_positions, a.qk_rope_head_dim),
            2,
            Group.BUFFERS,
            Kind.BUFFER,
        )
