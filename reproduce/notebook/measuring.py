"""Measuring, and what is on file."""

from reproduce import analysis, display
from reproduce import measure as measuring
from reproduce.notebook import View
from reproduce.rundir import RunDir


def measure(run: RunDir) -> View:
    """Measure what the run lacks; a published run is only counted."""
    if run.profile.kind == "measured":
        measuring.measure(run)
    frame = analysis.measurements(run)
    counts = frame.groupby(["rung", "arm"], sort=False)["valid"].agg(["sum", "size"])
    shown = counts.reset_index().rename(columns={"sum": "valid repeats", "size": "attempts"})
    return View(display.table(shown, caption="Repeats on file"))


def invalid(run: RunDir) -> View:
    """Attempts that do not count, with the reason."""
    frame = analysis.measurements(run)
    shown = frame.loc[~frame["valid"], ["arm", "launch", "rung", "repeat", "reasons"]]
    if shown.empty:
        return View("<p>Every repeat on file counts.</p>")
    return View(display.table(shown, caption="Repeats that do not count"))
