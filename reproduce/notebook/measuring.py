"""Measuring, and what is on file."""

from reproduce.notebook import View
from reproduce.outside.rundir import RunDir
from reproduce.pages import display, display_claims, display_course
from reproduce.plan import timing
from reproduce.reading import analysis, origins
from reproduce.running import measure as measuring


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
    shown = frame.loc[~frame["valid"], ["arm", "launch", "rung", "repeat", "reasons", "source"]]
    if shown.empty:
        return View("<p>Every repeat on file counts.</p>")
    return View(display_claims.invalid(shown, origins.files_of(run)))


def gaps(run: RunDir) -> View:
    """What launches lack because a server failed."""
    sources = origins.files_of(run).like("raw/*/launch-*/start-*/failure.json")
    return View(display_course.gaps(analysis.gaps(run), sources))


def cost(run: RunDir) -> View:
    """What the harness cost, beside the measuring itself."""
    found = timing.spent(analysis.timed(run), run.launch_facts())
    files = origins.files_of(run)
    sources = [*files.like("raw/*.record.json", "/started_at"), *files.results("/duration"),
               *files.like("raw/*/launch-*/start-*/facts.json", "/ready_at")]  # fmt: skip
    return View(display_course.cost(found, sources))
