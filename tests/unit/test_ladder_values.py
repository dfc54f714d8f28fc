"""Each number of the ladder's tables can be made again from the files that it names."""

import hashlib
import json
from pathlib import Path
from statistics import median

import pytest

from reproduce import tables
from reproduce.metrics import METRICS
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.pages import display, lineage_table
from reproduce.pages.ladder_values import MISSING, Cell, Origins, article_rows, ladder_row
from reproduce.pages.lineage import Bound, Source, worded
from reproduce.reading import analysis
from tests.synthetic import make_run


def rows(run: RunDir, metric: str) -> dict[str, dict[str, Cell]]:
    frame = analysis.measurements(run)
    table = tables.ladder_table(frame, run.profile, metric)
    origins = Origins(frame, run.manifest.files, "kept.", "data/kept/")
    return {
        str(row["rung"]): ladder_row(row, METRICS[metric], run.profile, origins)
        for _, row in table.iterrows()
    }


def bound(cell: Cell) -> Bound:
    assert isinstance(cell, Bound)
    return cell


@pytest.fixture
def measured(tmp_path: Path) -> RunDir:
    return make_run(tmp_path / "run", profile_store.load("cpu", {"launches": 2}), noise=0.02)


@pytest.mark.parametrize("metric", METRICS)
def test_a_median_is_that_of_its_files(measured: RunDir, metric: str) -> None:
    for rung, row in rows(measured, metric).items():
        if rung == "mean":
            continue
        cell = bound(row["tried"])
        assert cell.id == f"kept.{rung}.{metric}.tried"
        values = []
        for source in cell.sources:
            name = source.path.removeprefix("data/kept/")
            assert source.sha256 == measured.manifest.files[name]
            values.append(json.loads((measured.root / name).read_text())[source.pointer[1:]])
        assert len(values) == 2 * 3
        assert median(values) == cell.value


def test_a_ratio_names_the_files_of_both_arms_and_the_mean_all(measured: RunDir) -> None:
    found = rows(measured, "total_tok_s")
    ratio = bound(found["c1"]["percent"])
    assert {source.path.split("/")[3] for source in ratio.sources} == {"native", "transformers"}
    assert all("/c1/" in source.path for source in ratio.sources)
    everything = [
        name for name in measured.manifest.files if name.endswith(("1.json", "2.json", "3.json"))
    ]
    assert len(bound(found["mean"]["percent"]).sources) == len(everything)
    assert found["mean"]["base"] == MISSING


@pytest.mark.parametrize("kept", ["measured", "published"])
def test_the_articles_rows_are_the_articles_table(
    kept: str, request: pytest.FixtureRequest
) -> None:
    run: RunDir = request.getfixturevalue(kept)
    frame = analysis.measurements(run)
    table = tables.article_table(frame, run.profile)
    shown = {
        "base": ("native_total_tok_s", 0),
        "tried": ("transformers_total_tok_s", 0),
        "percent": ("percent", 1),
        "base_tpot": ("native_tpot_ms", 1),
        "tried_tpot": ("transformers_tpot_ms", 1),
        "percent_tpot": ("tpot_percent", 1),
    }
    made = article_rows(run.profile, Origins(frame, run.manifest.files))
    for key, (column, digits) in shown.items():
        printed = [
            cell if isinstance(cell, str) else cell.printed for cell in (r[key] for r in made)
        ]
        assert printed == [display.number(value, digits) for value in table[column]]


def test_what_does_not_count_is_no_source(measured: RunDir) -> None:
    before = bound(rows(measured, "total_tok_s")["c1"]["base"])
    record = measured.root / before.sources[0].path.removeprefix("data/kept/")
    record = record.with_name(f"{record.stem}.record.json")
    data = json.loads(record.read_text())
    record.write_text(json.dumps({**data, "valid": False, "reasons": ["made up"]}))
    after = bound(rows(RunDir.open(measured.root), "total_tok_s")["c1"]["base"])
    assert after.sources == before.sources[1:]


def test_printed_values_name_the_printed_table(published: RunDir) -> None:
    found = rows(published, "total_tok_s")
    (source,) = bound(found["c1"]["base"]).sources
    assert (source.path, source.pointer) == ("data/kept/raw/table.json", "/rows")
    assert bound(found["c1"]["rounding"]).printed == "97.1 to 98.6"
    assert found["c1"]["interval"] == found["unbounded"]["rounding"] == MISSING


def test_a_traced_number_escapes_what_comes_from_files() -> None:
    origin = Source("raw/'\"><b>", "a" * 64, "/x")
    html = display.traced(worded("n", "<1'>", [origin], "as stored"))
    assert "<b>" not in html
    assert html.startswith('<span class="bound" tabindex="0" title="as stored; &#39;raw/&#39;')
    assert html.endswith("'>&lt;1&#39;&gt;</span>")
    page, (entry,) = lineage_table.gathered(html)
    assert (entry.id, entry.printed, entry.files, entry.sha256) == ("n", "<1'>", 1, "a" * 64)
    assert "data-lineage" not in page
    assert ' data-id="n">' in page
    assert display.traced(MISSING) == MISSING


def test_a_line_of_origin_names_files_in_few_words() -> None:
    sources = [
        Source("a", "a" * 64, "/x"),
        Source("a", "a" * 64, "/y"),
        *(Source(f"b-{n}", "b" * 64, "/x") for n in (1, 2, 3)),
    ]
    listed = "".join(f"{one}  {one[0]}{tail}\n" for one, tail in zip(
        ("a" * 64, *["b" * 64] * 3), ("", "-1", "-2", "-3"), strict=True))  # fmt: skip
    digest = hashlib.sha256(listed.encode()).hexdigest()[:12]
    assert worded("n", "1", sources, "sum", "s").origin == (
        f"sum; {{b-{{1..3}},a}}#/x; a#/y; sha256 {digest} of their list; unit: s; rounding: none"
    )
    assert worded("n", "1", sources[:1], "sum").origin == (
        "sum; a#/x; sha256 aaaaaaaaaaaa; rounding: none"
    )
