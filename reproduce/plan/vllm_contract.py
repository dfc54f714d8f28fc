"""Every flag that vLLM is given and every key that is read from its results, in one place.

Checked against vllm 0.32.0 (vllm/benchmarks/serve.py, vllm/engine/arg_utils.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reproduce.errors import DataError
from reproduce.handed_over import FlagValue
from reproduce.profile import Profile, Rung
from reproduce.schemas import RungResult, ServerCounters

ENGINE_ENV: Mapping[str, str] = {
    # The benchmark's client keeps idle connections for 60 s, the server drops them after 5 s by
    # default: a request sent on a connection being dropped fails without a trace in the log.
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "86400",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "NO_COLOR": "1",
}

_METRICS = ("ttft", "tpot", "itl", "e2el")
_LARGEST = 1e300


def flag_arguments(flags: Mapping[str, FlagValue]) -> list[str]:
    """``{"tp": 2, "a": True, "b": False}`` → ``--tp 2 --a --no-b``, in the mapping's order."""
    arguments: list[str] = []
    for name, value in flags.items():
        if value is True:
            arguments.append(f"--{name}")
        elif value is False:
            arguments.append(f"--no-{name}")
        else:
            arguments += [f"--{name}", str(value)]
    return arguments


@dataclass(frozen=True)
class NodeRank:
    """One node's place in an engine of several.

    Attributes:
        rank: 0 for the node with the API; the others are headless.
        nodes: how many there are.
        address: of node 0.
        port: of node 0, where the others report.
    """

    rank: int
    nodes: int
    address: str
    port: int


def serve_arguments(
    profile: Profile, arm: str, model: str, port: int, node: NodeRank | None = None
) -> list[str]:
    """Arguments of ``vllm serve`` for one arm: what both share, then what the arm adds."""
    topology = profile.topology
    flags: dict[str, FlagValue] = {}
    if topology.tp > 1:
        flags["tensor-parallel-size"] = topology.tp
    if topology.pp > 1:
        flags["pipeline-parallel-size"] = topology.pp
    if topology.dp > 1:
        flags["data-parallel-size"] = topology.dp
    if topology.ep:
        flags["enable-expert-parallel"] = True
    flags |= profile.server.flags
    flags |= profile.arms[arm].serve
    if node is not None:
        flags |= {"nnodes": node.nodes, "node-rank": node.rank}
        flags |= {"master-addr": node.address, "master-port": node.port}
    if node is not None and node.rank > 0:
        flags["headless"] = True
    else:
        flags |= _host(profile) | {"port": port}
    return ["serve", model, *flag_arguments(flags)]


def _host(profile: Profile) -> dict[str, FlagValue]:
    return {} if profile.server.host is None else {"host": profile.server.host}


def serve_env(profile: Profile, arm: str) -> dict[str, str]:
    """Environment that the server of ``arm`` gets on top of the inherited one."""
    return {**ENGINE_ENV, **profile.server.env, **profile.arms[arm].env}


def rung_seed(profile: Profile, rung: Rung, repeat: int) -> int:
    """Seed of a repeat's prompts: differs by rung and repeat, equal across arms and launches."""
    return 1_000_000 * profile.seed + 1_000 * profile.ladder.index(rung) + repeat


def bench_arguments(
    profile: Profile, rung: Rung, repeat: int, model: str, port: int, result: str
) -> list[str]:
    """Arguments of ``vllm bench serve`` for one repeat of a rung.

    Args:
        profile: the run's profile.
        rung: the workload.
        repeat: 1-based repeat, which decides the seed.
        model: served model name, also the tokenizer's location.
        port: where the server listens.
        result: path of the JSON file to write.
    """
    flags: dict[str, FlagValue] = {
        "model": model,
        **_host(profile),
        "port": port,
        "dataset-name": "random",
        "random-input-len": rung.input_tokens,
        "random-output-len": rung.output_tokens,
        "num-prompts": rung.prompts,
        "percentile-metrics": ",".join(_METRICS),
        "result-filename": result,
    }
    if rung.warmup_requests:
        flags["num-warmups"] = rung.warmup_requests
    if profile.client.seeded:
        flags["seed"] = rung_seed(profile, rung, repeat)
    if rung.concurrency is not None:
        flags["max-concurrency"] = rung.concurrency
    if profile.client.temperature is not None:
        flags["temperature"] = profile.client.temperature
    flags |= profile.client.flags
    switches = ["--ignore-eos", "--save-result"]
    if profile.client.detailed:
        switches.append("--save-detailed")
    return [*flag_arguments(flags), *switches]


