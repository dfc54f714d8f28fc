"""Frames and facts → HTML fragments. Everything that comes from a file is escaped."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from reproduce.pages.lineage import MISSING, Bound, Cell, Source, counted, told
from reproduce.profile import Profile

if TYPE_CHECKING:
    # Named in signatures only; importing them would cost every notebook a second.
    from reproduce.metrics import Metric
    from reproduce.pages.figures import Theme
    from reproduce.verdicts.verdict import Verdict


def number(value: Any, digits: int, unit: str = "") -> str:
    """A number with thousands separators, or a dash where it is missing."""
    if value is None or pd.isna(value):
        return MISSING
    return f"{value:,.{digits}f}{unit}"


def table(frame: pd.DataFrame, caption: str) -> str:
    """A frame as an accessible table that scrolls by itself on a narrow screen.

    A bound value, in a cell or as a column's name, says where it comes from.
    """
    kinds = ["num" if pd.api.types.is_numeric_dtype(frame.iloc[:, n]) or _numeric(frame.iloc[:, n])
             else "text" for n in range(frame.shape[1])]  # fmt: skip
    header = Markup("").join(
        Markup('<th scope="col" class="{}">{}</th>').format(kind, traced(name))
        for name, kind in zip(frame.columns, kinds, strict=True)
    )
    rows = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup('<th scope="row">{}</th>').format(_say(cell))
                if place == 0
                else Markup('<td class="{}">{}</td>').format(kind, _say(cell))
                for place, (cell, kind) in enumerate(zip(row, kinds, strict=True))
            )
        )
        for row in frame.itertuples(index=False, name=None)
    )
    return framed(header, Markup("<tbody>{}</tbody>").format(rows), caption)


def framed(header: Markup, bodies: Markup, caption: str) -> str:
    """A table's parts as a region of its own, which the keyboard can scroll."""
    return Markup(
        '<div class="table" role="region" tabindex="0" aria-label="{caption}"><table>'
        "<caption>{caption}</caption><thead><tr>{header}</tr></thead>{bodies}"
        "</table></div>"
    ).format(caption=caption, header=header, bodies=bodies)


def _numeric(column: pd.Series) -> bool:
    shown = [
        v.printed if isinstance(v, Bound) else v.striptags() if isinstance(v, Markup) else str(v)
        for v in column
    ]
    texts = [text for text in shown if text != MISSING]
    return bool(texts) and all(t[:1].isdigit() or t[:1] in "-+±" for t in texts)


def _say(value: Any) -> Any:
    if isinstance(value, Markup | Bound):
        return traced(value)
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return MISSING
    return value


def traced(value: Any) -> Any:
    """A bound value that shows, under the pointer and under the keyboard, where it comes from."""
    if not isinstance(value, Bound):
        return value
    return Markup("<span{}>{}</span>").format(attributes(value), value.printed)


def attributes(bound: Bound) -> Markup:
    """What lets any element say where its text comes from.

    ``data-lineage`` is for :mod:`reproduce.pages.lineage_table`, which makes a page's list from it.
    """
    about = {
        "id": bound.id,
        "printed": bound.printed,
        "value": bound.value,
        "unit": bound.unit,
        "rounding": bound.rounding,
        "reduction": bound.reduction,
        "places": bound.places,
        "files": len(bound.files),
        "sha256": bound.digest,
    }
    text = json.dumps(about, ensure_ascii=False)
    for letter, entity in (("&", "&amp;"), ("<", "&lt;"), ("'", "&#39;")):
        text = text.replace(letter, entity)
    return Markup(' class="bound" tabindex="0" title="{}" data-lineage=\'{}\'').format(
        bound.origin,
        Markup(text),  # noqa: S704 - escaped just above
    )


