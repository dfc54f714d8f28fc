"""Commands that judge: result files by themselves, two sets of them, and a run."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from reproduce import metrics, tables
from reproduce.outside.rundir import RunDir
from reproduce.outside.terminal import PlainConsole, say
from reproduce.pages import display_claims
from reproduce.pages.display import number
from reproduce.reading import compare as comparing
from reproduce.reading import judgement
from reproduce.reading.result_files import read_results
from reproduce.verdicts import audit as auditor
from reproduce.verdicts.audit import Finding, Outcome

_SHOWN = (Outcome.VIOLATED, Outcome.NOTE)


def register(app: typer.Typer) -> None:
    """Add this module's commands to ``app``."""
    app.command()(claims)
    app.command()(audit)
    app.command()(compare)


def claims(run: Annotated[Path, typer.Argument(help="A run directory.")]) -> None:
    """Judge every claim of the article on a run; data/published is the article's own."""
    judged = judgement.judged_claims(RunDir.open(run))
    table = Table(box=None, pad_edge=False)
    for heading in ("the article says", "verdict", "found", "its own data"):
        table.add_column(heading, overflow="fold")
    for one in judged:
        answer = one.answer
        found = f"{answer.found}. {answer.note}" if answer.note else answer.found
        table.add_row(one.claim.statement, answer.standing.value, found, one.consistency.value)
    PlainConsole().print(table)
    say(display_claims.summary(judged))


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
                say(line)
    if violated:
        raise typer.Exit(1)


def audit_lines(where: str, findings: list[Finding]) -> list[str]:
    """A heading with the counts, what does not hold, and in one line what cannot be checked."""
    lines = [f"{where}: {_counts(findings)}"]
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


def _counts(findings: list[Finding]) -> str:
    counts = Counter(finding.outcome for finding in findings)
    return ", ".join(f"{counts[o]} {o.value}" for o in Outcome if counts[o])


def compare(
    native: Annotated[str, typer.Option(help="Files or folders of the native arm; quote a glob.")],
    transformers: Annotated[
        str, typer.Option(help="Files or folders of the Transformers arm; quote a glob.")
    ],
    margin: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Margin of equivalence, as a share.")
    ] = 0.03,
) -> None:
    """Compare results made elsewhere; exit 1 when a file contradicts itself."""
    found = comparing.compare(native, transformers, margin)
    console = PlainConsole()
    for metric in found.metrics:
        console.print(_metric_table(found, metric))
    for where, finding in found.findings:
        if finding.outcome in _SHOWN:
            say(f"{where}: {finding.outcome.value} {finding.identity}: {finding.sentence}")
    say(f"audit: {_counts([finding for _, finding in found.findings])}")
    for confounder in found.confounders:
        say(f"{confounder.severity.value}: {confounder.name}: {confounder.sentence}")
    say(f"verdict: {found.verdict.label.value}. {found.verdict.headline}")
    for limit in found.verdict.limits:
        say(f"  {limit}")
    if any(finding.outcome is Outcome.VIOLATED for _, finding in found.findings):
        raise typer.Exit(1)


def _metric_table(found: comparing.Compared, key: str) -> Table:
    metric = metrics.METRICS[key]
    table = Table(box=None, pad_edge=False, title=f"{metric.label} ({metric.unit})")
    table.add_column("workload", overflow="fold")
    for heading in ("native", "transformers", "% of native", "95 % interval", "pairs"):
        table.add_column(heading, justify="right")
    for row in tables.ladder_table(found.measurements, found.profile, key).to_dict("records"):
        ends = [number(row[end], 1) for end in ("low", "high")]
        table.add_row(
            row["workload"],
            *(number(row[arm], metric.digits) for arm in ("native", "transformers")),
            number(row["percent"], 1),
            " to ".join(dict.fromkeys(ends)),
            number(row["pairs"], 0),
        )
    return table
