"""What the notebooks call on claims, confounders and audits: one function per cell."""

from reproduce import display_claims, judgement
from reproduce.notebook import View
from reproduce.rundir import RunDir


def claims(run: RunDir) -> View:
    """Every claim of the article: the verdict, and whether its own data agree."""
    return View(display_claims.claims(judgement.claims_frame(run)))


def confounders(run: RunDir) -> View:
    """What else could explain the result."""
    return View(display_claims.confounders(judgement.confounders_frame(run)))


def audit(run: RunDir) -> View:
    """Whether the result files agree with themselves."""
    return View(display_claims.audit(judgement.audit_frame(run)))
