"""From a run directory on disk to its verdict: what is planted in its files is found."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reproduce.errors import ReproduceError
from reproduce.evidence.engine_log import Scope
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.reading import judgement
from reproduce.schemas import RepeatRecord, ServerCounters, Slot
from reproduce.stats.equivalence import Comparison, Effect
from reproduce.verdicts import confounders, verdict
from reproduce.verdicts.confounders import Severity
from reproduce.verdicts.verdict import Label
from tests.synthetic import answers
from tests.unit.results import result

LOGS = Path(__file__).parent / "data"
ARMS = {"native": "vllm", "transformers": "transformers"}
RUNG = {"name": "unbounded", "concurrency": None, "input_tokens": 1024, "output_tokens": 2048,
        "prompts": 512}  # fmt: skip
IDLE = ServerCounters(
    running=0, waiting=0, prompt_tokens=0, generation_tokens=0, prefix_cache_hits=0
)


@pytest.fixture
def run(tmp_path):
    """One rung, ten repeats, arms 0.5 % apart, and the logs of real engines."""
    profile = profile_store.load("cpu", {"ladder": [RUNG], "mean_tpot_over": []})
    made = RunDir.create(tmp_path / "run", profile, {})
    for arm, impl in ARMS.items():
        start = made.start_dir(arm, 1, 1)
        start.mkdir(parents=True)
        (start / "engine.log").write_text((LOGS / f"cpu_{arm}.log").read_text())
        argv = ["vllm", "serve", "tiny", "--no-enable-prefix-caching", "--model-impl", impl]
        (start / "command.json").write_text(json.dumps({"argv": argv, "env": {}}))
        (start / "agreement.json").write_text(answers().model_dump_json())
        random = np.random.default_rng(len(arm))
        for repeat in range(1, 11):
            slower = np.exp(0.003 * random.standard_normal()) * (1.005 if arm != "native" else 1)
            save(made, arm, repeat, result(slower))
    made.add_raw(*(path.relative_to(made.root).as_posix() for path in files(made)))
    return made


def files(run):
    return [path for path in (run.root / "raw").rglob("start-01/*") if path.is_file()]


def save(run, arm, repeat, data, **change):
    given = {
        "slot": Slot(arm=arm, launch=1, rung="unbounded", repeat=repeat), "start": 1,
        "order": 2 * repeat, "attempt": 1, "valid": True, "reasons": (), "result": None,
        "result_sha256": None, "started_at": datetime.now(UTC), "wall_s": 1, "warmups": 512,
        "argv": (), "before": IDLE, "after": IDLE,
    }  # fmt: skip
    run.save_repeat(RepeatRecord(**{**given, **change}), json.dumps(data).encode())


def edit(run, name, *changes):
    """Edit a raw file and list it anew, as if it had been written so."""
    path = next((run.root / "raw").glob(name))
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    run.add_raw(path.relative_to(run.root).as_posix())


def blocking(run):
    found = confounders.find(judgement.conditions(run))
    return {one.name for one in found if one.severity is Severity.BLOCKS}


def test_a_clean_run(run):
    assert confounders.find(judgement.conditions(run)) == []
    assert judgement.verdict_of(run).label is Label.EQUIVALENT
    claims = judgement.claims_frame(run).set_index("claim")["verdict"]
    for name in ("native-speed", "inside-3-percent", "fused-modules", "same-attention",
                 "same-cache", "identical-flags"):  # fmt: skip
        assert claims[name] == "reproduced", name
    assert claims["mean-speed"] == "not testable here"


NATIVE, CANDIDATE = "native/launch-01/start-01", "transformers/launch-01/start-01"
PLANTED = {
    "flags beyond the one under test": lambda run: edit(
        run, f"{CANDIDATE}/command.json", ('"tiny"', '"tiny", "--enforce-eager"')
    ),
    "different versions": lambda run: edit(run, f"{CANDIDATE}/engine.log", ("0.32.0", "0.31.9")),
    "prefix-cache hits": lambda run: save(
        run, "native", 11, result(), after=IDLE.model_copy(update={"prefix_cache_hits": 9})
    ),
    "too few warm-ups": lambda run: save(run, "native", 11, result(), warmups=1),
    "server busy at the start": lambda run: save(
        run, "native", 11, result(), before=IDLE.model_copy(update={"running": 1})
    ),
    "missing fusion": lambda run: edit(
        run, f"{CANDIDATE}/engine.log", ("Fused: self_attn", "Found: self_attn")
    ),
    "different KV capacity": lambda run: edit(
        run, f"{CANDIDATE}/engine.log", ("233,008 tokens", "87,296 tokens")
    ),
    "changed raw files": lambda run: next(run.root.rglob("rep-03.json")).write_text(
        json.dumps(result())
    ),
    "results that contradict themselves": lambda run: save(
        run, "native", 11, result(mean_tpot_ms=50.0)
    ),
    "invalid rungs": lambda run: [
        path.unlink() for path in (run.root / "raw/native/launch-01/unbounded").iterdir()
    ],
}


@pytest.mark.parametrize(("name", "plant"), PLANTED.items(), ids=PLANTED)
def test_what_is_planted_in_the_files_withholds_the_verdict(run, name, plant):
    plant(run)
    assert name in blocking(run)
    assert judgement.verdict_of(run).label in (Label.WITHHELD, Label.NO_TEST)
    claims = judgement.claims_frame(run).set_index("claim")["verdict"]
    assert claims["native-speed"] in ("inconclusive", "not testable here")
    assert claims["inside-3-percent"] in ("inconclusive", "not testable here")


def message(ask, run):
    try:
        ask(run)
    except ReproduceError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ["command.json", "unbounded/rep-02.json", "rep-02.record.json"])
@pytest.mark.parametrize("text", ["", "[]", '{"argv": 1}', "\x00"], ids=repr)
def test_a_broken_file_is_one_line_that_names_it(run, name, text):
    next(run.root.rglob(name)).write_text(text)
    for ask in (judgement.verdict_of, judgement.claims_frame, judgement.confounders_frame):
        told = message(ask, run)
        assert "\n" not in told
        if told:
            assert name.rpartition("/")[2] in told
        else:  # JSON that holds no result: readable, and not what was written
            assert "changed raw files" in blocking(run)


@pytest.mark.parametrize(
    ("noninferior", "margin", "words"),
    [
        (True, 0.0329, "A loss of 3 % or more is excluded (one-sided, 5 %). "
                       "Equivalent from a margin of 3.3 % on."),
        (False, 0.0401, "interval 98.0 to 104.0 %). Equivalent from a margin of 4.1 % on."),
    ],
)  # fmt: skip
def test_what_is_inconclusive_still_says_what_is_known(noninferior, margin, words):
    effect = Effect("ladder mean", 5, 15, ratio=1.01, low=0.98, high=1.04,
                    smallest_margin=margin, noninferior=noninferior)  # fmt: skip
    profile = profile_store.load("cpu", {"ladder": [RUNG], "mean_tpot_over": []})
    found = verdict.judge(profile, Comparison((effect,), effect), Scope(True, (), ()),
                          pd.DataFrame({"valid": [True]}), None, [])  # fmt: skip
    assert found.label is Label.INCONCLUSIVE
    assert found.headline.endswith(words)
