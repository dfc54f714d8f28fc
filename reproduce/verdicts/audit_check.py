"""What a check of a benchmark result is, and what it finds."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from reproduce.verdicts.audit_file import AbsentError, AuditedFile, MalformedError


class Outcome(StrEnum):
    """What a check found."""

    HOLDS = "holds"
    NOTE = "note"
    VIOLATED = "violated"
    NOT_CHECKABLE = "not checkable"


@dataclass(frozen=True)
class Finding:
    """One check: `low` ≤ `observed` ≤ `high`, within the tolerance.

    Attributes:
        identity: Name of the identity.
        subject: The key, metric or list it was applied to; empty when there is only one.
        outcome: What was found.
        meaning: The identity in a sentence.
        tolerance: Slack, as a share of the largest number compared.
        observed: The number in the file, or computed from it.
        low: The least it can be; an equation has `low` = `high`.
        high: The most it can be.
        detail: What is wrong, or why it cannot be checked.
    """

    identity: str
    subject: str
    outcome: Outcome
    meaning: str
    tolerance: float
    observed: float | None = None
    low: float | None = None
    high: float | None = None
    detail: str = ""

    @property
    def sentence(self) -> str:
        """The identity, and the numbers that were compared."""
        parts = [f"{self.subject}: " if self.subject else "", self.meaning]
        if self.observed is not None and self.low is not None and self.high is not None:
            limits = f"{self.low:.10g}"
            if self.low != self.high:
                limits += f" to {self.high:.10g}"
            parts.append(f" Found {self.observed:.10g}, expected {limits}.")
        if self.detail:
            parts.append(f" ({self.detail})")
        return "".join(parts)


@dataclass(frozen=True)
class Check:
    """The numbers of one check, and what it means when they disagree."""

    observed: float
    low: float
    high: float
    scale: float = 0.0
    failing: Outcome = Outcome.VIOLATED
    detail: str = ""


Rule = Callable[[AuditedFile, str], Check]
Subjects = Callable[[AuditedFile], Iterable[str]]


@dataclass(frozen=True)
class Identity:
    """Something every honest file satisfies, applied to one or several subjects of the file."""

    name: str
    meaning: str
    tolerance: float
    subjects: Subjects
    rule: Rule

    def applied(self, file: AuditedFile, subject: str) -> Finding:
        """The finding on one file; what the file lacks or garbles becomes an outcome too."""
        finding = Finding(self.name, subject, Outcome.HOLDS, self.meaning, self.tolerance)
        try:
            with np.errstate(all="ignore"):
                check = self.rule(file, subject)
        except AbsentError as reason:
            return replace(finding, outcome=Outcome.NOT_CHECKABLE, detail=str(reason))
        except MalformedError as reason:
            return replace(finding, outcome=Outcome.VIOLATED, detail=str(reason))
        except ArithmeticError:
            detail = "the numbers leave the range of floating point"
            return replace(finding, outcome=Outcome.VIOLATED, detail=detail)
        observed, low, high = float(check.observed), float(check.low), float(check.high)
        slack = self.tolerance * max(check.scale, abs(observed), abs(low), abs(high))
        finding = replace(finding, observed=observed, low=low, high=high)
        if low - slack <= observed <= high + slack:
            return finding
        return replace(finding, outcome=check.failing, detail=check.detail)
