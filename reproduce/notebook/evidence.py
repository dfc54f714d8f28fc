"""What the engines really ran, and where."""

from reproduce import analysis, display
from reproduce.notebook import View
from reproduce.rundir import RunDir


def engines(run: RunDir) -> View:
    """What both engines really ran, side by side."""
    return View(display.engines(analysis.engine_facts(run), run.profile))


def fusions(run: RunDir) -> View:
    """Expected fusions against those the candidate's log shows."""
    baseline = analysis.facts_of(run, run.profile.baseline)
    candidate = analysis.facts_of(run, run.profile.candidate)
    architecture = baseline.architecture if baseline is not None else None
    return View(display.fusions(candidate, architecture or analysis.native_architecture(run)))


def scope(run: RunDir) -> View:
    """Why the run does or does not test the claim, and what differs between its engines."""
    return View(display.scope(analysis.scope(run)))


def agreement(run: RunDir) -> View:
    """Whether the engines answered alike."""
    return View(display.agreement(analysis.agreement_table(run)))


def commands(run: RunDir) -> View:
    """How each server was started."""
    return View(display.commands(analysis.commands(run)))


def provenance(run: RunDir) -> View:
    """Where the run was made, and whether its raw files are as they were written."""
    return View(display.provenance(run.manifest, run.changed_files()))
