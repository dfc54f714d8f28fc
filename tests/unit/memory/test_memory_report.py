"""What the stored public data must show, and that it says what the budget assumes."""

import pandas as pd
import pytest

from reproduce.memory.architecture import Architecture, parse_architecture
from reproduce.memory.budget import Serving
from reproduce.memory.topology import Topology
from reproduce.outside.catalog import (
    load_config,
    load_gpus,
    load_memory_logs,
    load_published_figures,
    stored_models,
)
from reproduce.pages.figures import to_bytes
from reproduce.pages.memory_figure import budget_alt, budget_figure
from reproduce.pages.memory_report import (
    DATA_PARALLEL,
    THREE_AXES,
    MeasuredArm,
    article_frame,
    budget_cases,
    budget_frame,
    log_frame,
    measured_frame,
)


@pytest.fixture(scope="module")
def logs() -> pd.DataFrame:
    models = {name: parse_architecture(load_config(name), name) for name in stored_models()}
    return log_frame(load_memory_logs(), models, load_gpus()).set_index("log")


def test_there_are_enough_logs_and_each_has_a_source() -> None:
    stored = load_memory_logs()
    assert len(stored) >= 15
    assert len({log.row for log in stored}) == len(stored)
    assert all(log.source for log in stored)


def test_weights_of_current_versions_are_near_or_named(logs: pd.DataFrame) -> None:
    claimed = logs[logs["claimed"]]
    far = claimed[claimed["weights, error (%)"].abs() > 0.3]
    assert len(far) < len(claimed) / 2
    assert far["note"].notna().all()
    near = claimed.drop(far.index)
    assert near["note"].isna().all(), "a note excuses an error that is not there"


def test_tokens_follow_from_the_logged_cache(logs: pd.DataFrame) -> None:
    errors = logs.loc[logs["claimed"], "tokens, error (%)"].dropna()
    assert len(errors) >= 10
    assert errors.abs().max() < 0.1
    others = logs.loc[~logs["claimed"] & (logs["tokens, error (%)"].abs() > 0.1), "note"]
    assert others.notna().all()


def test_the_overhead_band_is_what_the_logs_show(logs: pd.DataFrame) -> None:
    seen = logs.loc[logs["claimed"], "overhead (GiB)"].dropna()
    for gpu in load_gpus().values():
        assert gpu.overhead_gib.low == pytest.approx(seen.min(), abs=0.1)
        assert gpu.overhead_gib.high == pytest.approx(seen.max(), abs=0.1)
        assert seen.between(gpu.overhead_gib.low, gpu.overhead_gib.high).all()


def test_the_articles_figures(r1: Architecture) -> None:
    frame = article_frame(load_published_figures(), r1, load_gpus()["h100-80gb"], Serving(163_840))
    weights, left, wanted, high, low = (row for _, row in frame.iterrows())
    assert weights["model, least"] == pytest.approx(57.769, abs=0.001)
    assert weights["article beyond the model by"] == pytest.approx(10.63, abs=0.005)
    assert "10.63 GiB, giving 68.4" in weights["what would reconcile them"]
    assert left["article"] + weights["article"] == pytest.approx(79.2)
    assert "2.72 of them" in wanted["what would reconcile them"]
    assert high["article beyond the model by"] == 0
    assert low["article beyond the model by"] < 0
    assert "outside the band" in low["what would reconcile them"]


def test_budget_frame_has_a_row_per_stage(r1: Architecture) -> None:
    gpus = list(load_gpus().values())
    cases = budget_cases(r1, gpus, [DATA_PARALLEL, THREE_AXES], Serving(163_840))
    frame = budget_frame(cases)
    assert len(frame) == 3 * len(gpus)
    assert (frame["KV cache, least"] < frame["KV cache, most"]).all()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figure_draws_every_stage(r1: Architecture, theme: str) -> None:
    gpu = load_gpus()["h100-80gb"]
    cases = budget_cases(r1, [gpu], [DATA_PARALLEL, THREE_AXES], Serving(163_840))
    figure = budget_figure(cases, theme)  # type: ignore[arg-type]
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(labels) == 3
    assert len({to_bytes(budget_figure(cases, theme), "svg") for _ in range(2)}) == 1  # type: ignore[arg-type]
    assert "0.54–0.82 full-length requests" in budget_alt(cases)


def test_a_measured_run_is_predicted_and_gaps_stay_gaps() -> None:
    tiny = parse_architecture(load_config("tiny-deepseek-v3"), "tiny")
    arms = [
        MeasuredArm(arm, Topology(), "bf16", mla, 1.0, block, 4096, None, tokens, None)
        for arm in ("native", "transformers")
        for mla, block, tokens in ((True, 16, 233_008), (False, 128, 87_296))
    ]
    frame = measured_frame(tiny, arms)
    assert (frame["tokens, difference"] == 0).all()
    assert frame["weights, logged (GiB)"].isna().all()
    unlogged = MeasuredArm("native", Topology(), "bf16", True, 1.0, 16, 4096, None, None, None)
    assert measured_frame(tiny, [unlogged])["tokens, difference"].isna().all()
