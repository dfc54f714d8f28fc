"""One run of the real engine with much wrong with it at once: each is found and named."""

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest
import requests

from reproduce.engine import launcher
from reproduce.engine.agreement import Bearer
from reproduce.engine.server import Server
from reproduce.errors import EngineError
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.reading import judgement
from reproduce.running import measure
from reproduce.schemas import ServerCounters
from reproduce.verdicts.confounders import Severity
from reproduce.verdicts.verdict import Label

pytestmark = pytest.mark.engine

# Without MLA the CPU engine has a prefix cache; warm-ups resend the first request and hit it.
PROFILE = """
extends: smoke
name: confounded
server:
  flags: {enable-prefix-caching: true}
  env: {VLLM_MLA_DISABLE: "1"}
arms:
  transformers:
    serve: {max-num-seqs: 32, trust-remote-code: true}
    env: {VLLM_CPU_KVCACHE_SPACE: "2"}
ladder:
  - {name: c1, concurrency: 1, input_tokens: 300, output_tokens: 8, prompts: 3}
  - {name: c4, concurrency: 4, input_tokens: 300, output_tokens: 8, prompts: 8, warmups: 0}
repeats: 1
"""
NEIGHBOURS = 6
KEEP_A_CORE_BUSY = """
import time
until = time.monotonic() + 4
while time.monotonic() < until:
    pass
"""


class Visited(Server):
    """A server that another user asks, on a machine that other processes load, the first time."""

    visited = False

    def idle_counters(self, patience_s: float = 2.0) -> ServerCounters | None:
        if Visited.visited:
            return super().idle_counters(patience_s)
        Visited.visited = True
        threading.Thread(target=self._ask, daemon=True).start()
        time.sleep(0.5)
        counters = super().idle_counters(patience_s)
        # Only now: the server must still get to say that it is busy.
        for _ in range(NEIGHBOURS):
            subprocess.Popen([sys.executable, "-c", KEEP_A_CORE_BUSY])
        time.sleep(0.5)
        return counters

    def _ask(self) -> None:
        body = {"model": self.spec.model, "prompt": "ba", "max_tokens": 2000, "ignore_eos": True}
        key = Bearer(self.spec.api_key)
        requests.post(f"{self.url}/v1/completions", json=body, auth=key, timeout=300)


@pytest.fixture(scope="module")
def confounded(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    folder: Path = tmp_path_factory.mktemp("confounded")
    (folder / "confounded.yaml").write_text(PROFILE)
    profile = profile_store.load(str(folder / "confounded.yaml"))
    run = RunDir.create(folder / "run", profile, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "Server", Visited)
        patch.setattr(measure, "_PATIENCE_S", 1.0)
        with pytest.raises(EngineError, match=r"none of \d+ attempts counts"):
            measure.measure(run)
    return RunDir.open(run.root)


@pytest.fixture(scope="module")
def found(confounded: RunDir) -> pd.DataFrame:
    frame = judgement.confounders_frame(confounded)
    return frame[frame["found"] != ""].set_index("rule")


@pytest.mark.parametrize(
    ("rule", "severity", "words"),
    [
        ("flags beyond the one under test", Severity.BLOCKS, "max-num-seqs"),
        ("flags beyond the one under test", Severity.BLOCKS, "VLLM_CPU_KVCACHE_SPACE: 1 against 2"),
        ("prefix-cache hits", Severity.WARNING, "prefix cache"),
        ("too few warm-ups", Severity.BLOCKS, "c4 (0 of 4)"),
        ("server busy at the start", Severity.WARNING, "busy with other requests"),
        ("loaded machine", None, "the probe was disturbed around"),
        ("invalid rungs", Severity.BLOCKS, "No valid repeat on both arms"),
        ("missing fusion", Severity.BLOCKS, "MLAAttention"),
        ("different KV capacity", Severity.BLOCKS, "The KV caches differ in size: 87,296"),
        ("remote code", Severity.NOTE, "trust-remote-code"),
    ],
)
def test_each_is_found_and_named(
    found: pd.DataFrame, rule: str, severity: Severity | None, words: str
) -> None:
    assert rule in found.index
    rows = found.loc[[rule]]
    named = rows[rows["found"].str.contains(words, regex=False)]
    assert not named.empty, rows.to_string()
    assert severity is None or set(named["severity"]) == {severity.value}


def test_the_verdict_is_withheld(confounded: RunDir) -> None:
    assert judgement.verdict_of(confounded).label is Label.NO_TEST


def test_a_changed_raw_file_is_named(confounded: RunDir, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(confounded.root, tmp_path / "copy"))
    changed = next(copy.rglob("agreement.json"))
    changed.write_bytes(changed.read_bytes() + b"\n")
    rows = judgement.confounders_frame(RunDir.open(copy)).set_index("rule")
    assert changed.name in rows.loc["changed raw files", "found"]
