"""A page's bound values → its table of lineage; and the numbers on it that have none.

Display functions mark each bound value with an attribute
(:func:`reproduce.pages.display.attributes`). A finished page keeps the mark's id and its words, and
gets one table of all of them, so nothing can be printed as bound and not be listed.
"""

import csv
import html
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Final

from markupsafe import Markup

from reproduce.pages.lineage import Bound, unnamed

ID: Final = "lineage"
"""Id of the page's section with the table, which is not searched for numbers itself."""

NAME: Final = "lineage.csv"
"""Of the table as a file."""

COLUMNS: Final = ("id", "printed", "value", "unit", "rounding", "reduction", "sources", "sha256")

_MARK: Final = re.compile(r""" data-lineage=(?:'([^']*)'|"([^"]*)")""")
_UNSEEN: Final = frozenset({"head", "style", "script", "template"})
_VERBATIM: Final = frozenset({"code", "pre"})
"""Names, commands and listings as they are; a measured value never stands in one."""
_READ_ALOUD: Final = ("alt", "aria-label", "placeholder")
_EMPTY: Final = frozenset({"area", "base", "br", "col", "hr", "img", "input", "link", "meta",
                           "source", "wbr"})  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A bound value as a page prints it; see :class:`reproduce.pages.lineage.Bound`."""

    id: str
    printed: str
    value: float | str
    unit: str
    rounding: str
    reduction: str
    places: tuple[str, ...]
    files: int
    sha256: str


def gathered(page: str) -> tuple[str, list[Entry]]:
    """Take the lineage out of a page's elements, leaving each its id.

    Returns:
        The page, and every value once, in the page's order.
    """
    entries: dict[Entry, None] = {}

    def taken(mark: re.Match[str]) -> str:
        about = json.loads(html.unescape(mark[1] or mark[2]))
        entry = Entry(**{**about, "places": tuple(about["places"])})
        entries[entry] = None
        return Markup(' data-id="{}"').format(entry.id)

    return _MARK.sub(taken, page), list(entries)


def table(entries: Sequence[Entry]) -> Markup:
    """One row per value, under the files that it comes from."""
    groups: dict[tuple[str, int], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.sha256, entry.files), []).append(entry)
    bodies = Markup("").join(
        Markup('<tbody><tr><th scope="rowgroup" colspan="6">{}</th></tr>{}</tbody>').format(
            _group(count, digest), Markup("").join(_row(entry) for entry in group)
        )
        for (digest, count), group in groups.items()
    )
    return Markup(
        '<div class="table" role="region" tabindex="0" aria-label="Lineage"><table>'
        "<caption>Every number of this page, by the files that it comes from</caption>"
        '<thead><tr><th scope="col">number</th><th scope="col">printed</th>'
        '<th scope="col">unit</th><th scope="col">from</th><th scope="col">reduction</th>'
        '<th scope="col">rounding</th></tr></thead>{}</table></div>'
    ).format(bodies)


def _group(count: int, digest: str) -> Markup:
    several = "" if count == 1 else f" of the list of {count} files"
    return Markup("sha256{} <code>{}</code>").format(several, digest)


def _row(entry: Entry) -> Markup:
    places = Markup("<br>").join(Markup("<code>{}</code>").format(p) for p in entry.places)
    return Markup(
        '<tr><th scope="row"><code>{}</code></th><td>{}</td><td>{}</td><td>{}</td><td>{}</td>'
        "<td>{}</td></tr>"
    ).format(entry.id, entry.printed, entry.unit, places, entry.reduction, entry.rounding)


def as_csv(entries: Sequence[Entry]) -> bytes:
    """The table as lineage.csv has it."""
    return written((entry, entry.places, entry.sha256) for entry in entries)


def written(rows: Iterable[tuple[Bound | Entry, Sequence[str], str]]) -> bytes:
    """A lineage.csv: values, each with the places that its row spells out, and their digest."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one, places, digest in rows:
        value = f"{one.value:.10g}" if isinstance(one.value, int | float) else ""
        row = (one.id, one.printed, value, one.unit, one.rounding, one.reduction)
        writer.writerow([*row, "; ".join(places), digest])
    return text.getvalue().encode()


def from_csv(data: bytes) -> list[dict[str, str]]:
    """The rows of :func:`written`."""
    return list(csv.DictReader(io.StringIO(data.decode(errors="replace"))))


def unbound(page: str, names: Sequence[str]) -> list[str]:
    """The page's texts that hold a number without a source.

    A number has one inside an element with a lineage. It needs none inside code and listings,
    which are printed as they are, and as part of a name.

    Args:
        page: after :func:`gathered`.
        names: what may contain digits without being a number.
    """
    reader = _Texts()
    reader.feed(page)
    reader.close()
    found = (text for text in reader.texts if any(unnamed(text, names)))
    return [" ".join(text.split()) for text in found]


class _Texts(HTMLParser):
    """Collects what a reader sees or hears that is neither bound nor verbatim."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        skipped = (
            self._skipping()
            or tag in _UNSEEN | _VERBATIM
            or "data-id" in given
            or given.get("id") == ID
        )
        if not skipped:
            self.texts += [given[key] or "" for key in _READ_ALOUD if key in given]
        if tag not in _EMPTY:
            self._open.append((tag, skipped))

    def handle_endtag(self, tag: str) -> None:
        while any(name == tag for name, _ in self._open):
            if self._open.pop()[0] == tag:
                break

    def handle_data(self, data: str) -> None:
        if not self._skipping():
            self.texts.append(data)

    def _skipping(self) -> bool:
        return bool(self._open) and self._open[-1][1]
