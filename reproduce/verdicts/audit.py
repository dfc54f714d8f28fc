"""Identities that an honest `vllm bench serve` result satisfies, ours or anybody's.

A result holds each fact several times: throughputs beside tokens and duration, latencies beside
their parts, concurrency beside latencies. An edit, a mix of two runs or a broken client shows
where they disagree. The identities follow, for any timings, from the definitions in
`calculate_metrics` (vllm/benchmarks/serve.py, vLLM 0.32), so VIOLATED means: not what one run
writes. Whatever an honest run can show, though rarely, is a NOTE.
"""

import math
from collections.abc import Callable

import numpy as np

from reproduce.verdicts.audit_check import Check, Finding, Identity, Outcome, Rule, Subjects
from reproduce.verdicts.audit_file import (
    LISTS,
    AbsentError,
    AuditedFile,
    Floats,
    MalformedError,
    as_number,
)

__all__ = ["Finding", "Outcome", "audit"]

_COUNTS = ("num_prompts", "completed", "total_input_tokens", "total_output_tokens")
_RATES = {
    "request_throughput": ("completed",),
    "output_throughput": ("total_output_tokens",),
    "total_token_throughput": ("total_input_tokens", "total_output_tokens"),
    "input_throughput": ("total_input_tokens",),
}
_REQUIRED = ("duration", *_COUNTS, *list(_RATES)[:3])
_WHOLE = (*_COUNTS, "failed", "max_concurrent_requests", "max_concurrency")
_NUMBERS = {*_REQUIRED, *_WHOLE, *_RATES, "max_output_tokens_per_s"}


def audit(
    result: object, *, input_len: int | None = None, output_len: int | None = None
) -> list[Finding]:
    """Check a parsed result file. Never raises, whatever JSON value it is given.

    Args:
        result: The parsed file.
        input_len: Tokens of each prompt as requested, if known.
        output_len: Tokens every request had to generate (with --ignore-eos), if known.

    Returns:
        A finding per identity and subject, those that hold included.
    """
    if not isinstance(result, dict):
        detail = f"a {type(result).__name__}"
        meaning = "A result is a JSON object."
        return [Finding("object", "", Outcome.VIOLATED, meaning, 0, detail=detail)]
    file = AuditedFile(result, input_len, output_len)
    return [
        identity.applied(file, subject)
        for identity in _IDENTITIES
        for subject in identity.subjects(file)
    ]


_IDENTITIES: list[Identity] = []


def _identity(
    meaning: str,
    *,
    subjects: Subjects = lambda _: ("",),
    tolerance: float = 1e-6,
) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        name = rule.__name__.strip("_").replace("_", "-")
        _IDENTITIES.append(Identity(name, meaning, tolerance, subjects, rule))
        return rule

    return register


def _equal(observed: float, expected: float) -> Check:
    return Check(observed, expected, expected)


_CHAT = "older chat clients let the closing usage message end the request"


def _unless_chat(file: AuditedFile) -> Outcome:
    return Outcome.VIOLATED if file.streams_completions() else Outcome.NOTE


@_identity("Every key that all versions write is there.")
def _keys(file: AuditedFile, _: str) -> Check:
    missing = [key for key in _REQUIRED if key not in file.result]
    if missing and "total_input_sequences" in file.result:
        raise AbsentError("a benchmark of embeddings generates no tokens")
    if missing:
        raise MalformedError(f"missing: {', '.join(missing)}")
    return _equal(0, 0)


@_identity("Numbers are finite and not negative, counts whole, the duration above zero.")
def _numbers(file: AuditedFile, _: str) -> Check:
    wrong = []
    known = _NUMBERS.union(file.statistic_keys())
    for key, value in file.result.items():
        if key not in known or (key == "max_concurrency" and value is None):
            continue
        number = as_number(value)
        if number is None:
            wrong.append(f"{key} is not a finite number")
        elif number < 0 or (key == "duration" and number == 0):
            wrong.append(f"{key} is {number:g}")
        elif key in _WHOLE and not number.is_integer():
            wrong.append(f"{key} is not whole")
    if wrong:
        raise MalformedError("; ".join(wrong))
    return _equal(0, 0)


