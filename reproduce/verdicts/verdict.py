"""What a run says about the claim, in words that do not outrun the data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from reproduce.evidence.engine_log import Scope
from reproduce.profile import Profile
from reproduce.schemas import EngineFacts
from reproduce.stats.equivalence import Comparison, Decision, Effect
from reproduce.verdicts.confounders import Confounder, Severity, blocking


class Label(StrEnum):
    """The verdict in a word or two."""

    NO_TEST = "not a test of the claim"
    EQUIVALENT = "equivalent"
    DIFFERENT = "different"
    INCONCLUSIVE = "inconclusive"
    WITHHELD = "withheld"
    REPLAYED = "replayed, not measured"


@dataclass(frozen=True)
class Verdict:
    """A label, one sentence that answers the question, and what limits the answer."""

    label: Label
    headline: str
    limits: tuple[str, ...]


def judge(
    profile: Profile,
    result: Comparison | None,
    scope: Scope,
    measurements: pd.DataFrame,
    candidate: EngineFacts | None,
    confounders: Sequence[Confounder],
) -> Verdict:
    """The verdict on total token throughput over the whole ladder.

    A run whose engines are not those of the claim gets no verdict on speed, whatever it measured,
    and neither does a run that something else may explain, or a ladder with a rung missing.
    """
    effect = result.ladder if result is not None else None
    limits = _limits(profile, effect, measurements, candidate)
    limits += tuple(c.sentence for c in confounders if c.severity is Severity.WARNING)
    if profile.kind == "published":
        return Verdict(
            Label.REPLAYED,
            f"The article's own numbers: {_speed(profile, effect)}.",
            ("One run per point: the article's data carry no uncertainty.", *scope.objections),
        )
    if not scope.is_test:
        headline = f"This run is not a test of the claim: {'; '.join(scope.objections)}."
        return Verdict(Label.NO_TEST, headline, limits)
    if reasons := blocking(confounders):
        headline = f"No verdict on speed: {reasons[0]}"
        return Verdict(Label.WITHHELD, headline, (*reasons[1:], *limits))
    complete = result is not None and len(result.rungs) == len(profile.ladder)
    if effect is None or effect.ratio is None or not complete:
        return Verdict(
            Label.INCONCLUSIVE, "Some workloads have no valid pair, so there is no mean.", limits
        )
    margin = f"{100 * profile.margin:g} %"
    label = Label(effect.decision.value)
    headline = {
        Decision.EQUIVALENT: f"Equivalent within {margin}",
        Decision.DIFFERENT: f"Different by more than {margin}",
        Decision.INCONCLUSIVE: f"Inconclusive at {margin}",
    }[effect.decision]
    headline = f"{headline}: {_speed(profile, effect)}."
    if effect.decision is Decision.INCONCLUSIVE:
        headline += _still_known(effect, margin)
    return Verdict(label, headline, limits)


def _still_known(effect: Effect, margin: str) -> str:
    """What an inconclusive result excludes all the same."""
    known = ""
    if effect.noninferior:
        known += f" A loss of {margin} or more is excluded (one-sided, 5 %)."
    if effect.smallest_margin is not None:
        known += f" Equivalent from a margin of {_up(100 * effect.smallest_margin):.1f} % on."
    return known


def _up(value: float) -> float:
    """Up to one decimal, so that what is printed still holds."""
    return math.ceil(10 * value) / 10


def _speed(profile: Profile, effect: Effect | None) -> str:
    if effect is None or effect.ratio is None:
        return "no workload was measured on both arms"
    text = (
        f"{profile.candidate} ran at {100 * effect.ratio:.1f} % of {profile.baseline} "
        f"in the mean of {len(profile.ladder)} workloads"
    )
    if effect.low is None or effect.high is None:
        return text
    return f"{text} (95 % interval {100 * effect.low:.1f} to {100 * effect.high:.1f} %)"


def _limits(
    profile: Profile,
    effect: Effect | None,
    measurements: pd.DataFrame,
    candidate: EngineFacts | None,
) -> tuple[str, ...]:
    limits = []
    if profile.kind == "measured" and profile.model.id == "tiny-deepseek-v3":
        limits.append(
            "A tiny checkpoint on a CPU: this tests the mechanism, not the article's hardware."
        )
    if effect is not None and effect.caveat:
        limits.append(effect.caveat)
    if candidate is not None and candidate.compiled is False:
        limits.append("The engine ran without torch.compile: not the article's condition.")
    if invalid := int((~measurements["valid"]).sum()):
        text = f"{invalid} attempts did not count; each is listed with its reason"
        if "disturbed" in measurements and (marked := int(measurements["disturbed"].sum())):
            text += f" ({marked} slices met a disturbed machine)"
        limits.append(f"{text}.")
    return tuple(limits)
