"""The commands `article` and `trace`: the article from its data, and a number back to its file."""

from pathlib import Path
from typing import Annotated

import typer

from reproduce.errors import ConfigError, DataError


def register(app: typer.Typer) -> None:
    """Add this module's commands to ``app``."""
    app.command()(article)
    app.command()(trace)


def article(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 when a file would change.")
    ] = False,
) -> None:
    """Rebuild article.md, figures/ and lineage.csv from the data."""
    from reproduce.article import build

    if check:
        _check()
        return
    for name in build.write():
        typer.echo(name)


def _check() -> None:
    """Name raw files and numbers that are not what they were, show the difference."""
    from reproduce.article import build

    changed = build.changed_files()
    for name in changed:
        typer.echo(f"changed: {name} is not what its manifest says")
    try:
        found = build.check()
    except DataError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    for one in found.moved:
        typer.echo(f"moved: {one.id}: {one.old or 'not printed'} -> {one.new or 'not printed'}")
    for name in found.files:
        typer.echo(f"differs: {name}")
    typer.echo(found.diff, nl=False)
    if found.files or changed:
        raise typer.Exit(1)
    typer.echo("article.md, figures/ and lineage.csv are what the data give")


def trace(
    number: Annotated[str, typer.Argument(help="As the page prints it: 99.6")],
    run: Annotated[
        Path | None, typer.Option(help="A run directory: look in its report.html instead.")
    ] = None,
) -> None:
    """Where a number of the article, or of a run's report, comes from.

    File, digest, place in the file, reduction, unit, rounding.
    """
    if run is not None:
        _trace_report(number, run)
        return
    from reproduce.article import build
    from reproduce.pages.lineage import printing

    rendered = build.article()
    found = printing(number, rendered.bounds)
    if not found:
        raise ConfigError(
            f"'{number}' is not in {build.ARTICLE}; {build.LINEAGE} lists every number"
        )
    for bound in found:
        typer.echo(f"{build.ARTICLE}, line {rendered.lines[bound]}: {bound.printed}")
        typer.echo(f"  id         {bound.id}")
        for source in bound.sources:
            typer.echo(f"  from       {source.path}  {source.sha256[:12]}  {source.pointer or '/'}")
        typer.echo(f"  reduction  {bound.reduction}")
        typer.echo(f"  unit       {bound.unit or 'none'}")
        typer.echo(f"  rounding   {bound.rounding}\n")


def _trace_report(number: str, run: Path) -> None:
    from reproduce.pages.lineage import prints
    from reproduce.pages.lineage_table import NAME, from_csv

    path = run / "tables" / NAME
    if not path.is_file():
        raise ConfigError(f"{path}: missing: `reproduce report {run}` writes it")
    found = [row for row in from_csv(path.read_bytes()) if prints(number, row["printed"])]
    if not found:
        raise ConfigError(f"'{number}' is not in {run}/report.html; {path} lists every number")
    for row in found:
        typer.echo(f"report.html: {row['printed']}")
        typer.echo(f"  id         {row['id']}")
        for place in row["sources"].split("; "):
            typer.echo(f"  from       {place}")
        typer.echo(f"  sha256     {row['sha256']}")
        typer.echo(f"  reduction  {row['reduction']}")
        typer.echo(f"  unit       {row['unit'] or 'none'}")
        typer.echo(f"  rounding   {row['rounding']}\n")
