"""A tiny DeepSeek-V3 checkpoint and its tokenizer, made locally: same seed, same bytes.

The shape keeps what the MLA fuser and the kernels look at (a latent of 512 + 64 per token, the
only size vLLM's CPU MLA kernel has; a dense first layer; routed and shared experts; sigmoid
routing with a correction bias) and shrinks the rest to about 9 M parameters.
"""

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.errors import EngineError

NAME = "tiny-deepseek-v3"
SEED = 20260804

CONFIG: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "torch_dtype": "bfloat16",
    "vocab_size": 4096,
    "hidden_size": 256,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
    "num_hidden_layers": 4,
    "first_k_dense_replace": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "kv_lora_rank": 512,
    "q_lora_rank": 192,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    # transformers does not write these two, and the native class needs both: without
    # them loading fails on the correction bias, or routes by softmax with dummy weights.
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "moe_layer_freq": 1,
    "num_nextn_predict_layers": 0,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "attention_bias": False,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "use_cache": True,
}

# The head prefers one successor per token over a random direction. In bfloat16 against float32
# over 2,048 random tokens this mix changed 0.05 % of the argmaxes, while swapped experts changed
# 1.6 %: a bit of rounding rarely decides a token, a wrong kernel soon does. Without the
# preference the figures are 4.8 % and 95 %: greedy outputs part at once either way.
SUCCESSOR_GAIN = 0.10
HEAD_GAIN = 0.03

_CONSONANTS = "bcdfghjklmnprstvwxz"
_VOWELS = "aeiou"


def word_tokens(size: int) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges of a byte-level BPE over two-syllable words, in closed form.

    Nearly every token is a whole word with its leading space, so a random sequence of tokens
    decodes to text that encodes to the same tokens: prompts keep the length that was asked for.

    Args:
        size: number of tokens, specials and the 256 byte tokens included.
    """
    from tokenizers.pre_tokenizers import ByteLevel  # noqa: PLC0415  engine extra

    syllables = [c + v for c in _CONSONANTS for v in _VOWELS]
    vocabulary = ["<s>", "</s>", *sorted(ByteLevel.alphabet()), *syllables]
    merges = [(s[0], s[1]) for s in syllables]
    starts = ["Ġ" + s for s in syllables]
    merges += [("Ġ", s) for s in syllables]
    vocabulary += starts
    for start in starts:
        for syllable in syllables:
            if len(vocabulary) == size:
                break
            merges.append((start, syllable))
            vocabulary.append(start + syllable)
    return {token: index for index, token in enumerate(vocabulary)}, merges


def weight_arrays(config: dict[str, Any], seed: int) -> dict[str, np.ndarray]:
    """Every tensor of the checkpoint as float32, by its Hugging Face name.

    Projections are scaled by 1/sqrt(fan-in), which keeps the residual stream near unit size.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    nope, rope, value = (config[k] for k in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    latent, q_latent = config["kv_lora_rank"], config["q_lora_rank"]
    tensors: dict[str, np.ndarray] = {}

    def matrix(name: str, rows: int, columns: int) -> None:
        values = rng.standard_normal((rows, columns), dtype=np.float32)
        tensors[f"{name}.weight"] = values / np.float32(np.sqrt(columns))

    def norm(name: str, size: int) -> None:
        tensors[f"{name}.weight"] = np.ones(size, dtype=np.float32)

    def mlp(name: str, inner: int) -> None:
        matrix(f"{name}.gate_proj", inner, hidden)
        matrix(f"{name}.up_proj", inner, hidden)
        matrix(f"{name}.down_proj", hidden, inner)

    embedding = rng.standard_normal((config["vocab_size"], hidden), dtype=np.float32)
    tensors["model.embed_tokens.weight"] = embedding
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        norm(f"{layer}.input_layernorm", hidden)
        norm(f"{layer}.post_attention_layernorm", hidden)
        matrix(f"{layer}.self_attn.q_a_proj", q_latent, hidden)
        norm(f"{layer}.self_attn.q_a_layernorm", q_latent)
        matrix(f"{layer}.self_attn.q_b_proj", heads * (nope + rope), q_latent)
        matrix(f"{layer}.self_attn.kv_a_proj_with_mqa", latent + rope, hidden)
        norm(f"{layer}.self_attn.kv_a_layernorm", latent)
        matrix(f"{layer}.self_attn.kv_b_proj", heads * (nope + value), latent)
        matrix(f"{layer}.self_attn.o_proj", hidden, heads * value)
        if index < config["first_k_dense_replace"]:
            mlp(f"{layer}.mlp", config["intermediate_size"])
            continue
        experts = config["n_routed_experts"]
        matrix(f"{layer}.mlp.gate", experts, hidden)
        bias = 0.1 * rng.standard_normal(experts, dtype=np.float32)
        tensors[f"{layer}.mlp.gate.e_score_correction_bias"] = bias
        for expert in range(experts):
            mlp(f"{layer}.mlp.experts.{expert}", config["moe_intermediate_size"])
        mlp(
            f"{layer}.mlp.shared_experts",
            config["moe_intermediate_size"] * config["n_shared_experts"],
        )
    norm("model.norm", hidden)
    successor = rng.permutation(config["vocab_size"])
    head = HEAD_GAIN * rng.standard_normal((config["vocab_size"], hidden), dtype=np.float32)
    head[successor] += SUCCESSOR_GAIN * embedding
    tensors["lm_head.weight"] = head
    return tensors


def identity(seed: int) -> str:
    """Digest of everything the checkpoint's bytes follow from."""
    recipe = json.dumps([CONFIG, seed, SUCCESSOR_GAIN, HEAD_GAIN], sort_keys=True)
    source = Path(__file__).read_bytes()
    return hashlib.sha256(recipe.encode() + source).hexdigest()[:12]


def ensure(root: Path, seed: int = SEED) -> Path:
    """Return the checkpoint's directory under ``root``, making it when it is not there yet.

    The directory's name carries the digest of the recipe, so a changed recipe never meets
    an old file, and it appears by one rename, so a half-written one is never seen.
    """
    target = root / f"{NAME}-{identity(seed)}"
    if target.is_dir():
        return target
    root.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".making-", dir=root))
    try:
        _write(draft, seed)
        draft.rename(target)
    except OSError:
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _write(directory: Path, seed: int) -> None:
    try:
        import torch  # noqa: PLC0415  engine extra
        from safetensors.torch import save_file  # noqa: PLC0415
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415
    except ImportError as error:
        raise EngineError(
            f"the tiny checkpoint needs the engine ({error.name} is missing): run `make setup`"
        ) from error

    (directory / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    tensors = {
        name: torch.from_numpy(values).to(
            torch.float32 if name.endswith("e_score_correction_bias") else torch.bfloat16
        )
        for name, values in weight_arrays(CONFIG, seed).items()
    }
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})

    vocabulary, merges = word_tokens(CONFIG["vocab_size"])
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": CONFIG["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    generation = {"bos_token_id": 0, "eos_token_id": 1}
    (directory / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
