"""A model's config.json, reduced to the numbers that decide how much memory it takes."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from reproduce.errors import ConfigError

Arm = Literal["native", "transformers"]
Precision = Literal["fp8", "bf16"]

FAMILIES = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2")
"""Values of `model_type` that vLLM 0.32.0 serves with models/deepseek_v2.py."""

Count = Annotated[int, Field(strict=True, gt=0, le=2**24)]
MaybeCount = Annotated[int, Field(strict=True, ge=0, le=2**24)]


class BlockQuantization(BaseModel):
    """The part of `quantization_config` that sets the layout of FP8 weights."""

    model_config = ConfigDict(frozen=True)

    quant_method: Literal["fp8"]
    weight_block_size: tuple[Count, Count]

    @model_validator(mode="after")
    def _square(self) -> Self:
        if self.weight_block_size[0] != self.weight_block_size[1]:
            raise ValueError("only square blocks are counted; use --from-engine")
        return self


class RopeScaling(BaseModel):
    """YaRN scaling; vLLM's rotary cache covers factor × the original context."""

    model_config = ConfigDict(frozen=True)

    factor: Annotated[float, Field(ge=1, le=2**16)]
    original_max_position_embeddings: Count


class Architecture(BaseModel):
    """Shape of a DeepSeek-V2/V3-family model, under the names of its config.json.

    Keys of config.json that do not change any tensor's size are ignored.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    model_type: Literal["deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2"]
    hidden_size: Count
    num_hidden_layers: Annotated[int, Field(strict=True, gt=0, le=4096)]
    num_attention_heads: Count
    vocab_size: Count
    max_position_embeddings: Count
    intermediate_size: Count
    q_lora_rank: Count | None = None
    kv_lora_rank: Count
    qk_nope_head_dim: Count
    qk_rope_head_dim: Count
    v_head_dim: Count
    n_routed_experts: Count
    n_shared_experts: Count | None = None
    moe_intermediate_size: Count
    first_k_dense_replace: MaybeCount
    moe_layer_freq: Count = 1
    topk_method: str | None = None
    rope_scaling: RopeScaling | None = None
    attention_bias: Literal[False] = False
    index_topk: Count | None = None
    index_head_dim: Count | None = None
    index_n_heads: Count | None = None
    index_topk_freq: Literal[1] = 1
    quantization_config: BlockQuantization | None = None

    @model_validator(mode="after")
    def _indexer_is_complete(self) -> Self:
        if self.index_topk and not (
            self.index_head_dim and self.index_n_heads and self.q_lora_rank
        ):
            raise ValueError(
                "index_topk needs index_head_dim, index_n_heads and q_lora_rank beside it"
            )
        return self

    @property
    def precision(self) -> Precision:
        """The type of the published weights."""
        return "fp8" if self.quantization_config else "bf16"

    @property
    def latent_width(self) -> int:
        """Elements that MLA caches per token and layer: the latent and the rotary key."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    @property
    def qk_head_dim(self) -> int:
        """Width of one query or key head."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def rope_positions(self) -> int:
        """Rows of the rotary table that vLLM's native class allocates."""
        if self.rope_scaling is None:
            return self.max_position_embeddings
        scaling = self.rope_scaling
        return int(scaling.original_max_position_embeddings * scaling.factor)

    def is_moe(self, layer: int) -> bool:
        """Whether `layer` has routed experts (models/deepseek_v2.py, DeepseekV2DecoderLayer)."""
        return layer >= self.first_k_dense_replace and layer % self.moe_layer_freq == 0


def parse_architecture(config: Mapping[str, Any], source: str) -> Architecture:
    """Read a Hugging Face configuration.

    Args:
        config: The parsed config.json.
        source: The file's name, for messages.

    Raises:
        ConfigError: A key is missing or absurd, or the family is another one.
    """
    family = config.get("model_type")
    if family not in FAMILIES:
        raise ConfigError(
            f"{source}: model_type {family!r} is not one of {', '.join(FAMILIES)}; "
            "use --from-engine for other architectures"
        )
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    scaled = rope if "factor" in rope else None
    try:
        return Architecture.model_validate({**config, "rope_scaling": scaled})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "configuration"
        if first["type"] == "missing":
            raise ConfigError(f"{source}: key {key!r} is missing; add it") from None
        raise ConfigError(
            f"{source}: key {key!r} is {first['input']!r}; {first['msg']}"
            if first["loc"]
            else f"{source}: {first['msg']}"
        ) from None
