"""What an engine log is read as, in every wording that is known."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduce.evidence.engine_log import missing_fusions, parse_log, scope_of_claim
from reproduce.schemas import EngineFacts

DATA = Path(__file__).parent / "data"
PUBLISHED_LOG = "data/published/raw/transformers/launch-01/start-01/engine.log"
NATIVE = parse_log((DATA / "cpu_native.log").read_text())
TRANSFORMERS = parse_log((DATA / "cpu_transformers.log").read_text())


def test_a_native_cpu_log() -> None:
    assert NATIVE.version == "0.32.0"
    assert NATIVE.architecture == "DeepseekV3ForCausalLM"
    assert NATIVE.backend == "native"
    assert (NATIVE.attention_backend, NATIVE.prefill_backend) == ("CPU_MLA", "CPU_SDPA_MLA")
    assert NATIVE.fusions == ()
    assert NATIVE.compiled is True
    assert NATIVE.kv_memory_gib == (1.0,)
    assert (NATIVE.kv_tokens, NATIVE.max_model_len, NATIVE.max_concurrency) == (
        233_008,
        4096,
        56.89,
    )


def test_a_transformers_cpu_log() -> None:
    assert TRANSFORMERS.backend == "transformers"
    assert missing_fusions(TRANSFORMERS, "DeepseekV3ForCausalLM") == ()
    shown = {(f.source, f.target) for f in TRANSFORMERS.fusions}
    assert ("self_attn (DeepseekV3Attention)", "MLAAttention (attention interface)") in shown
    assert (
        "q_a_proj + kv_a_proj_with_mqa (self_attn: DeepseekV3Attention)",
        "fused_qkv_a_proj (MergedColumnParallelLinear)",
    ) in shown
    assert scope_of_claim(NATIVE, TRANSFORMERS).is_test


def test_the_articles_wording() -> None:
    facts = parse_log((Path(__file__).parents[2] / PUBLISHED_LOG).read_text())
    assert facts.attention_backend == "FLASH_ATTN_MLA"
    assert facts.custom_fusions == ("norm_quant", "act_quant", "allreduce_rms")
    assert missing_fusions(facts, "DeepseekV3ForCausalLM") == ()


def test_a_cuda_log_with_several_workers_colours_and_folding() -> None:
    text = (
        "\x1b[1;36m(EngineCore pid=7)\x1b[0;0m INFO 07-28 15:00:01 [core.py:1] Initializing a V1 "
        "LLM engine (v0.11.2) with config: enforce_eager=True\r\n"
        "(RayWorkerWrapper pid=1) INFO [gpu_model_runner.py:9] Model loading took 39.6600 GiB and "
        "81.5 seconds\n"
        "(RayWorkerWrapper pid=2, ip=10.0.0.2) INFO Model loading took 41.0417 GiB memory and "
        "90.25 seconds \x1b[32m [repeated 15x across cluster]\x1b[0m\n"
        "INFO [cuda.py:3] Using FLASH_ATTN_MLA attention backend out of potential backends: "
        "['FLASH_ATTN_MLA', 'FLASHMLA']\n"
        "INFO Using FLASH_ATTN MLA prefill backend.\n"
        "INFO Available KV cache memory: 21.10 GiB\n"
        "INFO Available KV cache memory: 23.50 GiB\n"
        "INFO GPU KV cache size: 640,064 tokens\n"
        "INFO GPU KV cache size: 633,984 tokens\n"
        "INFO Maximum concurrency for 163,840 tokens per request: 3.91x\n"
        "INFO Maximum concurrency for 163,840 tokens per request: 3.87x\n"
        "WARNING This model uses MLA but `MLAFuser` failed to match\n"
    )
    facts = parse_log(text)
    assert facts.version == "0.11.2"
    assert facts.compiled is False
    assert facts.weights_gib == (39.66, 41.0417)
    assert facts.load_s == 90.25
    assert facts.attention_backend == "FLASH_ATTN_MLA"
    assert facts.prefill_backend == "FLASH_ATTN"
    assert facts.kv_memory_gib == (21.10, 23.50)
    assert facts.kv_tokens == 633_984
    assert facts.max_concurrency == 3.87
    assert facts.mla_fuser_failed


def test_the_old_weight_line() -> None:
    facts = parse_log("INFO Loading model weights took 79.739 GB\n")
    assert facts.weights_gib == (79.739,)


def test_another_kernel_is_not_taken_for_the_attention_backend() -> None:
    facts = parse_log("INFO Using CPU Unquantized MoE backend out of potential backends: ['CPU'].")
    assert facts.attention_backend is None


def test_a_log_that_says_nothing_is_unknown_not_native() -> None:
    assert parse_log("") == EngineFacts()


@given(st.one_of(st.text(), st.binary().map(lambda b: b.decode(errors="replace"))))
def test_any_text_is_read(text: str) -> None:
    parse_log(text)


@given(st.sampled_from((DATA / "cpu_transformers.log").read_text().splitlines()), st.integers(0))
def test_a_line_that_was_cut_off_is_read(line: str, end: int) -> None:
    parse_log(line[: end % (len(line) + 1)])


def test_a_very_long_line_is_read_quickly_and_in_part() -> None:
    facts = parse_log("x" * 3_000_000 + "\nResolved architecture: DeepseekV3ForCausalLM\n")
    assert facts.backend == "native"


@pytest.mark.parametrize(
    ("native", "transformers", "words"),
    [
        (None, TRANSFORMERS, "no engine log of the native arm"),
        (TRANSFORMERS, TRANSFORMERS, "native arm loaded TransformersMoEForCausalLM"),
        (NATIVE, NATIVE, "transformers arm loaded DeepseekV3ForCausalLM"),
        (EngineFacts(), TRANSFORMERS, "does not say which classes"),
        (NATIVE, TRANSFORMERS.model_copy(update={"fusions": ()}), "-> MLAAttention"),
        (NATIVE, TRANSFORMERS.model_copy(update={"mla_fuser_failed": True}), "failed to match"),
    ],
)
def test_engines_that_do_not_test_the_claim(
    native: EngineFacts | None, transformers: EngineFacts | None, words: str
) -> None:
    scope = scope_of_claim(native, transformers)
    assert not scope.is_test
    assert any(words in objection for objection in scope.objections)


def test_an_architecture_without_a_list_still_needs_mla() -> None:
    other = NATIVE.model_copy(update={"architecture": "KimiForCausalLM"})
    bare = TRANSFORMERS.model_copy(update={"fusions": ()})
    assert scope_of_claim(other, TRANSFORMERS).is_test
    assert not scope_of_claim(other, bare).is_test


def test_a_lesser_fusion_that_is_missing_is_noted() -> None:
    fewer = tuple(f for f in TRANSFORMERS.fusions if "kv_a_layernorm" not in f.source)
    scope = scope_of_claim(NATIVE, TRANSFORMERS.model_copy(update={"fusions": fewer}))
    assert scope.is_test
    assert any("kv_a_layernorm" in note for note in scope.notes)


def test_a_difference_between_the_engines_is_noted() -> None:
    other = TRANSFORMERS.model_copy(update={"kv_tokens": 87_296})
    assert any("233008" in note and "87296" in note for note in scope_of_claim(NATIVE, other).notes)
