"""The verdict, the ladder's tables and its figure."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from reproduce import analysis, display, figures, judgement, ladder_values, metrics, tables
from reproduce.lineage import Bound
from reproduce.notebook import View
from reproduce.provenance import REPO
from reproduce.rundir import RunDir, write_atomic


def box(run: RunDir) -> View:
    """The verdict, and what limits it."""
    return View(display.verdict(judgement.verdict_of(run)))


def article_table(run: RunDir) -> View:
    """The article's table with this run's numbers."""
    frame = analysis.measurements(run)
    rows = ladder_values.article_rows(run.profile, _article_origins(run, frame))
    workloads = tables.article_table(frame, run.profile)["workload"]
    return View(display.article_table(list(workloads), rows, run.profile))


def _article_origins(run: RunDir, frame: pd.DataFrame) -> ladder_values.Origins:
    """The article rounds otherwise, so its values have names of their own."""
    return ladder_values.Origins(frame, run.manifest.files, "article.")


def metric_table(run: RunDir, metric: str) -> View:
    """One metric over the ladder: both arms, ratio, interval, spread."""
    workloads, rows = _rows(run, analysis.measurements(run), metric)
    return View(display.ladder_table(workloads, rows, metrics.METRICS[metric], run.profile))


def lineage(run: RunDir) -> View:
    """Every number of the metrics' tables, with the raw files that it was made from."""
    frame = analysis.measurements(run)
    rows = ladder_values.article_rows(run.profile, _article_origins(run, frame))
    for metric in metrics.METRICS:
        rows += _rows(run, frame, metric)[1]
    cells = [cell for row in rows for cell in row.values()]
    return View(display.lineage([cell for cell in cells if isinstance(cell, Bound)]))


def _rows(
    run: RunDir, frame: pd.DataFrame, metric: str
) -> tuple[list[str], list[dict[str, ladder_values.Cell]]]:
    """The workloads of the ladder, and the values of each."""
    table = tables.ladder_table(frame, run.profile, metric)
    origins = ladder_values.Origins(frame, run.manifest.files)
    rows = [
        ladder_values.ladder_row(row, metrics.METRICS[metric], run.profile, origins)
        for _, row in table.iterrows()
    ]
    return list(table["workload"]), rows


def ladder_figure(run: RunDir) -> View:
    """The article's figure with this run's numbers, light or dark as the reader's system asks."""
    frame = analysis.measurements(run)
    table = tables.ladder_table(frame, run.profile, "total_tok_s")
    svgs = {
        theme: figures.to_bytes(figures.ladder_figure(table, frame, run.profile, theme), "svg")
        for theme in figures.PALETTES
    }
    return View(display.figure(svgs, figures.ladder_alt(table, run.profile)))


def save(run: RunDir) -> View:
    """Write tables and figures into the run directory, unless it is kept data."""
    if run.root.is_relative_to(REPO / "data"):
        return View("<p>Kept data: tables and figures are shown, not written.</p>")
    names = [p.relative_to(run.root).as_posix() for p in write_derived(run)]
    return View(display.table(pd.DataFrame({"file": names}), caption="Written"))


def write_derived(run: RunDir) -> list[Path]:
    """Tables as CSV and the figure as SVG and PNG, light and dark."""
    frame = analysis.measurements(run)
    files: dict[Path, bytes] = {}
    folder = run.derived("tables")
    frames: Mapping[str, pd.DataFrame] = {
        "measurements": frame,
        "article": tables.article_table(frame, run.profile),
        **{f"ladder_{m}": tables.ladder_table(frame, run.profile, m) for m in metrics.METRICS},
    }
    for name, table in frames.items():
        files[folder / f"{name}.csv"] = table.to_csv(index=False, lineterminator="\n").encode()
    folder = run.derived("figures")
    table = frames["ladder_total_tok_s"]
    for theme in figures.PALETTES:
        figure = figures.ladder_figure(table, frame, run.profile, theme)
        for kind in figures.FORMATS:
            files[folder / f"ladder_{theme}.{kind}"] = figures.to_bytes(figure, kind)
    for path, data in files.items():
        write_atomic(path, data)
    return list(files)
