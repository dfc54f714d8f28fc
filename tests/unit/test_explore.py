"""The explorers: what they say for what is turned, also when nothing has been run."""

import os
import re
import time
from pathlib import Path
from typing import Any

import ipywidgets
import pytest

from reproduce import explore, metrics, tables
from reproduce.explore import evidence, ladder, planner
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.reading import analysis
from tests.conftest import PUBLISHED
from tests.synthetic import make_run
from tests.unit.test_notebooks import NOTEBOOKS, cells, papermill

CPU = profile_store.load("cpu")
BARS = {"model": "deepseek-r1", "gpu": "h100-80gb", "tp": 8, "pp": 2, "dp": 1, "ep": True,
        "length": 131072}  # fmt: skip


def controls(widget: ipywidgets.VBox) -> dict[str, Any]:
    return {control.description: control for control in widget.children[-2].children}


def page(widget: ipywidgets.VBox) -> str:
    return str(widget.children[-1].value)


@pytest.fixture
def one_run(tmp_path: Path) -> RunDir:
    return make_run(tmp_path / "20261129-cpu", CPU, {"transformers": 0.95}, detailed=True)


def test_the_planner_says_what_the_budget_command_says() -> None:
    shown = planner.budget(**BARS)
    assert "16 × h100-80gb, TP8 × PP2 × EP8" in shown
    assert "5.35–6.06 requests" in shown
    assert re.search(r"<td[^>]*>36\.750</td><td[^>]*>39\.375</td>", shown)
    assert len(re.findall("<title>routed experts: ", shown)) == 2


def test_the_bars_follow_a_slider() -> None:
    widget = planner.memory_planner()
    before = page(widget)
    controls(widget)["PP"].value = 4
    assert page(widget) != before
    assert "TP8 × PP4 × EP8" in page(widget)
    assert len(re.findall("<title>routed experts: ", page(widget))) == 4


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        ({"tp": 32, "model": "deepseek-v2-lite"}, "number of attention heads (16)"),
        ({"pp": 32, "model": "deepseek-v2-lite", "tp": 1}, "27 layers cannot fill 32 stages"),
        ({"dp": 16, "tp": 1, "pp": 1, "length": 262144}, "does not fit"),
        ({"length": 262144}, "The model itself stops at 163,840 tokens"),
    ],
)
def test_the_planner_says_why_not(turn: dict[str, Any], words: str) -> None:
    assert words in planner.budget(**{**BARS, **turn})


def test_every_model_and_gpu_of_the_repository_can_be_chosen() -> None:
    widget = planner.memory_planner()
    for name in ("model", "GPU"):
        for option in controls(widget)[name].options:
            controls(widget)[name].value = option
            assert "requests" in page(widget) or "needs" in page(widget)


def test_a_ratio_has_its_interval_and_every_single_request(one_run: RunDir) -> None:
    shown = ladder.ratios(roots=(one_run.root,), metric="total_tok_s", rung="c8")
    table = tables.ladder_table(analysis.measurements(one_run), CPU, "total_tok_s")
    row = table.set_index("rung").loc["c8"]
    assert f"{row['percent']:.1f} % of native" in shown
    assert f"95 % interval {row['low']:.1f} to {row['high']:.1f} %" in shown
    pairs, requests = (part.count('stroke-opacity=".45"') for part in shown.split("</svg>")[:2])
    assert pairs == 3
    assert requests == 2 * 3 * CPU.rung("c8").prompts


@pytest.mark.parametrize("metric", metrics.METRICS)
def test_every_metric_has_single_requests_in_milliseconds(one_run: RunDir, metric: str) -> None:
    shown = ladder.ratios(roots=(one_run.root,), metric=metric, rung="c1")
    told = re.findall(r"median ([\d.,]+)", shown.split("</svg>")[1])
    frame = analysis.measurements(one_run)
    here = frame[(frame["rung"] == "c1") & (frame["arm"] == "native")]
    wanted = here[metric if metric.endswith("_ms") else "e2el_ms"].mean()
    assert float(told[0].replace(",", "")) == pytest.approx(wanted, rel=0.05)


def test_runs_stand_beside_one_another(tmp_path: Path, one_run: RunDir) -> None:
    other = make_run(tmp_path / "20261128-cpu", CPU)
    shown = ladder.ratios(roots=(one_run.root, other.root), metric="total_tok_s", rung="c4")
    assert shown.split("</svg>")[0].count("<circle") == 2


def test_many_requests_are_thinned_but_keep_their_extremes() -> None:
    times = [float(n) for n in range(1000)]
    thin = ladder._thinned(times)
    assert (len(thin), min(thin), max(thin)) == (ladder._MOST_DOTS, 0.0, 999.0)


def test_the_article_has_no_interval_and_no_single_requests() -> None:
    shown = ladder.ratios(roots=(PUBLISHED,), metric="total_tok_s", rung="c1")
    assert "no interval, for want of repeats" in shown
    assert "do not hold single requests" in shown


def test_another_run_brings_its_own_workloads(tmp_path: Path, one_run: RunDir) -> None:
    smoke = make_run(tmp_path / "20261130-smoke", profile_store.load("smoke"))
    widget = ladder.ladder_explorer(tmp_path)
    turn = controls(widget)
    assert turn["runs"].value == (smoke.root,)
    turn["runs"].value = (one_run.root,)
    assert list(turn["workload"].options) == [rung.name for rung in CPU.ladder]
    turn["runs"].value = ()
    assert "Choose a run" in page(widget)


def test_nothing_measured_falls_back_to_the_articles_data_and_says_so(tmp_path: Path) -> None:
    for widget in (ladder.ladder_explorer(tmp_path), evidence.evidence_viewer(tmp_path)):
        assert "Nothing has been measured here yet" in widget.children[0].value
        assert "reproduce run --profile cpu" in widget.children[0].value
    known, _ = explore.known_runs(tmp_path)
    assert known["kept: published"] == PUBLISHED


def test_a_damaged_run_is_left_out_and_named(tmp_path: Path, one_run: RunDir) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{")
    known, note = explore.known_runs(tmp_path)
    assert next(iter(known.values())) == one_run.root
    assert note == "Not readable, and left out: broken."


def test_the_viewer_shows_both_logs_and_expected_against_found(one_run: RunDir) -> None:
    both = evidence.shown(one_run.root, "both logs")
    assert "DeepseekV3ForCausalLM" in both
    assert "TransformersMoEForCausalLM" in both
    found = evidence.shown(one_run.root, "expected against found")
    assert found.count("MLAAttention") == 1
    assert "missing" not in found


def test_what_was_read_is_remembered_until_the_run_grows(one_run: RunDir) -> None:
    before = explore.measurements(one_run.root)
    assert explore.measurements(one_run.root) is before
    manifest = one_run.root / "manifest.json"
    os.utime(manifest, ns=(time.time_ns(), time.time_ns()))
    assert explore.measurements(one_run.root) is not before


def test_the_notebook_runs_as_it_is_and_where_nothing_was_run(tmp_path: Path) -> None:
    (path,) = (path for path in NOTEBOOKS if path.stem == "explore")
    for parameters in ((), (f"runs={tmp_path}",)):
        done = papermill(path, tmp_path / "out.ipynb", *parameters)
        assert done.returncode == 0, done.stderr[-2000:]
        kinds = [
            o["output_type"] for c in cells(tmp_path / "out.ipynb") for o in c.get("outputs", [])
        ]
        assert kinds.count("execute_result") == 3
        assert "error" not in kinds
