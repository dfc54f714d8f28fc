"""Data → article.md, figures/ and lineage.csv; and whether the committed ones are what it gives."""

import difflib
from dataclasses import dataclass
from typing import Final

import yaml

from reproduce import tables
from reproduce.article import raw
from reproduce.article.commands import commands
from reproduce.article.memory import cases, memory
from reproduce.article.reference import reference
from reproduce.article.sections import files, published, setup, verdicts
from reproduce.article.yardstick import yardstick
from reproduce.errors import DataError
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import write_atomic
from reproduce.pages import figures, memory_figure
from reproduce.pages.lineage import Bound, Moved, moved
from reproduce.pages.lineage_table import from_csv, written
from reproduce.pages.rendering import Rendered, render
from reproduce.reading import analysis, judgement

ARTICLE: Final = "article.md"
LINEAGE: Final = "lineage.csv"
FIGURES: Final = "figures"

_TEMPLATES = REPO / "reproduce" / "templates"
_TEMPLATE = "article.md.j2"
_SHOWN = 4
"""Sources that a row of lineage.csv spells out; `reproduce trace` shows all."""


@dataclass(frozen=True)
class Difference:
    """How the committed files differ from what the data give.

    Attributes:
        moved: numbers that the data print otherwise than the committed list has them.
        files: generated files that differ, are missing or are not generated any more.
        diff: of article.md, unified.
    """

    moved: list[Moved]
    files: list[str]
    diff: str


def changed_files() -> list[str]:
    """Raw files of the kept runs that are not what their manifests say."""
    return [path for run in _kept().values() for path in raw.changed(run)]


def article() -> Rendered:
    """The article's text, with every value that it prints."""
    return _article(_kept())


def build() -> dict[str, bytes]:
    """Every generated file, by its path in the repository."""
    kept = _kept()
    rendered = _article(kept)
    return {
        ARTICLE: rendered.text.encode(),
        LINEAGE: _lineage(rendered.bounds),
        **_drawn(kept),
    }


def _kept() -> dict[str, RunDir]:
    """The article's data, the run that stands beside them, and the run of one arm twice."""
    return {name: RunDir.open(REPO / name) for name in raw.KEPT}


def _article(kept: dict[str, RunDir]) -> Rendered:
    names = yaml.safe_load((_TEMPLATES / "names.yaml").read_text("utf-8"))
    own, run = kept[raw.PUBLISHED], kept[raw.REFERENCE]
    context = {
        "setup": setup(),
        "published": published(own, analysis.measurements(own), judgement.load_article()),
        "reference": reference(run),
        "yardstick": yardstick(kept[raw.YARDSTICK]),
        "memory": memory(),
        "claims": verdicts(judgement.judged_claims(run)),
        "commands": commands(),
        "files": files(),
    }
    return render((_TEMPLATES / _TEMPLATE).read_text("utf-8"), context, names, _TEMPLATE)


def write() -> list[str]:
    """Write the generated files, remove figures that are none any more, return what was written.

    Raises:
        DataError: a raw file is not what its manifest says.
    """
    if changed := changed_files():
        raise DataError(f"{', '.join(changed)}: not what the manifest says: restore from git")
    built = build()
    for name in _stale(built):
        (REPO / name).unlink()
    for name, data in built.items():
        write_atomic(REPO / name, data)
    return list(built)


def check() -> Difference:
    """Compare the committed files with what the data give."""
    built = build()
    committed = {name: _committed(name) for name in built}
    differing = [name for name, data in built.items() if committed[name] != data]
    before, after = (
        text[ARTICLE].decode(errors="replace").splitlines(keepends=True)
        for text in (committed, built)
    )
    return Difference(
        moved=moved(_printed(committed[LINEAGE]), _printed(built[LINEAGE])),
        files=[*differing, *_stale(built)],
        diff="".join(difflib.unified_diff(before, after, ARTICLE, f"{ARTICLE} from the data")),
    )


def _committed(name: str) -> bytes:
    path = REPO / name
    return path.read_bytes() if path.is_file() else b""


def _stale(built: dict[str, bytes]) -> list[str]:
    names = (path.relative_to(REPO).as_posix() for path in sorted((REPO / FIGURES).glob("*")))
    return [name for name in names if name not in built]


def _drawn(kept: dict[str, RunDir]) -> dict[str, bytes]:
    """Each figure in both themes, as SVG and PNG."""
    drawn, budgets = {}, cases()
    for theme in figures.PALETTES:
        found = {"memory": memory_figure.budget_figure(budgets, theme)}
        for run in (kept[raw.PUBLISHED], kept[raw.REFERENCE]):
            frame, profile = analysis.measurements(run), run.profile
            table = tables.ladder_table(frame, profile, "total_tok_s")
            found[run.root.name] = figures.ladder_figure(table, frame, profile, theme)
        for name, figure in found.items():
            for kind in figures.FORMATS:
                drawn[f"{FIGURES}/{name}_{theme}.{kind}"] = figures.to_bytes(figure, kind)
    return dict(sorted(drawn.items()))


def _lineage(bounds: list[Bound]) -> bytes:
    """One row per bound value, in the article's order."""
    return written((bound, _places(bound), bound.digest) for bound in bounds)


def _places(bound: Bound) -> list[str]:
    shown = [str(source) for source in bound.sources[:_SHOWN]]
    more = len(bound.sources) - _SHOWN
    return [*shown, f"and {more} more"] if more > 0 else shown


def _printed(lineage: bytes) -> dict[str, str]:
    """What a list of numbers prints, by id."""
    return {str(row.get("id")): str(row.get("printed")) for row in from_csv(lineage)}
