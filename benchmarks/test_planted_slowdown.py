"""Four launches of two equal engines, and a way to the second that makes it 20 % slower.

Run by hand where nothing else runs: ``python -m pytest benchmarks/test_planted_slowdown.py``.
Three arms on two shared cores rarely give a round that counts while anything disturbs them.
"""

import os
import sys
from typing import ClassVar

import pandas as pd
import pytest

from reproduce import metrics, tables
from reproduce.engine import launcher
from reproduce.engine.process import GuardedProcess
from reproduce.engine.server import Server
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.reading import analysis
from reproduce.running.measure import measure
from reproduce.schemas import EngineFacts
from reproduce.stats.equivalence import Comparison, Decision
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
  - {{name: c1, concurrency: 1, input_tokens: 32, output_tokens: 64, prompts: 8}}
  - {{name: c4, concurrency: 4, input_tokens: 32, output_tokens: 32, prompts: 16}}
mean_tpot_over: []
launches: 4
"""


class MaybeSlow(Server):
    """A server, or the slow proxy in front of the one started last, as the environment asks."""

    started: ClassVar[Server]
    upstream: Server | None = None

    def _launch(self) -> list[GuardedProcess]:
        factor = self.spec.env.get(FACTOR)
        if factor is None:
            MaybeSlow.started = self
            return super()._launch()
        self.upstream = MaybeSlow.started
        ports = (str(self.upstream.spec.port), str(self.spec.port))
        return [
            GuardedProcess(
                [sys.executable, "-m", "benchmarks.slow_proxy", *ports, factor],
                env={**os.environ, "VLLM_API_KEY": self.upstream.spec.api_key},
                workdir=REPO,
                log=self.spec.log,
                stop_timeout_s=5,
            )
        ]

    def facts(self) -> EngineFacts:
        return super().facts() if self.upstream is None else self.upstream.facts()


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    folder = tmp_path_factory.mktemp("planted")
    (folder / "planted.yaml").write_text(PROFILE)
    profile = profile_store.load(str(folder / "planted.yaml"))
    run = RunDir.create(folder / "run", profile, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "Server", MaybeSlow)
        measure(run)
    return run


@pytest.fixture(scope="module")
def measurements(planted: RunDir) -> pd.DataFrame:
    return analysis.measurements(planted)


def compared(run: RunDir, measurements: pd.DataFrame, arm: str) -> Comparison:
    found = tables.arm_comparison(measurements, run.profile, arm, "total_tok_s")
    assert found is not None
    assert found.ladder.launches == 4
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
