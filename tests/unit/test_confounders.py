"""Each confounder planted once in a clean run: found, named, and the verdict withheld."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from reproduce import metrics, tables
from reproduce.evidence.engine_log import Scope
from reproduce.evidence.fusions import EXPECTED_FUSIONS
from reproduce.outside import profile_store
from reproduce.schemas import EngineFacts, LaunchFacts, RepeatRecord, ServerCounters, Slot
from reproduce.stats.trend import trends
from reproduce.verdicts import confounders, verdict
from reproduce.verdicts.conditions import Command, Conditions, serve_flags
from reproduce.verdicts.confounders import Severity

CPU = profile_store.load("cpu", {"repeats": 8})
ARMS = ("native", "transformers")
IDLE = ServerCounters(
    running=0, waiting=0, prompt_tokens=0, generation_tokens=0, prefix_cache_hits=0
)


def measured(ratio=lambda repeat: 1.0, seed=1, noise=0.01):
    """A ladder of eight repeats: throughputs around 100, those of one arm times the ratio."""
    random = np.random.default_rng(seed)
    rows = []
    for rung in CPU.ladder:
        for repeat in range(1, 9):
            for arm in ARMS:
                row = {"arm": arm, "launch": 1, "rung": rung.name, "repeat": repeat,
                       "order": len(rows), "valid": True, "reasons": "", "source": "x"}  # fmt: skip
                row |= dict.fromkeys(metrics.METRICS, math.nan)
                speed = 100 * (ratio(repeat) if arm == "transformers" else 1)
                row["total_tok_s"] = speed * math.exp(noise * random.standard_normal())
                rows.append(row)
    return pd.DataFrame(rows)


def record(arm, rung, repeat, **change):
    given = {
        "slot": Slot(arm=arm, launch=1, rung=rung.name, repeat=repeat),
        "start": 1, "order": 0, "attempt": 1, "valid": True, "reasons": (), "result": "rep-01.json",
        "result_sha256": None, "started_at": datetime.now(UTC), "wall_s": 1,
        "warmups": rung.warmup_requests, "argv": (), "before": IDLE, "after": IDLE,
    }  # fmt: skip
    return RepeatRecord(**{**given, **change})


def launch(arm, **change):
    architecture = "DeepseekV3ForCausalLM" if arm == "native" else "TransformersMoEForCausalLM"
    fusions = EXPECTED_FUSIONS["DeepseekV3ForCausalLM"] if arm == "transformers" else ()
    engine = EngineFacts(version="0.32.0", architecture=architecture, backend=arm,
                         fusions=fusions, kv_tokens=233008)  # fmt: skip
    return LaunchFacts(
        arm=arm, launch=1, start=1, ready_s=1, engine=engine.model_copy(update=change)
    )


def command(arm, *more, **env):
    backend = "vllm" if arm == "native" else "transformers"
    argv = ["vllm", "serve", "m", "--no-enable-prefix-caching", "--model-impl", backend,
            "--port", "1" if arm == "native" else "2", *more]  # fmt: skip
    return Command(arm, argv, {"VLLM_CPU_KVCACHE_SPACE": "1", **env})


CLEAN = Conditions(
    profile=CPU,
    measurements=measured(),
    records=[record(arm, rung, 1) for rung in CPU.ladder for arm in ARMS],
    launches=[launch(arm) for arm in ARMS],
    commands=[command(arm) for arm in ARMS],
    disturbed=dict.fromkeys(ARMS, (0, 48)),
)
RUNG = CPU.ladder[1]


def without(frame, arm, rung):
    here = (frame["arm"] == arm) & (frame["rung"] == rung)
    return frame.assign(
        valid=frame["valid"] & ~here, reasons=frame["reasons"].where(~here, "2 requests failed")
    )


def with_record(**change):
    return {"records": [*CLEAN.records, record("native", RUNG, 2, **change)]}


def judged(conditions):
    return verdict.judge(
        conditions.profile,
        tables.comparison(conditions.measurements, conditions.profile, "total_tok_s"),
        Scope(True, (), ()),
        conditions.measurements,
        None,
        confounders.find(conditions),
    )


def test_a_clean_run_has_none_and_gets_its_verdict():
    assert confounders.find(CLEAN) == []
    assert judged(CLEAN).label is verdict.Label.EQUIVALENT


PLANTED = {
    "a flag": (
        "flags beyond the one under test",
        {"commands": [command("native"), command("transformers", "--enforce-eager")]},
        "enforce-eager: not given against on",
    ),
    "a flag of one start only": (
        "flags beyond the one under test",
        {"commands": [*CLEAN.commands, command("native", "--max-num-seqs=8")]},
        "max-num-seqs: not given against 8",
    ),
    "an environment variable": (
        "flags beyond the one under test",
        {"commands": [command("native"), command("transformers", VLLM_MLA_DISABLE="1")]},
        "VLLM_MLA_DISABLE",
    ),
    "a version": (
        "different versions",
        {"launches": [launch("native"), launch("transformers", version="0.31.0")]},
        "0.31.0",
    ),
    "a cache hit": (
        "prefix-cache hits",
        with_record(after=IDLE.model_copy(update={"prefix_cache_hits": 64})),
        f"first in native, {RUNG.name}, repeat 2",
    ),
    "no warm-up": ("too few warm-ups", with_record(warmups=0), f"{RUNG.name} (0 of"),
    "a busy server": (
        "server busy at the start",
        with_record(before=IDLE.model_copy(update={"waiting": 3})),
        "3 in 1 repeats that count",
    ),
    "a loaded machine": (
        "loaded machine",
        {"disturbed": {"native": (30, 48), "transformers": (2, 48)}},
        "30 of 48 attempts of the native arm",
    ),
    "a trend": (
        "trend over the repeats",
        {"measurements": measured(lambda repeat: 1 - 0.02 * repeat)},
        "drifts over the repeats",
    ),
    "an invalid rung": (
        "invalid rungs",
        {"measurements": without(CLEAN.measurements, "transformers", RUNG.name)},
        RUNG.name,
    ),
    "a missing fusion": (
        "missing fusion",
        {
            "launches": [
                launch("native"),
                launch("transformers", fusions=EXPECTED_FUSIONS["DeepseekV3ForCausalLM"][:-1]),
            ]
        },
        "kv_a_layernorm",
    ),
    "a smaller cache": (
        "different KV capacity",
        {"launches": [launch("native"), launch("transformers", kv_tokens=87296)]},
        "233,008 tokens against 87,296",
    ),
    "an edited file": ("changed raw files", {"changed_files": ["raw/x.json"]}, "raw/x.json"),
    "a violated identity": (
        "results that contradict themselves",
        {"violations": ["raw/x.json: throughput"]},
        "raw/x.json: throughput",
    ),
}


@pytest.mark.parametrize(("name", "change", "told"), PLANTED.values(), ids=PLANTED)
def test_a_planted_confounder_is_named_and_withholds_the_verdict(name, change, told):
    conditions = replace(CLEAN, **change)
    found = confounders.find(conditions)
    assert {one.name for one in found if one.severity is Severity.BLOCKS} == {name}
    assert any(told in one.sentence for one in found)
    decided = judged(conditions)
    assert decided.label is verdict.Label.WITHHELD
    assert told in decided.headline + " ".join(decided.limits)


def test_every_rule_that_can_withhold_a_verdict_was_planted():
    warn_only = {"remote code", "failed launches"}
    assert {name for name, _, _ in PLANTED.values()} == set(confounders.RULES) - warn_only


HARMLESS = {
    "remote code": {
        "commands": [command("native", "--trust-remote-code"), command("transformers")]
    },
    "prefix-cache hits": with_record(
        valid=False, after=IDLE.model_copy(update={"prefix_cache_hits": 64})
    ),
    "server busy at the start": with_record(
        valid=False, before=IDLE.model_copy(update={"running": 1})
    ),
    "loaded machine": {"disturbed": {"native": (10, 48), "transformers": (10, 48)}},
    "different KV capacity": {
        "launches": [launch("native"), launch("transformers", kv_tokens=233000)]
    },
    "trend over the repeats": {
        "measurements": measured(lambda repeat: 1 - 0.003 * repeat, noise=0.003)
    },
}


def trusting(**changes):
    return [
        one.sentence
        for one in confounders.find(replace(CLEAN, **changes))
        if one.name == "remote code" and one.sentence.startswith("trust-remote-code is given to")
    ]


def test_code_of_the_model_is_named_wherever_it_may_have_run():
    assert trusting() == []
    both = [command(arm, "--trust_remote_code") for arm in ("native", "transformers")]
    assert "the native server and the transformers server: " in trusting(commands=both)[0]
    off = [command(arm, "--no-trust-remote-code") for arm in ("native", "transformers")]
    assert trusting(commands=off) == []
    asked = {"server.flags.trust-remote-code": True}
    profile = profile_store.changed(CLEAN.profile, asked)
    assert "the native server and the transformers server: " in trusting(profile=profile)[0]
    asked = {"client.flags.trust-remote-code": True}
    profile = profile_store.changed(CLEAN.profile, asked)
    assert "is given to the client: " in trusting(profile=profile)[0]
    sent = [r.model_copy(update={"argv": ("--trust-remote-code",)}) for r in CLEAN.records]
    assert "is given to the client: " in trusting(records=sent)[0]


@pytest.mark.parametrize(("name", "change"), HARMLESS.items(), ids=HARMLESS)
def test_what_is_told_without_withholding(name, change):
    found = confounders.find(replace(CLEAN, **change))
    assert {one.name for one in found} == {name}
    assert Severity.BLOCKS not in {one.severity for one in found}
    assert judged(replace(CLEAN, **change)).label is not verdict.Label.WITHHELD


def test_a_third_arm_confounds_nothing():
    third = "transformers-no-mla"
    conditions = replace(
        CLEAN,
        commands=[*CLEAN.commands, Command(third, ["serve", "m"], {"VLLM_MLA_DISABLE": "1"})],
        records=[*CLEAN.records, record(third, RUNG, 1, warmups=0)],
        launches=[*CLEAN.launches, LaunchFacts(arm=third, launch=1, start=1, ready_s=1,
                                               engine=EngineFacts(version="0.1", kv_tokens=1))],
    )  # fmt: skip
    assert confounders.find(conditions) == []


def test_nothing_on_file_is_no_confounder():
    assert confounders.find(Conditions(profile=CPU, measurements=CLEAN.measurements)) == []


def test_steady_ladders_rarely_have_a_trend():
    random = np.random.default_rng(7)
    index = [(rung.name, 1, pair) for rung in CPU.ladder for pair in range(8)]
    series = pd.DataFrame(index, columns=["rung", "launch", "pair"])
    alarms = sum(
        bool(list(trends(series.assign(y=random.standard_normal(len(series)))))) for _ in range(400)
    )
    assert alarms <= 10  # 1 % is 4


def test_the_amount_of_a_trend_is_the_change_from_first_to_last():
    series = pd.DataFrame({"rung": "c1", "launch": 1, "pair": range(8)})
    series["y"] = np.log(np.linspace(1, 1.1, 8))
    assert dict(trends(series))["c1"] == pytest.approx(10, abs=0.3)


def test_a_step_between_launches_is_no_trend():
    first, second = measured(seed=5), measured(lambda _: 0.8, seed=6)
    frame = pd.concat([first, second.assign(launch=2)])
    assert confounders.find(replace(CLEAN, measurements=frame)) == []


@pytest.mark.parametrize(
    ("argv", "flags"),
    [
        (["vllm", "serve", "m", "--tp", "2", "--no-x", "--y=1", "--z"],
         {"tp": "2", "x": "off", "y": "1", "z": "on"}),
        (["serve", "m", "--max_num_seqs", "4"], {"max-num-seqs": "4"}),
        (["serve"], {}),
    ],
)  # fmt: skip
def test_flags_of_a_command(argv, flags):
    assert serve_flags(argv) == flags
