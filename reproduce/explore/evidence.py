"""The evidence viewer: both logs' facts, and what was expected against what was found."""

from pathlib import Path

import ipywidgets

from reproduce.explore import explorer, known_runs, opened
from reproduce.notebook import RUNS, evidence
from reproduce.outside.memo import remembered


def evidence_viewer(runs: Path = RUNS) -> ipywidgets.Widget:
    """Run and subject → what the engines' logs show."""
    known, note = known_runs(runs)
    controls = {
        "root": ipywidgets.Dropdown(options=known, description="run"),
        "subject": ipywidgets.ToggleButtons(options=list(_SUBJECTS), description="show"),
    }
    return explorer(controls, shown, note)


def shown(root: Path, subject: str) -> str:
    """One subject of one run as HTML."""
    return _html(root, subject)


@remembered
def _html(root: Path, subject: str) -> str:
    return _SUBJECTS[subject](opened(root)).html


_SUBJECTS = {
    "both logs": evidence.engines,
    "expected against found": evidence.fusions,
    "is it a test of the claim?": evidence.scope,
    "commands": evidence.commands,
}
