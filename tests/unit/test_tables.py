"""From measurements to the ladder's tables."""

import math

import pandas as pd
import pytest

from reproduce import metrics, tables
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.reading import analysis

CPU = profile_store.load("cpu")


def frame(values: dict[tuple[str, str, int], float], **more: float) -> pd.DataFrame:
    """Measurements of total_tok_s by (arm, rung, repeat); every other metric is missing."""
    rows = []
    for order, ((arm, rung, repeat), value) in enumerate(values.items()):
        row = {"arm": arm, "launch": 1, "rung": rung, "repeat": repeat, "order": order,
               "valid": not math.isnan(value), "reasons": "", "source": "x"}  # fmt: skip
        for key in metrics.METRICS:
            row[key] = row[f"{key}_half"] = math.nan
        row["total_tok_s"], row["total_tok_s_half"] = value, 0.0
        rows.append({**row, **more})
    return pd.DataFrame(rows)


def ladder(speed: float = 0.99) -> dict[tuple[str, str, int], float]:
    return {
        (arm, rung.name, repeat): 100.0 * repeat * (1 if arm == "native" else speed)
        for rung in CPU.ladder
        for repeat in (1, 2, 3)
        for arm in ("native", "transformers")
    }


def test_the_published_numbers(published: RunDir) -> None:
    table = analysis.measurements(published)
    speed = tables.ladder_table(table, published.profile, "total_tok_s").set_index("rung")
    assert speed.loc["unbounded", "native"] == pytest.approx(5511.96, abs=0.005)
    assert speed.loc["unbounded", "transformers"] == pytest.approx(5667.24, abs=0.005)
    assert round(speed.loc["unbounded", "percent"], 1) == 102.8
    assert round(speed.loc["mean", "percent"], 1) == 99.6
    assert math.isnan(speed.loc["mean", "low"])


def test_what_the_printed_digits_leave_open(published: RunDir) -> None:
    table = analysis.measurements(published)
    speed = tables.ladder_table(table, published.profile, "total_tok_s").set_index("rung")
    assert round(speed.loc["c1", "rounded_low"], 1) == 97.1
    assert round(speed.loc["c1", "rounded_high"], 1) == 98.6
    assert math.isnan(speed.loc["unbounded", "rounded_low"])


def test_values_that_are_not_published_stay_missing(published: RunDir) -> None:
    table = analysis.measurements(published)
    ttft = tables.ladder_table(table, published.profile, "ttft_ms").set_index("rung")
    assert math.isnan(ttft.loc["c16", "native"])
    assert ttft.loc["unbounded", "native"] == pytest.approx(12650.083188916024)
    assert math.isnan(ttft.loc["mean", "percent"])


def test_pairs_are_the_same_repeat_on_both_arms() -> None:
    values = ladder()
    del values["transformers", "c4", 2]
    values["native", "c8", 3] = math.nan
    pairs = tables.pairs(frame(values), CPU, "total_tok_s")
    found = set(pairs[["rung", "pair"]].itertuples(index=False, name=None))
    assert ("c4", 2) not in found
    assert ("c8", 3) not in found
    assert len(pairs) == 16
    assert list(dict.fromkeys(pairs["rung"])) == [rung.name for rung in CPU.ladder]


def test_a_ladder_with_a_hole_has_no_mean() -> None:
    values = {k: v for k, v in ladder().items() if not (k[0] == "native" and k[1] == "c16")}
    table = tables.ladder_table(frame(values), CPU, "total_tok_s").set_index("rung")
    assert math.isnan(table.loc["c16", "percent"])
    assert math.isnan(table.loc["mean", "percent"])
    assert table.loc["c8", "percent"] == pytest.approx(99.0)


def test_the_mean_weighs_every_workload_alike() -> None:
    values = ladder()
    for repeat in (1, 2, 3):
        values["transformers", "c1", repeat] = 1.3 * values["native", "c1", repeat]
    table = tables.ladder_table(frame(values), CPU, "total_tok_s").set_index("rung")
    assert table.loc["mean", "percent"] == pytest.approx((130 + 5 * 99) / 6)


def test_invalid_repeats_are_counted() -> None:
    values = ladder()
    values["native", "c8", 3] = math.nan
    table = tables.ladder_table(frame(values), CPU, "total_tok_s").set_index("rung")
    assert table.loc["c8", "invalid"] == 1
    assert table.loc["mean", "invalid"] == 1


def test_the_articles_table_has_the_articles_columns(published: RunDir) -> None:
    table = tables.article_table(analysis.measurements(published), published.profile)
    assert list(table["rung"]) == ["c1", "c16", "c64", "c128", "unbounded", "long-context", "mean"]
    row = table.set_index("rung").loc["long-context"]
    assert (row["native_total_tok_s"], row["transformers_total_tok_s"]) == (5941, 5858)
    assert (row["native_tpot_ms"], row["transformers_tpot_ms"]) == (44.9, 45.8)


def test_half_a_unit_of_the_last_digit() -> None:
    assert analysis.half_unit("139") == 0.5
    assert analysis.half_unit("10.5") == pytest.approx(0.05)
