"""What explore.ipynb calls: one function per explorer, each returning a widget to turn.

Everything that takes longer than a blink is read once and remembered.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipywidgets
import pandas as pd
from markupsafe import Markup

from reproduce import tables
from reproduce.errors import DataError
from reproduce.notebook import RUNS
from reproduce.outside.memo import remembered
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from reproduce.reading import analysis

KEPT = (REPO / "data" / "reference", REPO / "data" / "published")
"""Runs that come with the repository."""

_STYLE = Markup(
    "<style>.rp table { border-collapse: collapse; font-variant-numeric: tabular-nums; }"
    ".rp th, .rp td { padding: .15rem .6rem; text-align: left; vertical-align: top;"
    " border-bottom: 1px solid var(--jp-border-color2, #d0d7de); }"
    ".rp .num { text-align: right; } .rp caption { text-align: left; padding: .4rem 0; }"
    ".rp svg { width: 100%; max-width: 60rem; height: auto; font: 12px sans-serif; }"
    ".rp svg text { fill: currentColor; } .rp { line-height: 1.5; }</style>"
)


def known_runs(runs: Path = RUNS) -> tuple[dict[str, Path], str]:
    """Run directories by name, newest first, the kept ones last; and a word on what is missing.

    A directory that cannot be read is left out, and named.
    """
    made, unreadable = {}, []
    for manifest in sorted(runs.glob("*/manifest.json"), reverse=True):
        try:
            RunDir.open(manifest.parent)
        except DataError:
            unreadable.append(manifest.parent.name)
        else:
            made[manifest.parent.name] = manifest.parent
    kept = {f"kept: {root.name}": root for root in KEPT if (root / "manifest.json").is_file()}
    notes = []
    if not made:
        notes.append(
            "Nothing has been measured here yet, so this is data that comes with the repository. "
            "`reproduce run --profile cpu` measures on this machine."
        )
    if unreadable:
        notes.append(f"Not readable, and left out: {', '.join(unreadable)}.")
    return {**made, **kept}, " ".join(notes)


@remembered
def opened(root: Path) -> RunDir:
    """A run directory."""
    return RunDir.open(root)


@remembered
def measurements(root: Path) -> pd.DataFrame:
    """Its repeats; see :mod:`reproduce.tables`."""
    return analysis.measurements(opened(root))


@remembered
def ladder_table(root: Path, metric: str) -> pd.DataFrame:
    """Its table of one metric; see :func:`reproduce.tables.ladder_table`."""
    return tables.ladder_table(measurements(root), opened(root).profile, metric)


def explorer(
    controls: dict[str, ipywidgets.Widget], show: Callable[..., str], note: str = ""
) -> ipywidgets.Widget:
    """Controls above a page that follows them.

    Args:
        controls: by the name of the argument that gets their value.
        show: values → HTML, already escaped.
        note: a sentence on top, where there is something to say.
    """
    page = ipywidgets.HTML()

    def update(_: Any = None) -> None:
        values = {name: control.value for name, control in controls.items()}
        page.value = _STYLE + Markup('<div class="rp">{}</div>').format(show(**values))

    for control in controls.values():
        control.observe(update, names="value")
    update()
    box = ipywidgets.HBox(list(controls.values()), layout={"flex_flow": "row wrap"})
    words = [ipywidgets.HTML(Markup("<p>{}</p>").format(note))] if note else []
    return ipywidgets.VBox([*words, box, page])
