"""Commands that judge: result files by themselves, two sets of them, and a run."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from reproduce import audit as auditor
from reproduce import display_claims, judgement
from reproduce.audit import Finding, Outcome
from reproduce.result_files import read_results
from reproduce.rundir import RunDir

_SHOWN = (Outcome.VIOLATED, Outcome.NOTE)


def register(app: typer.Typer) -> None:
    """Add this module's commands to ``app``."""
    app.command()(claims)
    app.command()(audit)


def claims(run: Annotated[Path, typer.Argument(help="A run directory.")]) -> None:
    """Judge every claim of the article on a run; data/published is the article's own."""
    frame = judgement.claims_frame(RunDir.open(run))
    table = Table(box=None, pad_edge=False)
    for heading in ("the article says", "verdict", "found", "its own data"):
        table.add_column(heading, overflow="fold")
    for row in frame.to_dict("records"):
        found = f"{row['found']}. {row['note']}" if row["note"] else row["found"]
        table.add_row(row["statement"], row["verdict"], found, row["article's own data"])
    Console(markup=False).print(table)
    typer.echo(display_claims.summary(frame))


def audit(
    files: Annotated[list[Path], typer.Argument(help="Results of `vllm bench serve`.")],
    input_len: Annotated[
        int | None, typer.Option(min=1, help="Tokens requested per prompt.")
    ] = None,
    output_len: Annotated[
        int | None, typer.Option(min=1, help="Tokens every request had to generate.")
    ] = None,
) -> None:
    """Check the identities that an honest result satisfies; exit 1 when one is violated."""
    violated = False
    for path in files:
        for result in read_results(path):
            findings = auditor.audit(result.data, input_len=input_len, output_len=output_len)
            violated |= any(finding.outcome is Outcome.VIOLATED for finding in findings)
            for line in audit_lines(result.where, findings):
                typer.echo(line)
    if violated:
        raise typer.Exit(1)


def audit_lines(where: str, findings: list[Finding]) -> list[str]:
    """A heading with the counts, what does not hold, and in one line what cannot be checked."""
    counts = Counter(finding.outcome for finding in findings)
    lines = [f"{where}: " + ", ".join(f"{counts[o]} {o.value}" for o in Outcome if counts[o])]
    lines += [
        f"  {outcome.value:9}{finding.identity}: {finding.sentence}"
        for outcome in _SHOWN
        for finding in findings
        if finding.outcome is outcome
    ]
    checkable = {f.identity for f in findings if f.outcome is not Outcome.NOT_CHECKABLE}
    unknown = dict.fromkeys(
        f"{f.identity} of {f.subject}" if f.identity in checkable else f.identity
        for f in findings
        if f.outcome is Outcome.NOT_CHECKABLE
    )
    if unknown:
        lines.append(f"  not checkable from this file: {', '.join(unknown)}")
    return lines
