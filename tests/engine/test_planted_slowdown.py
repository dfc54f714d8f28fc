"""Three launches of one engine under three names: itself, itself again, and 20 % slower."""

import subprocess
import sys
import time
from dataclasses import replace

import pandas as pd
import pytest
import requests

from reproduce import analysis, launch, metrics, profile_store, tables
from reproduce.engine.server import Server, free_port
from reproduce.equivalence import Comparison, Decision
from reproduce.measure import measure
from reproduce.rundir import RunDir
from reproduce.schemas import EngineFacts
from tests.conftest import REPO

pytestmark = pytest.mark.engine

FACTOR = "PLANTED_SLOWDOWN"
PROFILE = f"""
extends: aa
name: planted
arms:
  slow:
    backend: native
    serve: {{model-impl: vllm}}
    env: {{{FACTOR}: "1.25"}}
server:
  flags:
    enforce-eager: true
ladder:
  - {{name: c1, concurrency: 1, input_tokens: 32, output_tokens: 64, prompts: 3}}
  - {{name: c4, concurrency: 4, input_tokens: 32, output_tokens: 32, prompts: 8}}
mean_tpot_over: []
launches: 3
"""


class Handicapped(Server):
    """A server whose clients are sent to the slow proxy when its environment asks for it."""

    proxy: subprocess.Popen[bytes] | None = None

    def wait_ready(self) -> EngineFacts:
        facts = super().wait_ready()
        if factor := self.spec.env.get(FACTOR):
            port = free_port(self.spec.host)
            command = [sys.executable, "-m", "tests.engine.slow_proxy"]
            self.proxy = subprocess.Popen(
                [*command, str(self.spec.port), str(port), factor], cwd=REPO
            )
            self.spec = replace(self.spec, port=port)
            for _ in range(100):
                try:
                    requests.get(f"http://{self.spec.host}:{port}/health", timeout=5)
                    break
                except requests.ConnectionError:
                    time.sleep(0.1)
        return facts

    def stop(self) -> None:
        if self.proxy is not None:
            self.proxy.terminate()
            self.proxy.wait()
        super().stop()


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    folder = tmp_path_factory.mktemp("planted")
    (folder / "planted.yaml").write_text(PROFILE)
    profile = profile_store.load(str(folder / "planted.yaml"))
    run = RunDir.create(folder / "run", profile, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "Server", Handicapped)
        measure(run)
    return run


@pytest.fixture(scope="module")
def measurements(planted: RunDir) -> pd.DataFrame:
    return analysis.measurements(planted)


def compared(run: RunDir, measurements: pd.DataFrame, arm: str) -> Comparison:
    found = tables.arm_comparison(measurements, run.profile, arm, "total_tok_s")
    assert found is not None
    assert found.ladder.launches == 3
    return found


def test_an_engine_is_never_different_from_itself(
    planted: RunDir, measurements: pd.DataFrame
) -> None:
    found = compared(planted, measurements, "native-again")
    for effect in (*found.rungs, found.ladder):
        assert effect.decision is not Decision.DIFFERENT, effect


def test_a_fifth_slower_is_never_equivalent_and_is_found(
    planted: RunDir, measurements: pd.DataFrame
) -> None:
    found = compared(planted, measurements, "slow")
    for effect in (*found.rungs, found.ladder):
        assert effect.decision is not Decision.EQUIVALENT, effect
    assert found.rungs[0].name == "c1"
    assert found.rungs[0].decision is Decision.DIFFERENT, found.rungs[0]
    assert found.ladder.decision is Decision.DIFFERENT, found.ladder


def test_both_know_that_the_answers_are_the_same(planted: RunDir) -> None:
    assert analysis.scope(planted).is_test
    for check in analysis.agreements(planted):
        assert check.found.decision.value.startswith("agree"), check


def test_every_attempt_is_on_file_with_its_probe(
    planted: RunDir, measurements: pd.DataFrame
) -> None:
    assert len(measurements) == len(planted.records())
    assert measurements[list(metrics.PROBE_COLUMNS)].notna().all(axis=None)
    attempts = tables.attempts_table(measurements, planted.profile)
    total = attempts.set_index("rung").loc["all"]
    assert total["measured"] == total[["counted", "disturbed", "failed", "with_partner"]].sum()
    assert total["failed"] == 0
