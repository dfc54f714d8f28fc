"""Flags given to vLLM and keys read from its results."""

import contextlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduce.errors import DataError
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.plan import vllm_contract as contract
from reproduce.profile import Rung
from reproduce.schemas import ServerCounters

CPU = profile_store.load("cpu")
RUNG = Rung(name="c4", concurrency=4, input_tokens=128, output_tokens=256, prompts=16)


def test_flags_keep_their_order_and_negations() -> None:
    flags = {"tp": 2, "a": True, "b": False, "c": "x y"}
    assert contract.flag_arguments(flags) == ["--tp", "2", "--a", "--no-b", "--c", "x y"]


def test_the_arms_differ_in_the_flag_under_test_alone() -> None:
    native = contract.serve_arguments(CPU, "native", "m", 8000)
    transformers = contract.serve_arguments(CPU, "transformers", "m", 8000)
    different = [(a, b) for a, b in zip(native, transformers, strict=True) if a != b]
    assert different == [("vllm", "transformers")]
    assert native[native.index("--host") + 1] == "127.0.0.1"
    assert "--no-enable-prefix-caching" in native


def test_the_topology_becomes_flags() -> None:
    arguments = contract.serve_arguments(profile_store.load("published"), "native", "m", 8241)
    text = " ".join(arguments)
    for flag in ("--tensor-parallel-size 8", "--pipeline-parallel-size 2",
                 "--enable-expert-parallel", "--gpu-memory-utilization 0.9"):  # fmt: skip
        assert flag in text
    assert "data-parallel" not in text


def test_the_client_warms_up_at_the_rungs_concurrency() -> None:
    for rung in CPU.ladder:
        arguments = contract.bench_arguments(CPU, rung, 1, "m", 8000, "r.json")
        warmups = int(arguments[arguments.index("--num-warmups") + 1])
        assert warmups >= (rung.concurrency or rung.prompts)
        assert ("--max-concurrency" in arguments) == (rung.concurrency is not None)
        assert arguments[arguments.index("--temperature") + 1] == "0"


def test_seeds_differ_by_rung_and_repeat() -> None:
    seeds = {contract.rung_seed(CPU, rung, r) for rung in CPU.ladder for r in range(1, 10)}
    assert len(seeds) == 9 * len(CPU.ladder)


def test_the_keep_alive_outlasts_every_rung() -> None:
    env = contract.serve_env(CPU, "native")
    assert float(env["VLLM_HTTP_TIMEOUT_KEEP_ALIVE"]) > 10 * CPU.client.rung_timeout_s


def test_the_articles_results_are_read(published: RunDir) -> None:
    path = published.root / "raw/native/launch-01/unbounded/rep-01.json"
    result = contract.parse_result(json.loads(path.read_text()), "native")
    assert result.total_tok_s == pytest.approx(5511.959863382257)
    assert result.output_tok_s == pytest.approx(3676.0538980574534)
    assert result.max_concurrency is None
    assert (result.prompts, result.completed, result.failed) == (512, 512, 0)


def test_what_a_file_lacks_is_none() -> None:
    result = contract.parse_result({"duration": 2.0}, "x")
    assert result.duration_s == 2.0
    assert result.ttft_ms is None
    assert result.failed is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, "12", True, [1]])
def test_a_value_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(DataError, match="duration"):
        contract.parse_result({"duration": value}, "x.json")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(
                        st.sampled_from(["duration", "failed", "mean_ttft_ms", "model_id", "z"]),
                        inner), max_leaves=8))  # fmt: skip
def test_any_json_is_read_or_refused(data: Any) -> None:
    with contextlib.suppress(DataError):
        contract.parse_result(data, "x")


def good() -> dict[str, Any]:
    n = RUNG.prompts
    return {
        "num_prompts": n, "completed": n, "failed": 0, "total_input_tokens": n * RUNG.input_tokens,
        "total_output_tokens": n * RUNG.output_tokens, "output_lens": [RUNG.output_tokens] * n,
        "errors": [""] * n,
    }  # fmt: skip


def reasons(data: dict[str, Any]) -> list[str]:
    return contract.invalid_reasons(data, contract.parse_result(data, "x"), RUNG)


def test_a_complete_repeat_counts() -> None:
    assert reasons(good()) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"completed": 14, "failed": 2}, "14 of 16 requests completed"),
        ({"failed": 1}, "1 requests failed"),
        ({"output_lens": [256] * 15 + [3]}, "1 outputs are not 256 tokens long"),
        ({"num_prompts": 8, "completed": 8}, "8 prompts sent, 16 planned"),
        ({"completed": None}, "None of 16"),
        ({"output_lens": None, "total_output_tokens": 4000}, "4000 output tokens, 4096 requested"),
    ],
)
def test_an_incomplete_repeat_does_not(change: dict[str, Any], words: str) -> None:
    assert any(words in reason for reason in reasons({**good(), **change}))


def test_the_clients_own_words_are_kept() -> None:
    errors = [""] * 14 + ["Traceback ...\nServerDisconnectedError: gone"] * 2
    found = reasons({**good(), "completed": 14, "failed": 2, "errors": errors})
    assert "client: ServerDisconnectedError: gone" in found


def counters(**values: float) -> ServerCounters:
    start = {"running": 0, "waiting": 0, "prompt_tokens": 0, "generation_tokens": 0,
             "prefix_cache_hits": 0}  # fmt: skip
    return ServerCounters(**{**start, **values})


SENT = 16 * 128 + 4 * 128


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (counters(), counters(prompt_tokens=SENT), None),
        (counters(running=1), counters(prompt_tokens=SENT), "busy at the start"),
        (counters(), counters(prompt_tokens=SENT, prefix_cache_hits=64), "prefix cache"),
        (counters(), counters(prompt_tokens=100), "counted 100 prompt tokens"),
        (counters(), counters(prompt_tokens=2 * SENT), "counted 5120 prompt tokens"),
        (None, counters(), "could not be read"),
    ],
)
def test_the_servers_counters(
    before: ServerCounters | None, after: ServerCounters, words: str | None
) -> None:
    result = contract.parse_result(good(), "x")
    found = contract.counters_reasons(before, after, result, RUNG)
    assert (found == []) if words is None else any(words in reason for reason in found)
