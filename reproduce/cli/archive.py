"""Commands on runs that are already there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from reproduce.outside.rundir import RunDir
from reproduce.outside.terminal import PlainConsole, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reproduce.verdicts.drift import Change, Snapshot


def register(app: typer.Typer) -> None:
    """Add this module's commands to ``app``."""
    app.command()(diff)


def diff(
    run_a: Annotated[Path, typer.Argument(help="The earlier run directory.")],
    run_b: Annotated[Path, typer.Argument(help="The later run directory.")],
) -> None:
    """What changed between two runs of one plan; exit 1 when a verdict or a figure did."""
    from reproduce.verdicts.drift import drift

    before, after = RunDir.open(run_a), RunDir.open(run_b)
    found = drift(_snapshot(before), _snapshot(after))
    names = (before.manifest.run_id, after.manifest.run_id)
    _print("verdicts", found.verdicts, names)
    _print("figures, candidate in percent of baseline", found.figures, names)
    _print("versions, machine, source, engines", found.surroundings, names)
    unjudged = f"; {found.unjudged} lack an interval" if found.unjudged else ""
    say(
        f"{len(found.verdicts)} verdicts changed; {len(found.figures)} figures moved beyond their "
        f"intervals, of {found.compared} compared{unjudged}"
    )
    if found.matters:
        raise typer.Exit(1)


def _snapshot(run: RunDir) -> "Snapshot":
    from reproduce import metrics, tables
    from reproduce.reading import analysis, judgement
    from reproduce.verdicts.drift import Snapshot

    frame = analysis.measurements(run)
    claims = judgement.claims_frame(run)
    return Snapshot(
        run_id=run.manifest.run_id,
        profile=run.profile,
        provenance=run.manifest.provenance,
        engines={arm: analysis.facts_of(run, arm) for arm in run.profile.arms},
        verdicts={
            "speed": judgement.verdict_of(run).label.value,
            **{
                f"claim {claim}": verdict
                for claim, verdict in zip(claims["claim"], claims["verdict"], strict=True)
            },
        },
        tables={
            metric.label: tables.ladder_table(frame, run.profile, key)
            for key, metric in metrics.METRICS.items()
        },
    )


def _print(title: str, changes: "Sequence[Change]", names: tuple[str, str]) -> None:
    if not changes:
        return
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for heading in ("what", *names):
        table.add_column(heading, overflow="fold")
    for change in changes:
        table.add_row(change.what, change.before, change.after)
    PlainConsole().print(table)
