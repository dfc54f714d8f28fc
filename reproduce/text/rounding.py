"""Printed numbers as the intervals that their digits leave open, in exact arithmetic.

"136" is anything from 135.5 to 136.5, so 136 over 139 is anything from 97.1 to 98.6 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction


@dataclass(frozen=True)
class Span:
    """All values from ``low`` to ``high``, both included."""

    low: Fraction
    high: Fraction

    def __add__(self, other: "Span") -> "Span":
        return Span(self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Span") -> "Span":
        return Span(self.low - other.high, self.high - other.low)

    def __mul__(self, factor: Fraction | int) -> "Span":
        ends = (self.low * factor, self.high * factor)
        return Span(min(ends), max(ends))

    def __truediv__(self, other: "Span") -> "Span":
        """Quotient of positive spans."""
        if self.low < 0 or other.low <= 0:
            raise ValueError("only positive spans are divided")
        return Span(self.low / other.high, self.high / other.low)

    def meets(self, other: "Span") -> bool:
        """Whether the two have a value in common."""
        return self.low <= other.high and other.low <= self.high

    def inside(self, other: "Span") -> bool:
        """Whether every value of this one is one of the other's."""
        return other.low <= self.low and self.high <= other.high

    def narrowed(self, other: "Span") -> "Span":
        """What both allow; this span itself where they have nothing in common."""
        if not self.meets(other):
            return self
        return Span(max(self.low, other.low), min(self.high, other.high))

    def text(self, digits: int) -> str:
        """``98.6`` when exact, ``97.13 to 98.56`` otherwise."""
        low, high = (f"{float(end):,.{digits}f}" for end in (self.low, self.high))
        return low if self.low == self.high else f"{low} to {high}"


class Relation(StrEnum):
    """How values found relate to a printed one."""

    SAME = "every value found rounds to the printed one"
    OPEN = "some values found round to the printed one"
    APART = "no value found rounds to the printed one"


def printed(text: str) -> Span:
    """A printed number: ``"2,378"`` is 2,377.5 to 2,378.5, ``"10.5"`` is 10.45 to 10.55."""
    digits = text.replace(",", "")
    half = Fraction(1, 2) / 10 ** len(digits.partition(".")[2])
    return Span(Fraction(digits) - half, Fraction(digits) + half)


def exact(value: float) -> Span:
    """A number that was not rounded."""
    return Span(Fraction(value), Fraction(value))


def mean(spans: Sequence[Span]) -> Span:
    """Arithmetic mean of at least one span."""
    return sum(spans[1:], start=spans[0]) * Fraction(1, len(spans))


def relation(found: Span, stated: Span) -> Relation:
    """Compare values found with a printed value."""
    if found.inside(stated):
        return Relation.SAME
    return Relation.OPEN if found.meets(stated) else Relation.APART
