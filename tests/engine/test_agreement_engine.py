"""The answers of real engines: equal where they should be, caught where a kernel is wrong."""

from pathlib import Path

import pytest

from reproduce import tables
from reproduce.errors import EngineError
from reproduce.evidence import agreement
from reproduce.evidence.agreement import Decision
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.reading import analysis
from reproduce.running.measure import measure

pytestmark = pytest.mark.engine

ABLATION = """
extends: ablation
name: ablation-short
arms:
  wrong-rotation:
    backend: native
    serve: {model-impl: vllm, compilation-config: '{"custom_ops": ["all"]}'}
server:
  flags:
    enforce-eager: true
ladder:
  - {name: c4, concurrency: 4, input_tokens: 32, output_tokens: 16, prompts: 8}
mean_tpot_over: []
repeats: 2
"""
WRONG = "wrong-rotation"
"""Healthy, fast and wrong: vLLM 0.32.0's own rotary kernel for CPUs under the native classes."""
WITH_MLA, WITHOUT_MLA = 233_008, 87_296
"""Tokens of KV cache in 1 GiB, 4 layers: 576 values of 2 bytes per token and layer for the latent,
4 heads with keys of 192 and values of 128, padded to equal size, without it."""


def prepared(folder: Path, text: str) -> RunDir:
    path = folder / "profile.yaml"
    path.write_text(text)
    return RunDir.create(folder / "run", profile_store.load(str(path)), {})


@pytest.fixture(scope="module")
def ablation(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    run = prepared(tmp_path_factory.mktemp("ablation"), ABLATION)
    measure(run)
    return run


def test_the_fusion_is_what_makes_the_cache_small(ablation: RunDir) -> None:
    tokens = {fact.arm: fact.engine.kv_tokens for fact in analysis.engine_facts(ablation)}
    assert tokens == {
        "native": WITH_MLA,
        "transformers": WITH_MLA,
        "transformers-no-mla": WITHOUT_MLA,
        WRONG: WITH_MLA,
    }


def test_every_honest_arm_answers_as_the_model_should(ablation: RunDir) -> None:
    checks = [c for c in analysis.agreements(ablation) if WRONG not in (c.first, c.second)]
    assert {(check.first, check.second) for check in checks} == {
        ("native", "transformers"),
        ("native", "transformers-no-mla"),
        *((arm, analysis.REFERENCE) for arm in ablation.profile.arms if arm != WRONG),
    }
    for check in checks:
        assert check.found.decision.value.startswith("agree"), check
        assert check.found.positions > 256
        assert check.found.usual is not None
        assert check.found.usual < agreement.USUAL_LIMIT / 2


def test_a_healthy_arm_with_a_wrong_kernel_is_caught(ablation: RunDir) -> None:
    checks = [c for c in analysis.agreements(ablation) if WRONG in (c.first, c.second)]
    assert [c.found.decision for c in checks] == [Decision.DISAGREE] * 2
    assert all(c.found.usual > 2 * agreement.USUAL_LIMIT for c in checks if c.found.usual)
    assert all(c.found.equal > 0 for c in checks)  # Comparing tokens alone would show little.
    scope = analysis.scope(ablation)
    assert scope.is_test
    assert any(WRONG in note for note in scope.notes)
    blamed = RunDir(ablation.root, tables.against(ablation.profile, WRONG), ablation.manifest)
    assert any("answer differently" in text for text in analysis.scope(blamed).objections)


def test_the_third_arm_is_compared_like_the_candidate(ablation: RunDir) -> None:
    frame = analysis.measurements(ablation)
    assert tables.further_arms(ablation.profile) == ("transformers-no-mla", WRONG)
    assert set(frame["arm"]) == set(ablation.profile.arms)
    if frame.loc[frame["valid"], "repeat"].nunique() == 2:
        found = tables.arm_comparison(frame, ablation.profile, "transformers-no-mla", "total_tok_s")
        assert found is not None
        assert found.rungs[0].pairs == 2


def test_arms_that_are_wrong_alike_are_caught(tmp_path: Path) -> None:
    """On a CPU, expert parallelism ignores which experts a worker has, in both arms alike.

    Sometimes the kernel reads past its memory and the engine dies: then the run says so instead.
    """
    run = prepared(tmp_path, "extends: cpu-tp2-ep\nname: expert-parallel\n")
    try:
        measure(run)
    except EngineError:
        assert run.records() == []
        return
    found = {(c.first, c.second): c.found.decision for c in analysis.agreements(run)}
    assert found["native", analysis.REFERENCE] is Decision.DISAGREE
    assert found["transformers", analysis.REFERENCE] is Decision.DISAGREE
    scope = analysis.scope(run)
    assert not scope.is_test
    assert any("the reference answer differently" in text for text in scope.objections)
