"""The audit accepts every honest result, and says what is wrong with the others."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduce.verdicts.audit import Finding, Outcome, audit

RAW = Path(__file__).parents[2] / "data" / "published" / "raw"
ARTICLE = [
    RAW / arm / "launch-01" / "unbounded" / "rep-01.json" for arm in ("native", "transformers")
]
LENGTHS = {"input_len": 1024, "output_len": 2048}


def with_outcome(findings, outcome=Outcome.VIOLATED):
    return {finding.identity for finding in findings if finding.outcome is outcome}


def load(path):
    return json.loads(path.read_text())


@pytest.fixture
def article():
    return load(ARTICLE[0])


# The article's own files


@pytest.mark.parametrize("path", ARTICLE, ids=["native", "transformers"])
@pytest.mark.parametrize("lengths", [{}, LENGTHS], ids=["alone", "with lengths"])
def test_the_files_of_the_article_have_no_violation_and_no_note(path, lengths):
    findings = audit(load(path), **lengths)
    assert {f.outcome for f in findings} == {Outcome.HOLDS, Outcome.NOT_CHECKABLE}
    held = with_outcome(findings, Outcome.HOLDS)
    assert {"throughput", "latency-sum", "chunks", "little", "peak", "percentiles"} <= held
    assert ("input-tokens" in held) == bool(lengths)
    assert all(f.detail for f in findings if f.outcome is Outcome.NOT_CHECKABLE)


DAMAGES = {
    "faster": ({"duration": 270.0}, {"throughput", "longest"}),
    "more throughput": ({"output_throughput": 3700.0}, {"throughput"}),
    "fewer tokens": ({"total_output_tokens": 1048064}, {"throughput", "output-tokens"}),
    "better TPOT": ({"mean_tpot_ms": 95.0}, {"latency-sum"}),
    "better TTFT": ({"mean_ttft_ms": 12000.0}, {"latency-sum", "chunks"}),
    "longer E2EL": ({"mean_e2el_ms": 290000.0}, {"latency-sum", "chunks", "mean", "longest"}),
    "lost requests": ({"completed": 500}, {"requests", "throughput", "output-tokens"}),
    "p99 below the median": ({"p99_tpot_ms": 90.0}, {"percentiles"}),
    "no peak": ({"max_output_tokens_per_s": 3000.0}, {"peak"}),
    "fewer in flight": ({"max_concurrent_requests": 380}, {"little"}),
    "bounded client": ({"max_concurrency": 128}, {"little"}),
    "short prompts": ({"total_input_tokens": 500000}, {"input-tokens", "throughput"}),
    "no spread": ({"std_tpot_ms": 1.0}, {"spread"}),
    "late first token": ({"p99_ttft_ms": 286000.0}, {"first-token", "longest"}),
    "NaN": ({"mean_itl_ms": float("nan")}, {"numbers"}),
    "infinity": ({"p99_itl_ms": float("inf")}, {"numbers"}),
    "negative": ({"median_ttft_ms": -1.0}, {"numbers"}),
    "half a request": ({"completed": 511.5}, {"numbers", "requests"}),
    "no time": ({"duration": 0}, {"numbers"}),
    "text": ({"output_throughput": "3676"}, {"numbers"}),
}


@pytest.mark.parametrize("path", ARTICLE, ids=["native", "transformers"])
@pytest.mark.parametrize(("change", "identities"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_copy_is_found_out(path, change, identities):
    assert identities <= with_outcome(audit({**load(path), **change}, **LENGTHS))


@pytest.mark.parametrize("key", ["duration", "completed", "output_throughput", "num_prompts"])
def test_a_missing_key_is_found(article, key):
    del article[key]
    (finding,) = (f for f in audit(article) if f.identity == "keys")
    assert finding.outcome is Outcome.VIOLATED
    assert key in finding.detail


def test_two_runs_in_one_file_are_found(article):
    mixed = {**article, "duration": load(ARTICLE[1])["duration"]}
    assert {"throughput", "longest"} <= with_outcome(audit(mixed))


def test_a_finding_gives_the_numbers_and_the_meaning(article):
    article["output_throughput"] = 4000.0
    (finding,) = (f for f in audit(article) if f.subject == "output_throughput")
    assert finding == Finding(
        identity="throughput",
        subject="output_throughput",
        outcome=Outcome.VIOLATED,
        meaning="A throughput times the duration is what it counts.",
        tolerance=1e-6,
        observed=pytest.approx(4000 * article["duration"]),
        low=article["total_output_tokens"],
        high=article["total_output_tokens"],
    )


def test_a_length_that_is_only_inferred_gives_a_note(article):
    article["mean_tpot_ms"] = 95.0
    findings = audit(article)
    assert with_outcome(findings) == set()
    assert with_outcome(findings, Outcome.NOTE) == {"latency-sum"}


def test_failed_requests_give_a_note(article):
    article |= {"num_prompts": 514, "failed": 2}
    findings = audit(article)
    assert with_outcome(findings) == set()
    assert with_outcome(findings, Outcome.NOTE) == {"failures"}


# Honest results, simulated


def summarise(requests, duration, *, concurrency, detailed, backend="openai"):
    """A result of `vllm bench serve`, after `calculate_metrics` of vLLM 0.32."""
    good = [r for r in requests if not r.error]
    ttfts = [r.ttft for r in good]
    itls = [gap for r in good for gap in r.itl]
    e2els = [r.latency for r in good]
    tpots = [(r.latency - r.ttft) / (r.tokens - 1) for r in good if r.tokens > 1]
    total_in = sum(r.prompt for r in good)
    total_out = sum(r.tokens for r in good)
    result = {
        "backend": backend,
        "endpoint_type": backend,
        "num_prompts": len(requests),
        "request_rate": "inf",
        "max_concurrency": concurrency,
        "duration": duration,
        "completed": len(good),
        "failed": len(requests) - len(good),
        "total_input_tokens": total_in,
        "total_output_tokens": total_out,
        "request_throughput": len(good) / duration,
        "request_goodput": None,
        "output_throughput": total_out / duration,
        "total_token_throughput": (total_in + total_out) / duration,
        "latencies": [r.latency for r in requests],
        "rtfx": 0.0,
        **busiest_second(good),
    }
    for metric, values in {"ttft": ttfts, "tpot": tpots, "itl": itls, "e2el": e2els}.items():
        values = values or [0]  # noqa: PLW2901  as vLLM does
        result[f"mean_{metric}_ms"] = float(np.mean(values) * 1000)
        result[f"median_{metric}_ms"] = float(np.median(values) * 1000)
        result[f"std_{metric}_ms"] = float(np.std(values) * 1000)
        for percent in (25, 90, 99, 99.9):
            result[f"p{percent}_{metric}_ms"] = float(np.percentile(values, percent) * 1000)
    if detailed:
        result |= {
            "input_lens": [r.prompt for r in requests],
            "output_lens": [0 if r.error else r.tokens for r in requests],
            "start_times": [r.start for r in requests],
            "ttfts": [r.ttft for r in requests],
            "itls": [r.itl for r in requests],
            "generated_texts": ["" for _ in requests],
            "errors": [r.error for r in requests],
        }
    return json.loads(json.dumps(result))


def busiest_second(good):
    if not good:
        return {"max_output_tokens_per_s": 0.0, "max_concurrent_requests": 0}
    first = min(r.start for r in good)
    seconds = int(np.ceil(max(r.start + r.latency for r in good) - first)) + 1
    chunks, running = np.zeros(seconds), np.zeros(seconds)
    for r in good:
        times = np.cumsum([r.start + r.ttft, *r.itl])
        buckets = (times - first).astype(int)
        np.add.at(chunks, buckets[buckets < seconds], 1)
        running[int(r.start - first) : int(r.start + r.latency - first) + 1] += 1
    return {
        "max_output_tokens_per_s": float(chunks.max()),
        "max_concurrent_requests": int(running.max()),
    }


@st.composite
def served(draw):
    """Requests through a bounded client, some failing, with wild latencies, and the duration."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 30))
    concurrency = draw(st.sampled_from([None, 1, 2, 8]))
    fixed = draw(st.sampled_from([None, 1, 2, 17]))
    per_chunk = draw(st.sampled_from([1, 1, 3]))
    failing = draw(st.sampled_from([0.0, 0.0, 0.3, 1.0]))
    scale = draw(st.sampled_from([1e-4, 1e-2, 1.0]))
    heavy = draw(st.sampled_from([0.0, 0.5, 3.0]))
    free = np.full(concurrency or count, 1e5 * rng.random())
    began = free[0]
    requests = []
    for _ in range(count):
        slot = free.argmin()
        tokens = fixed or int(rng.integers(1, 40))
        failed = rng.random() < failing
        times = free[slot] + np.cumsum(
            scale * rng.lognormal(0, heavy, 1 + (tokens - 1 + per_chunk - 1) // per_chunk)
        )
        requests.append(
            SimpleNamespace(
                prompt=int(rng.integers(1, 100)),
                tokens=tokens,
                start=float(free[slot]),
                ttft=float(times[0] - free[slot]),
                itl=np.diff(times).tolist(),
                latency=float(times[-1] - free[slot]),
                error="ServerDisconnectedError" if failed else "",
            )
        )
        free[slot] = times[-1] + scale * 1e-3
    duration = float(max(r.start + r.latency for r in requests) - began) + scale * rng.random()
    return requests, duration, concurrency, fixed


@settings(max_examples=300, deadline=None)
@given(served(), st.booleans(), st.sampled_from(["openai", "openai-chat"]))
def test_an_honest_result_never_violates(run, detailed, backend):
    requests, duration, concurrency, fixed = run
    result = summarise(
        requests, duration, concurrency=concurrency, detailed=detailed, backend=backend
    )
    findings = audit(result, output_len=fixed)
    assert [f for f in findings if f.outcome is Outcome.VIOLATED] == []


@settings(max_examples=150, deadline=None)
@given(
    served(),
    st.sampled_from(
        [
            "duration",
            "completed",
            "total_input_tokens",
            "request_throughput",
            "output_throughput",
            "total_token_throughput",
            "mean_ttft_ms",
            "median_tpot_ms",
            "std_itl_ms",
            "p99_e2el_ms",
        ]
    ),
    st.sampled_from([0.5, 0.98, 1.02, 3.0]),
)
def test_a_number_changed_by_two_percent_contradicts_the_lists(run, key, factor):
    requests, duration, concurrency, _ = run
    result = summarise(requests, duration, concurrency=concurrency, detailed=True)
    if abs(result[key]) < 1e-3 or result["failed"]:
        return
    result[key] *= factor
    assert with_outcome(audit(result))


LIST_DAMAGES = {
    "shorter": (lambda r: r["ttfts"].pop(), {"list-length", "list-statistics"}),
    "other token": (lambda r: r["output_lens"].__setitem__(0, 999), {"list-sum"}),
    "other prompt": (lambda r: r["input_lens"].__setitem__(0, 999), {"list-sum"}),
    "slower gap": (lambda r: r["itls"][0].append(9.0), {"list-statistics"}),
    "hidden error": (lambda r: r["errors"].__setitem__(0, "timeout"), {"errors"}),
    "not a list": (lambda r: r.update(itls=3), {"list-length", "list-statistics"}),
    "flat": (lambda r: r.update(itls=[0.1] * 8), {"list-statistics"}),
    "text in a list": (lambda r: r["ttfts"].__setitem__(0, "0.1"), {"list-statistics"}),
}


@pytest.mark.parametrize(("damage", "identities"), LIST_DAMAGES.values(), ids=LIST_DAMAGES)
def test_damaged_lists_are_found_out(damage, identities):
    rng = np.random.default_rng(1)
    requests = [
        SimpleNamespace(
            prompt=10, tokens=5, start=0.0, ttft=0.1, itl=(gaps := rng.random(4)).tolist(),
            latency=0.1 + float(gaps.sum()), error="",
        )
        for _ in range(8)
    ]  # fmt: skip
    result = summarise(requests, 4.2, concurrency=None, detailed=True)
    assert with_outcome(audit(copy.deepcopy(result))) == set()
    damage(result)
    assert identities <= with_outcome(audit(result))


# Anything else


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([10**400, -(10**400), 1e308, 5e-324, 0, -1]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
KEYS = sorted(
    summarise(
        [
            SimpleNamespace(
                prompt=1, tokens=2, start=0.0, ttft=0.1, itl=[0.1], latency=0.2, error=""
            )
        ],
        1.0,
        concurrency=1,
        detailed=True,
    )
)


@settings(max_examples=400, deadline=None)
@given(json_values | st.dictionaries(st.sampled_from(KEYS), json_values, max_size=40))
def test_no_json_value_raises(value):
    for finding in audit(value, input_len=3, output_len=2):
        assert isinstance(finding, Finding)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(ARTICLE), st.dictionaries(st.sampled_from(KEYS), json_values, max_size=6))
def test_no_damage_to_a_result_raises(path, damage):
    assert audit({**load(path), **damage})


def test_numbers_too_long_to_print_are_found(article):
    article["completed"] = 10**5000
    assert "numbers" in with_outcome(audit(article))


@pytest.mark.parametrize("value", [None, [], "text", 1.0, True])
def test_what_is_no_object_is_no_result(value):
    (finding,) = audit(value)
    assert finding.outcome is Outcome.VIOLATED


def test_a_benchmark_of_embeddings_is_not_missing_its_tokens(article):
    for key in ("total_output_tokens", "output_throughput"):
        del article[key]
    (finding,) = (
        f for f in audit({**article, "total_input_sequences": 512}) if f.identity == "keys"
    )
    assert finding.outcome is Outcome.NOT_CHECKABLE


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore:All requests failed")
@settings(max_examples=40, deadline=None)
@given(served())
def test_the_simulated_results_are_those_of_vllm(run):
    serve = pytest.importorskip("vllm.benchmarks.serve")
    from vllm.benchmarks.lib.endpoint_request_func import RequestFuncOutput

    requests, duration, concurrency, _ = run
    outputs = [
        RequestFuncOutput(
            success=not r.error, prompt_len=r.prompt, output_tokens=r.tokens, start_time=r.start,
            ttft=r.ttft, itl=r.itl, latency=r.latency, error=r.error,
        )
        for r in requests
    ]  # fmt: skip
    metrics, _ = serve.calculate_metrics([], outputs, duration, None, [99.0], {})
    ours = summarise(requests, duration, concurrency=concurrency, detailed=False)
    assert ours["completed"] == metrics.completed
    assert ours["max_concurrent_requests"] == metrics.max_concurrent_requests
    assert ours["max_output_tokens_per_s"] == metrics.max_output_tokens_per_s
    assert ours["total_token_throughput"] == pytest.approx(metrics.total_token_throughput)
    for metric in ("ttft", "tpot", "itl", "e2el"):
        for statistic in ("mean", "median", "std"):
            key = f"{statistic}_{metric}_ms"
            assert ours[key] == pytest.approx(getattr(metrics, key))
        ((_, p99),) = getattr(metrics, f"percentiles_{metric}_ms")
        assert ours[f"p99_{metric}_ms"] == pytest.approx(p99)
