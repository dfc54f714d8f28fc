"""Where each printed number comes from, and the proof that no other number is printed.

A template prints :class:`Bound` values only. While it renders, each of them is fenced with
characters that no text contains; a numeral outside a fence that is not part of a listed name is
an error. So an article can lack a number's source only by not printing the number.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any, Final, NamedTuple

import jinja2
from markupsafe import Markup

from reproduce.braces import braces
from reproduce.errors import DataError

_OPEN, _BREAK, _CLOSE = "\ue000", "\ue001", "\ue002"
_FENCED = re.compile(f"{_OPEN}(\\d+){_BREAK}(.*?){_CLOSE}", re.DOTALL)
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
        if any(fence in self.printed for fence in (_OPEN, _BREAK, _CLOSE)):
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
        """Its sources, as patterns of paths and the place in each; see :mod:`reproduce.braces`."""
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


@dataclass(frozen=True)
class Rendered:
    """A finished text, and each bound value with the line that first prints it."""

    text: str
    lines: Mapping[Bound, int]

    @property
    def bounds(self) -> list[Bound]:
        """Every value that is printed, in order, once each."""
        return list(self.lines)


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


def markdown(text: str) -> str:
    """Text as Markdown shows it, in a cell of a table as well: no tag, no link, no emphasis."""
    line = re.sub(r"\s*[\r\n]\s*", " ", text)
    return re.sub(r"[\\`*\[\]|]", r"\\\g<0>", escape(line, quote=False))


def code(text: str) -> str:
    """Text for a code span or block, which shows everything but its own end as it is."""
    return text.replace("`", "'")


def render(source: str, context: Mapping[str, Any], names: Sequence[str], label: str) -> Rendered:
    """Fill in a template.

    Args:
        source: Jinja template. Every value is made fit for Markdown text, tables included; the
            filters ``code`` and ``attribute`` make it fit for code and for an HTML attribute.
        context: bound values, and text without numbers.
        names: what may contain digits without being a number.
        label: how messages call the template.

    Raises:
        DataError: a number without a source, or a damaged template; the message names the line.
    """
    used: list[Bound] = []

    def fenced(value: Any, fit: Callable[[str], str] = markdown) -> Markup:
        if isinstance(value, Markup):  # made by a filter or a macro already
            return value
        if not isinstance(value, Bound):
            return Markup(fit(str(value)))  # noqa: S704 - `fit` has escaped it
        used.append(value)
        text = f"{_OPEN}{len(used) - 1}{_BREAK}{fit(value.printed)}{_CLOSE}"
        return Markup(text)  # noqa: S704 - `fit` has escaped it

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, finalize=fenced, autoescape=True,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters["code"] = lambda value: fenced(value, code)
    environment.filters["attribute"] = lambda value: fenced(value, escape)
    try:
        _refuse_typed(environment, source, names, label)
        fenced_text = environment.from_string(source).render(context)
    except jinja2.TemplateSyntaxError as error:
        raise DataError(f"{label}, line {error.lineno}: {error.message}") from error
    except jinja2.TemplateError as error:
        raise DataError(f"{label}: {error.message}") from error
    return _unfenced(fenced_text, used, names, label)


def _refuse_typed(
    environment: jinja2.Environment, source: str, names: Sequence[str], label: str
) -> None:
    """Refuse a number in the template's own text or expressions."""
    for line, kind, text in environment.lex(source):
        if kind not in ("data", "string", "integer", "float"):
            continue
        for numeral in unnamed(text, names):
            at = line + text.count("\n", 0, numeral.start)
            raise DataError(
                f"{label}, line {at}: '{numeral.text}' has no source: bind it to a file, or list "
                "the name that contains it in names.yaml"
            )


def _unfenced(text: str, used: Sequence[Bound], names: Sequence[str], label: str) -> Rendered:
    """Take the fences away, and refuse any number that stood outside them."""
    plain, taken = "", 0
    spans: list[tuple[int, int]] = []
    lines: dict[Bound, int] = {}
    for match in _FENCED.finditer(text):
        plain += text[taken : match.start()] + match[2]
        taken = match.end()
        spans.append((len(plain) - len(match[2]), len(plain)))
        lines.setdefault(used[int(match[1])], plain.count("\n") + 1)
    plain += text[taken:]
    for numeral in unnamed(plain, names):
        if not any(start <= numeral.start and numeral.end <= end for start, end in spans):
            at = plain.count("\n", 0, numeral.start) + 1
            raise DataError(
                f"{label}: '{numeral.text}' on line {at} of the text has no source, or two "
                f"values run together there: bind it ({plain.splitlines()[at - 1].strip()[:60]})"
            )
    _refuse_namesakes(lines)
    return Rendered(plain, lines)


def _refuse_namesakes(bounds: Mapping[Bound, int]) -> None:
    ids = [bound.id for bound in bounds]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise DataError(f"two different values are called '{twice[0]}'")


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
