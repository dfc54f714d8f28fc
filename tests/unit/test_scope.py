"""A run is a test of the claim only when both arms are what they should be and answer alike."""

import pytest

from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import write_atomic
from reproduce.reading import analysis
from tests.synthetic import answers, make_run

ONE_RUNG = {
    "ladder": [
        {"name": "c1", "concurrency": 1, "input_tokens": 8, "output_tokens": 8, "prompts": 2}
    ],
    "mean_tpot_over": [],
    "repeats": 1,
}


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", profile_store.load("cpu", ONE_RUNG))


def answer(run, arm, given, launch=1):
    path = run.start_dir(arm, launch, 1) / "agreement.json"
    write_atomic(path, given.model_dump_json().encode())


def refer(run, given):
    write_atomic(run.reference_path(), given.model_dump_json().encode())


def test_equal_answers_are_a_test(run):
    refer(run, answers(0.01))
    assert analysis.scope(run).is_test
    table = analysis.agreement_table(run)
    assert list(zip(table["first"], table["second"], strict=True)) == [
        ("native", "transformers"), ("native", "the reference"), ("transformers", "the reference")
    ]  # fmt: skip
    assert set(table["answers"]) == {"agree"}


def test_arms_that_differ_are_no_test(run):
    answer(run, "transformers", answers(0.5))
    (objection,) = analysis.scope(run).objections
    assert objection.startswith("native and transformers answer differently")


def test_arms_that_are_wrong_alike_are_no_test(run):
    refer(run, answers(0.5))
    objections = analysis.scope(run).objections
    assert [text.partition(" answer")[0] for text in objections] == [
        "native and the reference", "transformers and the reference"
    ]  # fmt: skip


def test_answers_that_are_missing_are_no_test(run):
    (run.start_dir("native", 1, 1) / "agreement.json").unlink()
    assert "were not compared" in analysis.scope(run).objections[0]
    assert analysis.agreement_table(run)["usual"].isna().all()


def test_a_disagreement_in_a_later_launch_counts(tmp_path):
    run = make_run(tmp_path / "run", profile_store.load("cpu", {**ONE_RUNG, "launches": 2}))
    answer(run, "transformers", answers(0.5), launch=2)
    assert not analysis.scope(run).is_test


def test_a_further_arm_that_differs_is_a_note(tmp_path):
    run = make_run(tmp_path / "run", profile_store.load("ablation", ONE_RUNG))
    answer(run, "transformers-no-mla", answers(0.5))
    scope = analysis.scope(run)
    assert scope.is_test
    assert any("transformers-no-mla" in note for note in scope.notes)


def test_a_yardstick_needs_no_fusions_but_equal_engines(tmp_path):
    run = make_run(tmp_path / "run", profile_store.load("aa", ONE_RUNG))
    assert analysis.scope(run).is_test
    log = run.start_dir("native-again", 1, 1) / "engine.log"
    log.write_text(log.read_text().replace("0.32.0", "0.31.9"))
    assert "vLLM version differs" in analysis.scope(RunDir.open(run.root)).objections[0]
