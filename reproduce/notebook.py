"""What the notebooks call: one function per cell, each returning something to look at."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from IPython.core.getipython import get_ipython

from reproduce import analysis, display, figures, judgement, measure, profile_store, tables
from reproduce.errors import ConfigError
from reproduce.profile import Profile
from reproduce.provenance import REPO
from reproduce.rundir import RunDir, write_atomic

RUNS = REPO / "runs"
_PLAIN = (str, int, float, bool, list, dict, type(None))


@dataclass(frozen=True)
class View:
    """Something a notebook cell ends with."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def open_run(namespace: dict[str, Any]) -> RunDir:
    """Open the run that a notebook's parameters name; validate every one of them.

    Args:
        namespace: the notebook's globals. ``run`` is a run directory; when it is empty,
            ``profile`` decides: its latest run, or the kept data of a published one. Any further
            parameter is a key of the profile, so a misspelt one fails here instead of passing
            unnoticed.

    Raises:
        ConfigError: a parameter that is neither, or of the wrong type, or a run of another profile.
    """
    given = _parameters(namespace)
    name, where = given.pop("profile", "published"), given.pop("run", "")
    for key, value in (("profile", name), ("run", where)):
        if not isinstance(value, str):
            raise ConfigError(f"parameter {key}: must be text, found {value!r:.60}")
    if where:
        run = RunDir.open(Path(where).expanduser())
    else:
        run = _run_of(profile_store.load(name, given))
    if profile_store.changed(run.profile, given) != run.profile:
        raise ConfigError(f"{run.root}: was made with other values of {', '.join(given)}")
    return run


def _run_of(profile: Profile) -> RunDir:
    """The kept data of a published profile, the latest run of any other."""
    if profile.source is not None:
        return RunDir.open(REPO / profile.source)
    for manifest in sorted(RUNS.glob("*/manifest.json"), reverse=True):
        run = RunDir.open(manifest.parent)
        if run.profile.name == profile.name:
            return run
    raise ConfigError(f"no run of {profile.name} yet: `reproduce run --profile {profile.name}`")


def _parameters(namespace: dict[str, Any]) -> dict[str, Any]:
    """Parameters among a notebook's globals: what was set before this package was first asked."""
    shell = get_ipython()
    hidden = set(shell.user_ns_hidden) if shell is not None else set()
    names = namespace.setdefault(
        "_reproduce_parameters",
        [
            key
            for key, value in namespace.items()
            if not key.startswith("_") and key not in hidden and isinstance(value, _PLAIN)
        ],
    )
    return {key: namespace[key] for key in names}


def measure_run(run: RunDir) -> View:
    """Measure what the run lacks; a published run is only counted."""
    if run.profile.kind == "measured":
        measure.measure(run)
    frame = analysis.measurements(run)
    counts = frame.groupby(["rung", "arm"], sort=False)["valid"].agg(["sum", "size"])
    shown = counts.reset_index().rename(columns={"sum": "valid repeats", "size": "attempts"})
    return View(display.table(shown, caption="Repeats on file"))


def verdict_box(run: RunDir) -> View:
    """The verdict, and what limits it."""
    return View(display.verdict(judgement.verdict_of(run)))


def article_table(run: RunDir) -> View:
    """The article's table with this run's numbers."""
    table = tables.article_table(analysis.measurements(run), run.profile)
    return View(display.article_table(table, run.profile))


def metric_table(run: RunDir, metric: str) -> View:
    """One metric over the ladder: both arms, ratio, interval, spread."""
    table = tables.ladder_table(analysis.measurements(run), run.profile, metric)
    return View(display.ladder_table(table, tables.METRICS[metric], run.profile))


def ladder_figure(run: RunDir) -> View:
    """The article's figure with this run's numbers, light or dark as the reader's system asks."""
    frame = analysis.measurements(run)
    table = tables.ladder_table(frame, run.profile, "total_tok_s")
    svgs = {
        theme: figures.to_bytes(figures.ladder_figure(table, frame, run.profile, theme), "svg")
        for theme in figures.PALETTES
    }
    return View(display.figure(svgs, figures.ladder_alt(table, run.profile)))


def engines(run: RunDir) -> View:
    """What both engines really ran, side by side."""
    return View(display.engines(analysis.engine_facts(run), run.profile))


def fusions(run: RunDir) -> View:
    """Expected fusions against those the candidate's log shows."""
    baseline = analysis.facts_of(run, run.profile.baseline)
    candidate = analysis.facts_of(run, run.profile.candidate)
    architecture = baseline.architecture if baseline is not None else None
    return View(display.fusions(candidate, architecture or analysis.native_architecture(run)))


def scope_notes(run: RunDir) -> View:
    """Why the run does or does not test the claim, and what differs between its engines."""
    return View(display.scope(analysis.scope(run)))


def invalid_repeats(run: RunDir) -> View:
    """Attempts that do not count, with the reason."""
    frame = analysis.measurements(run)
    shown = frame.loc[~frame["valid"], ["arm", "launch", "rung", "repeat", "reasons"]]
    if shown.empty:
        return View("<p>Every repeat on file counts.</p>")
    return View(display.table(shown, caption="Repeats that do not count"))


def commands(run: RunDir) -> View:
    """How each server was started."""
    return View(display.commands(analysis.commands(run)))


def provenance(run: RunDir) -> View:
    """Where the run was made, and whether its raw files are as they were written."""
    return View(display.provenance(run.manifest, run.changed_files()))


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
        **{f"ladder_{m}": tables.ladder_table(frame, run.profile, m) for m in tables.METRICS},
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
