"""What the notebooks call on claims, confounders and audits: one function per cell."""

from reproduce.notebook import View
from reproduce.outside.rundir import RunDir
from reproduce.pages import display_claims
from reproduce.reading import analysis, judgement, origins


def claims(run: RunDir) -> View:
    """Every claim of the article: the verdict, and whether its own data agree."""
    judged, files = judgement.judged_claims(run), origins.files_of(run)
    sources = origins.claim_sources(run, files, analysis.measurements(run), judged)
    return View(display_claims.claims(judged, sources, origins.everything(files)))


def confounders(run: RunDir) -> View:
    """What else could explain the result."""
    found = judgement.confounders_frame(run)
    return View(display_claims.confounders(found, origins.files_of(run)))


def audit(run: RunDir) -> View:
    """Whether the result files agree with themselves."""
    return View(display_claims.audit(judgement.audit_frame(run), origins.files_of(run)))
