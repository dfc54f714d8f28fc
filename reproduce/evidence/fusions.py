"""What each backend must show in its log, per architecture: data, not code.

The names are the log's own. A fusion's target is compared by its head (``MLAAttention``), since
vLLM has changed what follows it. Source: the article's "What the fuser actually replaced", and
vllm/model_executor/models/transformers/base.py and moe.py, which print these lines.
"""

from types import MappingProxyType
from typing import Final

from reproduce.schemas import Fusion

MLA_TARGET: Final = "MLAAttention"

_DEEPSEEK_V3 = (
    Fusion(source="self_attn (DeepseekV3Attention)", target=MLA_TARGET),
    Fusion(source="gate + experts + shared experts (DeepseekV3MoE)", target="MoERunner"),
    Fusion(source="input_layernorm (DeepseekV3RMSNorm)", target="RMSNorm"),
    Fusion(source="post_attention_layernorm (DeepseekV3RMSNorm)", target="RMSNorm"),
    Fusion(source="q_a_layernorm (DeepseekV3RMSNorm)", target="RMSNorm"),
    Fusion(source="kv_a_layernorm (DeepseekV3RMSNorm)", target="RMSNorm"),
)

EXPECTED_FUSIONS: Final = MappingProxyType({"DeepseekV3ForCausalLM": _DEEPSEEK_V3})
"""Native architecture name → fusions its Transformers arm must show."""