def parse_result(data: object, where: str) -> RungResult:
    """Read a result of any client version from 0.8 to 0.32, or a published excerpt of one.

    Raises:
        DataError: ``data`` is not an object, or a value is not a finite number.
    """
    if not isinstance(data, dict):
        raise DataError(f"{where}: expected a JSON object, found {type(data).__name__}")

    def number(key: str) -> float | None:
        value = data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DataError(f"{where}: {key} must be a number, found {value!r:.60}")
        # An integer of more digits than any float has is not finite either.
        if not 0 <= value <= _LARGEST:
            raise DataError(f"{where}: {key} must be finite and not negative, found {value!r:.60}")
        return float(value)

    def count(key: str) -> int | None:
        value = number(key)
        return None if value is None else int(value)

    times: dict[str, float | None] = {}
    for metric in _METRICS:
        times[f"{metric}_ms"] = number(f"mean_{metric}_ms")
        times[f"{metric}_median_ms"] = number(f"median_{metric}_ms")
        times[f"{metric}_p99_ms"] = number(f"p99_{metric}_ms")
    model = data.get("model_id")
    return RungResult(
        model=model if isinstance(model, str) else None,
        prompts=count("num_prompts"),
        completed=count("completed"),
        failed=count("failed"),
        max_concurrency=count("max_concurrency"),
        duration_s=number("duration"),
        input_tokens=count("total_input_tokens"),
        output_tokens=count("total_output_tokens"),
        total_tok_s=number("total_token_throughput"),
        output_tok_s=number("output_throughput"),
        request_s=number("request_throughput"),
        **times,
    )


def invalid_reasons(data: Mapping[str, Any], result: RungResult, rung: Rung) -> list[str]:
    """Why a repeat does not count, in the client's own words where it has any; empty when it does.

    vLLM's client exits 0 and reports a throughput even when every request fails.
    """
    reasons = []
    if result.prompts != rung.prompts:
        reasons.append(f"{result.prompts} prompts sent, {rung.prompts} planned")
    if result.completed != rung.prompts:
        reasons.append(f"{result.completed} of {rung.prompts} requests completed")
    if result.failed:
        reasons.append(f"{result.failed} requests failed")
    wanted = rung.prompts * rung.output_tokens
    lengths = data.get("output_lens")
    if isinstance(lengths, list) and any(n != rung.output_tokens for n in lengths):
        short = sum(n != rung.output_tokens for n in lengths)
        reasons.append(f"{short} outputs are not {rung.output_tokens} tokens long")
    elif result.output_tokens != wanted:
        reasons.append(f"{result.output_tokens} output tokens, {wanted} requested")
    errors = data.get("errors")
    if isinstance(errors, list):
        texts = dict.fromkeys(_last_line(str(e)) for e in errors if e)
        reasons += [f"client: {text}" for text in list(texts)[:3]]
    return reasons


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["an error without words"])[-1][:200]


def counters_reasons(
    before: ServerCounters | None, after: ServerCounters | None, result: RungResult, rung: Rung
) -> list[str]:
    """Why the server's own counters contradict the repeat; empty when they agree with it."""
    if before is None or after is None:
        return ["the server's /metrics could not be read"]
    reasons = []
    if before.running or before.waiting:
        busy = int(before.running + before.waiting)
        reasons.append(f"the server was busy at the start: {busy} requests in flight")
    if (hits := after.prefix_cache_hits - before.prefix_cache_hits) > 0:
        reasons.append(f"{int(hits)} prompt tokens came from the prefix cache")
    if result.input_tokens is not None and result.completed:
        seen = after.prompt_tokens - before.prompt_tokens
        # Warm-ups repeat the first request, whose own length only a detailed result gives.
        least = result.input_tokens + rung.warmup_requests
        slack = 1.05 * rung.input_tokens * (rung.warmup_requests + 1)
        if not least <= seen <= result.input_tokens + slack:
            reasons.append(
                f"the server counted {int(seen)} prompt tokens, the client sent "
                f"{result.input_tokens} and {rung.warmup_requests} warm-ups"
            )
    return reasons