def bound_frame(
    frame: pd.DataFrame, name: str, sources: Callable[["pd.Series[Any]"], Sequence[Source]],
    how: str, digits: int, units: Mapping[str, str],
) -> pd.DataFrame:  # fmt: skip
    """A frame whose every number knows where it comes from.

    Args:
        frame: of numbers and words.
        name: put before the values' ids.
        sources: of a row.
        how: the numbers were made.
        digits: decimals of those that are not whole.
        units: by column.
    """

    def cell(place: int, column: str, value: Any, origin: Sequence[Source]) -> Cell:
        key = f"{name}.{place}.{column}"
        if value is None or value is pd.NA:
            return MISSING
        if isinstance(value, int | float | np.number) and not isinstance(value, bool):
            kept = 0 if isinstance(value, int | np.integer) else digits
            return counted(key, float(value), kept, origin, how, units.get(column, ""))
        return told(key, str(value), origin, how)

    rows = [
        [cell(place, str(column), value, origin) for column, value in row.items()]
        for place, (_, row) in enumerate(frame.astype(object).iterrows())
        for origin in [sources(row)]
    ]
    return pd.DataFrame(rows, columns=frame.columns)


def article_table(
    workloads: Sequence[Cell], rows: Sequence[Mapping[str, Cell]], profile: Profile
) -> str:
    """The article's columns; see :func:`reproduce.pages.ladder_values.article_rows`."""
    base, tried = profile.baseline, profile.candidate
    columns = {
        "base": f"{base} total tok/s",
        "tried": f"{tried} total tok/s",
        "percent": f"% of {base}",
        "base_tpot": f"{base} TPOT, ms",
        "tried_tpot": f"{tried} TPOT, ms",
        "percent_tpot": f"TPOT, % of {base}",
    }
    caption = "Total token throughput (input and output) and TPOT, both arms"
    return _traced_table(workloads, rows, columns, caption)


def ladder_table(
    workloads: Sequence[Cell], rows: Sequence[Mapping[str, Cell]], metric: "Metric",
    profile: Profile,
) -> str:  # fmt: skip
    """One metric; see :func:`reproduce.pages.ladder_values.ladder_row`."""
    base, tried = profile.baseline, profile.candidate
    columns = {
        "base": f"{base} ({metric.unit})",
        "tried": f"{tried} ({metric.unit})",
        "percent": f"% of {base}",
        "interval": "95 % interval",
        "spread": "single pairs",
        "pairs": "pairs",
        "rounding": "left open by rounding",
    }
    if all(row["rounding"] == MISSING for row in rows):
        del columns["rounding"]
    caption = f"{metric.label}: medians of the repeats, and {tried} in percent of {base}"
    return _traced_table(workloads, rows, columns, caption)


def _traced_table(
    workloads: Sequence[Cell], rows: Sequence[Mapping[str, Cell]], columns: Mapping[str, str],
    caption: str,
) -> str:  # fmt: skip
    shown: dict[str, list[Any]] = {"workload": list(workloads)}
    shown |= {name: [row[key] for row in rows] for key, name in columns.items()}
    return table(pd.DataFrame(shown), caption=caption)


def verdict(found: "Verdict", sources: Sequence[Source], everything: Sequence[Source]) -> str:
    """The box on top of the report.

    Args:
        found: the verdict.
        sources: what it was judged from.
        everything: what its limits were found in.
    """
    limits = Markup("").join(
        Markup("<li>{}</li>").format(
            traced(told(f"verdict.limit.{n}", text, everything, "verdict.judge, confounders.find"))
        )
        for n, text in enumerate(found.limits)
    )
    headline = told("verdict.headline", found.headline, sources, "verdict.judge")
    return Markup(
        '<section class="verdict {kind}" aria-label="Verdict"><p class="label">{label}</p>'
        '<p class="headline">{headline}</p><ul>{limits}</ul></section>'
    ).format(
        kind=found.label.name.lower().replace("_", "-"),
        label=found.label.value,
        headline=traced(headline),
        limits=limits,
    )


def figure(svgs: "Mapping[Theme, bytes]", alt: Cell) -> str:
    """A figure in the reader's theme, inside the page itself."""
    urls = {
        theme: "data:image/svg+xml;base64," + base64.b64encode(data).decode()
        for theme, data in svgs.items()
    }
    about = attributes(alt) if isinstance(alt, Bound) else ""
    return Markup(
        '<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        '<img src="{light}" alt="{alt}"{about}></picture></figure>'
    ).format(dark=urls["dark"], light=urls["light"],
             alt=alt.printed if isinstance(alt, Bound) else alt, about=about)  # fmt: skip
