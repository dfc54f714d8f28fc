"""Where each printed number comes from."""

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from reproduce.errors import DataError
from reproduce.text.braces import braces

FENCES: Final = ("\ue000", "\ue001", "\ue002")
"""Characters that no value contains, for :mod:`reproduce.pages.rendering` to put around values."""

# A number with its separators, or one letter of any script that means a number.
_CANDIDATE = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]")


@dataclass(frozen=True)
class Source:
    """A place in a stored file.

    Attributes:
        path: relative to the repository.
        sha256: of the file.
        pointer: JSON pointer in JSON and YAML, ``/row/column`` in CSV, what was read in a log.
    """

    path: str
    sha256: str
    pointer: str

    def __str__(self) -> str:
        return f"{self.path}#{self.pointer}"


@dataclass(frozen=True)
class Bound:
    """A printed value that knows where it comes from.

    Attributes:
        id: its name, unique in an article.
        value: before rounding; the text itself for words taken from the data.
        printed: as the article prints it.
        sources: what it was made from.
        reduction: how.
        unit: of the value.
        rounding: from the value to what is printed.
    """

    id: str
    value: float | str
    printed: str
    sources: tuple[Source, ...]
    reduction: str
    unit: str = ""
    rounding: str = "none"

    def __post_init__(self) -> None:
        if not self.sources:
            raise DataError(f"{self.id}: a bound value needs a source")
        if any(fence in self.printed for fence in FENCES):
            raise DataError(f"{self.id}: contains a character of Unicode's private use area")

    @property
    def origin(self) -> str:
        """Where it comes from, in a line."""
        unit = f"unit: {self.unit}; " if self.unit else ""
        digest = f"sha256 {self.digest[:12]}" + (" of their list" if len(self.files) > 1 else "")
        return (
            f"{self.reduction}; {'; '.join(self.places)}; {digest}; {unit}rounding: {self.rounding}"
        )

    @cached_property
    def places(self) -> tuple[str, ...]:
        """Its sources: patterns of paths (:mod:`reproduce.text.braces`) and the place in each."""
        paths: dict[str, list[str]] = {}
        for source in self.sources:
            paths.setdefault(source.pointer, []).append(source.path)
        return tuple(f"{p}#{place}" for place, listed in paths.items() for p in braces(listed))

    @cached_property
    def files(self) -> Mapping[str, str]:
        """sha256 of each source file, by path and in its order."""
        return dict(sorted((source.path, source.sha256) for source in self.sources))

    @cached_property
    def digest(self) -> str:
        """sha256 of the source file; where there are several, of what ``sha256sum`` prints."""
        if len(self.files) == 1:
            return next(iter(self.files.values()))
        listed = "".join(f"{digest}  {path}\n" for path, digest in self.files.items())
        return hashlib.sha256(listed.encode()).hexdigest()


Cell = Bound | str
"""A value with its sources, or words without a number."""

AS_STORED: Final = "as stored"
"""The reduction of a value that is printed as its file has it."""

MISSING: Final = "–"
"""The sign of a value that is not known."""


def rounded(
    id: str,  # noqa: A002 - the field's name
    value: float,
    digits: int,
    sources: Sequence[Source],
    reduction: str,
    unit: str = "",
) -> Bound:
    """A number printed with so many decimals; a dash where it is missing."""
    if math.isnan(value):
        return Bound(id, "missing", MISSING, tuple(sources), reduction, unit)
    printed = f"{value:,.{digits}f}"
    return Bound(id, value, printed, tuple(sources), reduction, unit, to_even(digits))


def to_even(digits: int) -> str:
    """How a number is rounded to so many decimals."""
    return f"half to even, decimals: {digits}"


def worded(
    id: str,  # noqa: A002 - the field's name
    text: str,
    sources: Sequence[Source],
    reduction: str,
    unit: str = "",
    rounding: str = "none",
) -> Bound:
    """Words made from the data, printed as they are."""
    return Bound(id, text, text, tuple(sources), reduction, unit, rounding)


def told(
    id: str,  # noqa: A002 - the field's name
    text: str,
    sources: Sequence[Source],
    reduction: str,
    unit: str = "",
) -> Cell:
    """Words made from the data: bound where they hold a number, else as they are.

    So is what has no source on file: a page says which of its numbers have none.
    """
    if sources and any(numerals(text)):
        rounding = "none" if reduction == AS_STORED else "in the words"
        return worded(id, text, sources, reduction, unit, rounding)
    return text


def counted(
    id: str,  # noqa: A002 - the field's name
    value: float | None,
    digits: int,
    sources: Sequence[Source],
    reduction: str,
    unit: str = "",
) -> Cell:
    """A number printed with so many decimals; see :func:`told`. A dash where it is missing."""
    if value is None or math.isnan(value):
        return MISSING
    if not sources:
        return f"{value:,.{digits}f}"
    return rounded(id, value, digits, sources, reduction, unit)


class Numeral(NamedTuple):
    """A number as it stands in a text."""

    text: str
    start: int
    end: int


class Moved(NamedTuple):
    """A bound value that is printed differently now; None where there was or is none."""

    id: str
    old: str | None
    new: str | None


def numerals(text: str) -> Iterator[Numeral]:
    """Every number in a text, in any script, with its separators."""
    for match in _CANDIDATE.finditer(text):
        if match[0][0].isnumeric():
            yield Numeral(match[0], match.start(), match.end())


def unnamed(text: str, names: Sequence[str]) -> Iterator[Numeral]:
    """Numbers that are not part of a listed name."""
    listed = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    spans = [m.span() for m in re.finditer(rf"(?<!\w)(?:{listed})(?!\w)", text)] if listed else []
    for numeral in numerals(text):
        if not any(start <= numeral.start and numeral.end <= end for start, end in spans):
            yield numeral


def prints(number: str, text: str) -> bool:
    """Whether a text has a number: ``2378`` and ``2,378`` are the same, 99.6 and 99.60 not."""
    wanted = number.strip().removesuffix("%").strip().replace(",", "")
    return wanted in (n.text.replace(",", "") for n in numerals(text))


def printing(number: str, bounds: Sequence[Bound]) -> list[Bound]:
    """The values that print a number; see :func:`prints`."""
    return [bound for bound in bounds if prints(number, bound.printed)]


def moved(old: Mapping[str, str], new: Mapping[str, str]) -> list[Moved]:
    """What is printed differently, by id; new order, then what is gone."""
    names = dict.fromkeys([*new, *old])
    pairs = ((name, old.get(name), new.get(name)) for name in names)
    return [Moved(*pair) for pair in pairs if pair[1] != pair[2]]
