"""Templates that print bound values, and the proof that they print no other number.

A template prints :class:`~reproduce.pages.lineage.Bound` values only. While it renders, each of
them is fenced with characters that no text contains; a numeral outside a fence that is not part of
a listed name is an error. So an article can lack a number's source only by not printing the number.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import jinja2
from markupsafe import Markup

from reproduce.errors import DataError
from reproduce.pages.lineage import FENCES, Bound, unnamed

_OPEN, _BREAK, _CLOSE = FENCES
_FENCED = re.compile(f"{_OPEN}(\\d+){_BREAK}(.*?){_CLOSE}", re.DOTALL)


@dataclass(frozen=True)
class Rendered:
    """A finished text, and each bound value with the line that first prints it."""

    text: str
    lines: Mapping[Bound, int]

    @property
    def bounds(self) -> list[Bound]:
        """Every value that is printed, in order, once each."""
        return list(self.lines)


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
