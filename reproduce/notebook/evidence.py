"""What the engines really ran, and where."""

from reproduce.notebook import View
from reproduce.outside.rundir import RunDir
from reproduce.pages import display_evidence
from reproduce.reading import analysis, origins


def engines(run: RunDir) -> View:
    """What both engines really ran, side by side."""
    facts = analysis.engine_facts(run)
    return View(display_evidence.engines(facts, run.profile, origins.files_of(run)))


def fusions(run: RunDir) -> View:
    """Expected fusions against those the candidate's log shows."""
    baseline = analysis.facts_of(run, run.profile.baseline)
    candidate = analysis.facts_of(run, run.profile.candidate)
    architecture = baseline.architecture if baseline is not None else None
    architecture = architecture or analysis.native_architecture(run)
    return View(display_evidence.fusions(candidate, architecture))


def scope(run: RunDir) -> View:
    """Why the run does or does not test the claim, and what differs between its engines."""
    return View(display_evidence.scope(analysis.scope(run), origins.files_of(run)))


def agreement(run: RunDir) -> View:
    """Whether the engines answered alike."""
    frame, files = analysis.agreement_table(run), origins.files_of(run)
    return View(display_evidence.agreement(frame, files, analysis.REFERENCE))


def commands(run: RunDir) -> View:
    """How each server was started."""
    return View(display_evidence.commands(analysis.commands(run)))


def provenance(run: RunDir) -> View:
    """Where the run was made, and whether its raw files are as they were written."""
    files = origins.files_of(run)
    return View(display_evidence.provenance(run.manifest, run.changed_files(), files))