@_identity("Every prompt either completed or failed.", tolerance=0)
def _requests(file: AuditedFile, _: str) -> Check:
    return _equal(file.number("completed") + file.number("failed"), file.number("num_prompts"))


@_identity("No request failed; failed ones are in the duration and in nothing else.", tolerance=0)
def _failures(file: AuditedFile, _: str) -> Check:
    return Check(file.number("failed"), 0, 0, failing=Outcome.NOTE)


@_identity(
    "A throughput times the duration is what it counts.",
    subjects=lambda file: [rate for rate in _RATES if rate in file.result],
)
def _throughput(file: AuditedFile, rate: str) -> Check:
    counted = sum(file.number(key) for key in _RATES[rate])
    return _equal(file.number(rate) * file.number("duration"), counted)


@_identity("The prompts have the requested length, a few retokenised ones apart.", tolerance=0.01)
def _input_tokens(file: AuditedFile, _: str) -> Check:
    if file.input_len is None:
        raise AbsentError("the requested input length is not known")
    return _equal(file.number("total_input_tokens"), file.number("completed") * file.input_len)


@_identity("Every completed request generated the requested tokens.", tolerance=0)
def _output_tokens(file: AuditedFile, _: str) -> Check:
    if file.output_len is None:
        raise AbsentError("the requested output length is not known")
    return _equal(file.number("total_output_tokens"), file.number("completed") * file.output_len)


@_identity("With n tokens in every output, mean E2EL = mean TTFT + (n − 1) · mean TPOT.")
def _latency_sum(file: AuditedFile, _: str) -> Check:
    tokens, known = file.fixed_length()
    decoding = (tokens - 1) * file.number("mean_tpot_ms")
    expected = file.number("mean_ttft_ms") + decoding
    return Check(
        file.number("mean_e2el_ms"),
        expected,
        expected,
        failing=Outcome.VIOLATED if known else Outcome.NOTE,
        detail="" if known else f"unless the outputs differ in length around {tokens:g} tokens",
    )


@_identity("(mean E2EL − mean TTFT) / mean ITL counts chunks: a whole number.", tolerance=1e-8)
def _chunks(file: AuditedFile, _: str) -> Check:
    chunks = file.chunks()
    whole = float(np.rint(chunks))
    return Check(chunks, whole, whole, failing=_unless_chat(file), detail=_CHAT)


@_identity("Each chunk carries one token; otherwise ITL is not a time per token.")
def _tokens_per_chunk(file: AuditedFile, _: str) -> Check:
    tokens = file.number("total_output_tokens")
    return Check(file.chunks(), tokens, tokens, failing=Outcome.NOTE)


@_identity("The busiest second has at least the mean number of chunks, and not more than all.")
def _peak(file: AuditedFile, _: str) -> Check:
    peak, seconds = file.number("max_output_tokens_per_s"), file.number("duration")
    failing, detail = _unless_chat(file), _CHAT
    try:
        chunks = file.chunks()
    except AbsentError:
        chunks = file.number("total_output_tokens")
        failing, detail = Outcome.NOTE, "unless several tokens came in one chunk"
    return Check(peak, chunks / (math.floor(seconds) + 1), chunks, failing=failing, detail=detail)


@_identity(
    "Little's law: completed · mean E2EL / duration requests are in flight, not more than can be.",
    subjects=lambda _: ("max_concurrency", "max_concurrent_requests", "completed"),
)
def _little(file: AuditedFile, limit: str) -> Check:
    if limit == "max_concurrency" and file.result.get(limit, "") is None:
        raise AbsentError("the client's concurrency is unbounded")
    in_flight = file.number("completed") * file.number("mean_e2el_ms") / 1000
    return Check(in_flight / file.number("duration"), 0, file.number(limit))


@_identity("Not more requests are in flight than completed.", tolerance=0)
def _peak_concurrency(file: AuditedFile, _: str) -> Check:
    return Check(file.number("max_concurrent_requests"), 0, file.number("completed"))


