"""Commands that make, look at and rebuild runs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml
from rich.table import Table

from reproduce.errors import ConfigError
from reproduce.outside import profile_store
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from reproduce.outside.terminal import PlainConsole, say

if TYPE_CHECKING:
    from reproduce.doctor.checks import Check
    from reproduce.profile import Profile

# pandas, scipy, matplotlib and nbconvert take seconds to import: commands that need them import
# them themselves, so that the others, and every complaint about a typing error, are quick.

ProfileName = Annotated[str, typer.Option("--profile", help="A profile's name, or a YAML file.")]
Overrides = Annotated[
    list[str] | None, typer.Option("-p", metavar="KEY=VALUE", help="Override a key of the profile.")
]
RUNS = REPO / "runs"
RunsDirectory = Annotated[Path, typer.Option("--runs", help="Where run directories are made.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands to ``app``."""
    app.command()(run)
    app.command()(profiles)
    app.command()(doctor)
    app.command()(report)


def run(
    profile: ProfileName = "cpu",
    override: Overrides = None,
    resume: Annotated[
        Path | None, typer.Option(help="A run directory to go on with, instead of a new one.")
    ] = None,
    runs: RunsDirectory = RUNS,
) -> None:
    """Measure both arms and render the report; the last line is its path."""
    from reproduce import doctor as checkup

    directory = None
    if resume is not None:
        if override:
            raise ConfigError("--resume: a run goes on with its own profile; leave -p out")
        directory = RunDir.open(resume)
        chosen = directory.profile
        if chosen.kind == "measured":
            # Who cannot have it now should learn so before anything starts.
            with directory.writing():
                pass
        checkup.require(chosen, resume)
    else:
        chosen = profile_store.load(profile, profile_store.parse_overrides(override or ()))
        chosen = _without_compiler(chosen, checkup.require(chosen, runs))
    if chosen.launcher == "slurm":
        from reproduce.engine import slurm

        slurm.enter(chosen, [sys.executable, "-P", "-m", "reproduce", *sys.argv[1:]])

    from reproduce.running import pipeline
    from reproduce.running.progress import Follower

    directory = directory or pipeline.create(chosen, runs)
    console = PlainConsole()
    console.print(f"run {_shown(directory.root)}", soft_wrap=True)
    try:
        with Follower(directory, console) as follower:
            path = pipeline.execute(directory, follower.say)
    except KeyboardInterrupt:
        say(f"interrupted; `reproduce run --resume {_shown(directory.root)}` goes on", err=True)
        raise
    say(_shown(path))


def _without_compiler(profile: "Profile", checks: "list[Check]") -> "Profile":
    """Eager where torch.compile cannot work; the report says so."""
    if all(check.state == "ok" for check in checks if check.name == "compiler"):
        return profile
    flags = {**profile.server.flags, "enforce-eager": True}
    return profile.model_copy(update={"server": profile.server.model_copy(update={"flags": flags})})


def _shown(path: Path) -> str:
    """A path as the user would type it from here."""
    absolute = path.resolve()
    here = Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)


def profiles(
    name: Annotated[str | None, typer.Argument(help="Show this profile, resolved.")] = None,
    override: Overrides = None,
) -> None:
    """List the profiles, or show one with everything it inherits."""
    if name is not None:
        chosen = profile_store.load(name, profile_store.parse_overrides(override or ()))
        data = chosen.model_dump(mode="json")
        say(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)
        return
    for known in profile_store.names():
        say(f"{known:12} {profile_store.load(known).description}")


def doctor(
    profile: ProfileName = "cpu", override: Overrides = None, runs: RunsDirectory = RUNS
) -> None:
    """Say what a run of the profile would lack on this machine; exit 1 when it cannot start."""
    from reproduce import doctor as checkup

    chosen = profile_store.load(profile, profile_store.parse_overrides(override or ()))
    checks = checkup.examine(chosen, runs)
    table = Table(box=None, pad_edge=False)
    for heading in ("check", "state", "found"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        table.add_row(check.name, check.state, check.found)
    PlainConsole().print(table)
    if any(check.state == "fail" for check in checks):
        raise typer.Exit(1)


def report(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    pdf: Annotated[
        bool, typer.Option("--pdf", help="Print the report to report.pdf as well, with Chromium.")
    ] = False,
) -> None:
    """Rebuild tables, figures and report from a run's raw files; nothing is measured."""
    from reproduce.outside import pdf as printer
    from reproduce.running import pipeline
    from reproduce.running.progress import Follower

    directory = RunDir.open(run)
    if pdf:
        printer.browser()
    with Follower(directory, PlainConsole()) as follower:
        path = pipeline.execute(directory, follower.say, measuring=False)
    say(_shown(path))
    if pdf:
        say(_shown(printer.render(path)))
        pipeline.describe(directory)
