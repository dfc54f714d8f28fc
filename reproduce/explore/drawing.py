"""Small drawings as SVG text, quick enough to follow a slider, in the colours of the page."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from reproduce.pages.figures import PALETTES
from reproduce.pages.memory_figure import bar_name, parts, requests
from reproduce.pages.memory_report import BudgetCase

_WIDTH, _LEFT, _RIGHT, _ROW = 900, 190, 120, 44
BASELINE, CANDIDATE = PALETTES["light"].baseline, PALETTES["light"].candidate


@dataclass(frozen=True)
class Line:
    """One row of a dot plot.

    Attributes:
        name: on the left.
        dots: single values.
        mark: the value that sums them up; None where there is none.
        ends: of its interval; None where it has none.
        colour: of all of it.
        told: at the right.
    """

    name: str
    dots: Sequence[float]
    mark: float | None
    ends: tuple[float, float] | None
    colour: str
    told: str


def _svg(height: float, alt: str, body: Markup) -> Markup:
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH, round(height), alt, body
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, text
    )


def budget_bars(case: BudgetCase, alt: str) -> Markup:
    """One bar per pipeline stage; a part's name and size are its tooltip and in the legend."""
    ranks = case.budget.ranks
    most = max([case.gpu.total_gib, *(sum(p.size_gib for p in parts(case, r)) for r in ranks)])
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    shapes: list[Markup] = []
    for place, rank in enumerate(ranks):
        x, y = float(_LEFT), 6 + place * _ROW
        first, second = bar_name(case, rank).split("\n")
        shapes += [_text(0, y + 13, first), _text(0, y + 28, second)]
        for part in parts(case, rank):
            width = scale * part.size_gib
            shapes.append(
                Markup(
                    '<rect x="{:.1f}" y="{}" width="{:.1f}" height="30" fill="{}" '
                    'fill-opacity="{}"><title>{}: {:.2f} GiB</title></rect>'
                ).format(x, y, width, part.colour, part.alpha, part.label, part.size_gib)
            )
            x += width
        end = _LEFT + scale * case.gpu.total_gib
        shapes.append(
            Markup('<path d="M{:.1f} {}v38" stroke="currentColor" stroke-width="2"/>').format(
                end, y - 4
            )
        )
        if place == 0:
            shapes.append(_text(end + 6, y + 19, f"{requests(case)} requests"))
    y = 24 + len(ranks) * _ROW
    for place, part in enumerate(parts(case, ranks[0])):
        x, row = _LEFT + place % 3 * 235, y + place // 3 * 18
        shapes += [
            Markup('<rect x="{}" y="{}" width="12" height="12" fill="{}" fill-opacity="{}"/>')
            .format(x, row - 10, part.colour, part.alpha),
            _text(x + 17, row, part.label),
        ]  # fmt: skip
    return _svg(y + 62, alt, Markup("").join(shapes))


def dot_plot(
    lines: Sequence[Line], unit: str, alt: str, band: tuple[float, float] | None = None
) -> Markup:
    """Rows of dots on one axis, each with its mark and interval.

    Args:
        lines: from the top down.
        unit: of the axis.
        alt: the drawing in words.
        band: a stretch of the axis to shade.
    """
    values = [v for line in lines for v in (*line.dots, *(line.ends or ()), *_known(line.mark))]
    low, high = float(min([*values, *(band or ())])), float(max([*values, *(band or ())]))
    margin = 0.04 * (high - low) or 1.0
    low, high = low - margin, high + margin
    scale = (_WIDTH - _LEFT - _RIGHT) / (high - low)

    def place(value: float) -> float:
        return _LEFT + float(scale) * (value - low)

    bottom = 8 + len(lines) * _ROW
    shapes: list[Markup] = []
    if band is not None:
        shapes.append(
            Markup('<rect x="{:.1f}" y="0" width="{:.1f}" height="{}" fill="#009e7326"/>').format(
                place(band[0]), scale * (band[1] - band[0]), bottom
            )
        )
    for row, line in enumerate(lines):
        y = 24 + row * _ROW
        shapes += [_text(0, y + 4, line.name), _text(_WIDTH - _RIGHT + 8, y + 4, line.told)]
        shapes += [
            Markup('<path d="M{:.1f} {}v16" stroke="{}" stroke-opacity=".45"/>').format(
                place(dot), y - 8, line.colour
            )
            for dot in line.dots
        ]
        if line.ends is not None:
            shapes.append(
                Markup('<path d="M{:.1f} {}H{:.1f}" stroke="currentColor" stroke-width="2"/>')
                .format(place(line.ends[0]), y, place(line.ends[1]))
            )  # fmt: skip
        if line.mark is not None:
            shapes.append(
                Markup('<circle cx="{:.1f}" cy="{}" r="5" fill="{}"/>').format(
                    place(line.mark), y, line.colour
                )
            )
    for value in (low + margin, (low + high) / 2, high - margin):
        shapes.append(_text(place(value), bottom + 16, f"{value:,.4g} {unit}", "middle"))
    return _svg(bottom + 24, alt, Markup("").join(shapes))


def _known(value: float | None) -> tuple[float, ...]:
    return () if value is None else (value,)