@_identity("No request lasts longer than the run.", subjects=AuditedFile.metrics)
def _longest(file: AuditedFile, metric: str) -> Check:
    statistics = file.statistics(metric)
    return Check(max(statistics.values()), 0, 1000 * file.number("duration"))


@_identity(
    "A request's first token is not later than its last, in the mean and in every percentile.",
    subjects=lambda file: [
        name
        for name, metric in file.statistic_keys().values()
        if metric == "ttft" and name != "std"
    ],
)
def _first_token(file: AuditedFile, statistic: str) -> Check:
    return Check(file.number(f"{statistic}_ttft_ms"), 0, file.number(f"{statistic}_e2el_ms"))


@_identity("A higher percentile is not smaller.", subjects=AuditedFile.metrics)
def _percentiles(file: AuditedFile, metric: str) -> Check:
    statistics = file.statistics(metric)
    order = sorted((float(name[1:]), value) for name, value in statistics.items() if name[0] == "p")
    order += [(50.0, statistics["median"])] if "median" in statistics else []
    values = [value for _, value in sorted(order)]
    if len(values) < 2:
        raise AbsentError(f"the file has one percentile of {metric}")
    return Check(min(np.diff(values)), 0, max(values))


@_identity(
    "The mean fits its percentiles: half of the values reach the median, 1 % the p99, and none "
    "exceeds the duration.",
    subjects=AuditedFile.metrics,
)
def _mean(file: AuditedFile, metric: str) -> Check:
    median, p99 = file.number(f"median_{metric}_ms"), file.number(f"p99_{metric}_ms")
    longest = 1000 * file.number("duration")
    lowest = max(median / 2, p99 / 100)
    return Check(file.number(f"mean_{metric}_ms"), lowest, (median + longest) / 2)


@_identity(
    "The standard deviation fits: at least |mean − median| and (p99 − mean) / √99, at most "
    "√(mean · (duration − mean)).",
    subjects=AuditedFile.metrics,
)
def _spread(file: AuditedFile, metric: str) -> Check:
    mean, median = file.number(f"mean_{metric}_ms"), file.number(f"median_{metric}_ms")
    lowest = max(abs(mean - median), (file.number(f"p99_{metric}_ms") - mean) / math.sqrt(99))
    highest = math.sqrt(max(0.0, mean * (1000 * file.number("duration") - mean)))
    return Check(file.number(f"std_{metric}_ms"), lowest, highest, scale=mean)


@_identity("Every list has an entry per request.", subjects=lambda _: LISTS, tolerance=0)
def _list_length(file: AuditedFile, key: str) -> Check:
    return _equal(len(file.column(key)), file.number("completed") + file.number("failed"))


@_identity(
    "The token counts of the completed requests add up to the total.",
    subjects=lambda _: ("input_lens", "output_lens"),
    tolerance=0,
)
def _list_sum(file: AuditedFile, key: str) -> Check:
    total = key.replace("_lens", "_tokens")
    return _equal(float(file.of_completed(key).sum()), file.number(f"total_{total}"))


def _statistic(values: Floats, name: str) -> float:
    if name == "mean":
        return float(values.mean())
    if name == "std":
        return float(values.std())
    return float(np.percentile(values, 50 if name == "median" else min(100, float(name[1:]))))


@_identity("The statistics are those of the lists.", subjects=AuditedFile.metrics)
def _list_statistics(file: AuditedFile, metric: str) -> Check:
    values = 1000 * file.seconds(metric)
    if not len(values):
        values = np.zeros(1)
    checks = []
    for name, stated in file.statistics(metric).items():
        computed = _statistic(values, name)
        detail = f"{name}_{metric}_ms"
        checks.append(Check(stated, computed, computed, scale=values.mean(), detail=detail))
    return max(checks, key=lambda check: abs(check.observed - check.low))


@_identity("Not more requests carry an error than failed.", tolerance=0)
def _errors(file: AuditedFile, _: str) -> Check:
    failed = file.number("failed")
    return Check(sum(error != "" for error in file.column("errors")), 0, failed)
