"""The verdict, the ladder's tables and its figure."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from reproduce import metrics, tables
from reproduce.article.raw import YARDSTICK
from reproduce.notebook import View
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import write_atomic
from reproduce.pages import display, figures, ladder_values
from reproduce.pages.lineage import Cell, Source, told
from reproduce.reading import analysis, judgement, origins


def box(run: RunDir) -> View:
    """The verdict, and what limits it."""
    everything = origins.files_of(run).at("manifest.json", "/files")
    return View(display.verdict(judgement.verdict_of(run), _ladder(run), everything))


def article_table(run: RunDir) -> View:
    """The article's table with this run's numbers; rounded otherwise, so named otherwise."""
    rows = ladder_values.article_rows(run.profile, _origins(run, "article."))
    return View(display.article_table(_workloads(run), rows, run.profile))


def metric_table(run: RunDir, metric: str) -> View:
    """One metric over the ladder: both arms, ratio, interval, spread."""
    return _metric_table(run, metric, _origins(run), _workloads(run))


def noise(run: RunDir) -> View:
    """How much two equal arms differ: the kept run of one backend against itself."""
    kept = RunDir.open(REPO / YARDSTICK)
    if kept.profile.model != run.profile.model:
        return View("<p>No run of one backend against itself is kept for this model.</p>")
    made_from = _origins(kept, "noise.", f"{YARDSTICK}/")
    return _metric_table(kept, "total_tok_s", made_from, _workloads(kept, "noise.", YARDSTICK))


def _metric_table(
    run: RunDir, metric: str, made_from: ladder_values.Origins, workloads: list[Cell]
) -> View:
    about = metrics.METRICS[metric]
    table = tables.ladder_table(analysis.measurements(run), run.profile, metric)
    rows = [
        ladder_values.ladder_row(row, about, run.profile, made_from) for _, row in table.iterrows()
    ]
    return View(display.ladder_table(workloads, rows, about, run.profile))


def _origins(run: RunDir, name: str = "", root: str = "") -> ladder_values.Origins:
    digests = origins.files_of(run).digests
    return ladder_values.Origins(analysis.measurements(run), digests, name, root)


def _ladder(run: RunDir) -> list[Source]:
    """What the ratio over the whole ladder is made from, and the margin it is held against."""
    arms = (run.profile.baseline, run.profile.candidate)
    margin = origins.files_of(run).at("profile.yaml", "/margin")
    return [*_origins(run).of("mean", "total_tok_s", *arms), *margin]


def _workloads(run: RunDir, name: str = "", root: str = "") -> list[Cell]:
    """The ladder's rows in words, the mean last; see :class:`ladder_values.Origins`."""
    files = origins.files_of(run)
    rows: list[Cell] = []
    for place, rung in enumerate(run.profile.ladder):
        planned = [
            replace(source, path=f"{root}/{source.path}".lstrip("/"))
            for source in files.at("profile.yaml", f"/ladder/{place}")
        ]
        text = tables.workload(rung)
        rows.append(told(f"{name}{rung.name}.workload", text, planned, "tables.workload"))
    return [*rows, "mean of the ratios"]


def ladder_figure(run: RunDir) -> View:
    """The article's figure with this run's numbers, light or dark as the reader's system asks."""
    frame = analysis.measurements(run)
    table = tables.ladder_table(frame, run.profile, "total_tok_s")
    svgs = {
        theme: figures.to_bytes(figures.ladder_figure(table, frame, run.profile, theme), "svg")
        for theme in figures.PALETTES
    }
    words = figures.ladder_alt(table, run.profile)
    alt = told("ladder.figure", words, _ladder(run), "figures.ladder_alt")
    return View(display.figure(svgs, alt))


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
