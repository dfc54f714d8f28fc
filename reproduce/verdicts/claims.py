"""The article's claims, and what a run, its own data and the memory model say of each.

Each claim of claims.yaml names how it is decided (``test``) and how the article's own data bear on
it (``check``). Two answers result: a verdict, and whether the article agrees with itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, model_validator

from reproduce.errors import DataError
from reproduce.profile import Strict
from reproduce.text.rounding import Relation

Scope = Literal["published data", "measured run", "engine log", "memory model"]
Direction = Literal["equal", "not below", "inside", "same", "present", "fits", "does not fit"]
R = TypeVar("R")
Text = Annotated[str, Field(min_length=1)]


class Standing(StrEnum):
    """The verdict on one claim."""

    REPRODUCED = "reproduced"
    CONTRADICTED = "contradicted"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTABLE = "not testable here"


class Consistency(StrEnum):
    """Whether the article's own raw data agree with what it states."""

    CONSISTENT = "consistent within rounding"
    INCONSISTENT = "not consistent"
    NO_DATA = "no raw data"


class Rule(Strict):
    """Name of a rule and what it is told."""

    rule: Text
    values: dict[str, Any] = Field(default_factory=dict)


class Claim(Strict):
    """One checkable statement of the article."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    section: Text = Field(description="Heading in the article.")
    statement: Text = Field(description="In our words.")
    estimand: Text = Field(description="What is estimated or compared.")
    direction: Direction
    margin: float | None = Field(default=None, ge=0, lt=1, description="As a share.")
    scope: Scope = Field(description="What can decide it.")
    test: Rule | None = Field(default=None, description="None where the check decides.")
    check: Rule | None = Field(default=None, description="None where there are no raw data.")

    @model_validator(mode="after")
    def _decidable(self) -> "Claim":
        if (self.scope == "published data") != (self.test is None):
            raise ValueError("test: given unless the published data decide")
        if self.test is None and self.check is None:
            raise ValueError("check: needed where the published data decide")
        return self


@dataclass(frozen=True)
class Answer:
    """What a test says of a claim: verdict, what was found, and what the scope leaves open."""

    standing: Standing
    found: str
    note: str = ""


@dataclass(frozen=True)
class Check:
    """What the article's own data say: how they relate to the statement, and the numbers.

    The relation is None where the data do not reach; ``found`` then says what is lacking.
    """

    relation: Relation | None
    found: str


@dataclass(frozen=True)
class Judged:
    """A claim with both answers."""

    claim: Claim
    answer: Answer
    consistency: Consistency
    own_data: str


_BY_ARITHMETIC = {
    None: (Standing.NOT_TESTABLE, "Not in the published data."),
    Relation.SAME: (Standing.REPRODUCED, ""),
    Relation.OPEN: (Standing.INCONCLUSIVE, "The printed digits leave it open."),
    Relation.APART: (Standing.CONTRADICTED, ""),
}
_OWN_DATA = {
    None: Consistency.NO_DATA,
    Relation.SAME: Consistency.CONSISTENT,
    Relation.OPEN: Consistency.CONSISTENT,
    Relation.APART: Consistency.INCONSISTENT,
}


def judge(
    claims: Sequence[Claim],
    tests: Mapping[str, Callable[..., Answer]],
    checks: Mapping[str, Callable[..., Check]],
) -> list[Judged]:
    """Judge every claim.

    Args:
        claims: from claims.yaml.
        tests: rules that decide on a run or on the memory model, by name; each takes the claim and
            its values.
        checks: rules on the article's own data, by name.

    Raises:
        DataError: a claim names a rule that there is not.
    """
    return [_judge(claim, tests, checks) for claim in claims]


def _judge(
    claim: Claim,
    tests: Mapping[str, Callable[..., Answer]],
    checks: Mapping[str, Callable[..., Check]],
) -> Judged:
    check = Check(None, "")
    if claim.check is not None:
        check = _named(checks, claim, claim.check)(claim, **claim.check.values)
    if claim.test is not None:
        answer = _named(tests, claim, claim.test)(claim, **claim.test.values)
    else:
        standing, note = _BY_ARITHMETIC[check.relation]
        answer = Answer(standing, check.found, note)
    return Judged(claim, answer, _OWN_DATA[check.relation], check.found)


def _named(rules: Mapping[str, R], claim: Claim, rule: Rule) -> R:
    if rule.rule not in rules:
        raise DataError(f"claims.yaml: {claim.id}: there is no rule '{rule.rule}'")
    return rules[rule.rule]
