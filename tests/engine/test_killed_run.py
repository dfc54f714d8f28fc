"""kill -9 in the middle of a rung: no orphan, nothing lost, and the rest is measured later."""

import pytest

from reproduce.outside.stored import sha256
from reproduce.reading import analysis
from tests.conftest import unmeasured
from tests.engine.conftest import ORPHAN_LIMIT_S, Killed, engine_processes

pytestmark = pytest.mark.engine


def test_no_process_of_the_engine_outlives_the_kill(killed: Killed) -> None:
    assert killed.orphan_s < ORPHAN_LIMIT_S


def test_the_resumed_run_finishes_and_keeps_what_was_measured(killed: Killed) -> None:
    assert killed.resumed.returncode == 0, killed.resumed.stderr
    assert unmeasured(killed.run) == []
    assert killed.before
    assert {path: sha256(path) for path in killed.before} == killed.before
    assert killed.run.changed_files() == []
    starts = {record.start for record in killed.run.records()}
    assert starts == {1, 2}
    assert engine_processes(killed.run.root) == []


def test_an_arm_without_mla_is_not_a_test_of_the_claim(killed: Killed) -> None:
    scope = analysis.scope(killed.run)
    assert not scope.is_test
    text = (killed.run.root / "report.html").read_text()
    top = text[: text.index("<h2")]
    assert "not a test of the claim" in top
    assert "self_attn (DeepseekV3Attention) -&gt; MLAAttention" in top


def test_the_cache_holds_less_without_mla(killed: Killed) -> None:
    facts = analysis.facts_of(killed.run, "transformers")
    assert facts is not None
    assert facts.kv_tokens == 87_296
