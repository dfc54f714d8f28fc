"""Under which conditions a run was measured: all that the rules on confounders look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pandas as pd

from reproduce.plan.ladder import Gap
from reproduce.profile import Profile
from reproduce.schemas import LaunchFacts, RepeatRecord

UNDER_TEST: Final = "model-impl"
"""The one flag in which the arms are meant to differ."""
_OWN_FLAGS: Final = ("host", "port", "node-rank", "master-addr", "master-port", "headless")
"""Flags that say where a server runs, not what it does."""


@dataclass(frozen=True)
class Command:
    """How one server was started."""

    arm: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Conditions:
    """What is on file of them; what is not is empty.

    Attributes:
        profile: of the run.
        measurements: frame of :mod:`reproduce.tables`.
        records: what the harness knows of every attempt.
        launches: what every server's log shows.
        commands: how every server was started.
        disturbed: attempts on a disturbed machine, and all attempts, by arm.
        changed_files: raw files that are not as they were written.
        gaps: what launches lack because their servers failed.
        violations: audited identities that a counted result violates, one sentence each.
    """

    profile: Profile
    measurements: pd.DataFrame
    records: Sequence[RepeatRecord] = ()
    launches: Sequence[LaunchFacts] = ()
    commands: Sequence[Command] = ()
    disturbed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    changed_files: Sequence[str] = ()
    gaps: Sequence[Gap] = ()
    violations: Sequence[str] = ()

    @property
    def arms(self) -> tuple[str, str]:
        """The two arms that the verdict compares."""
        return self.profile.baseline, self.profile.candidate

    def records_of_arms(self) -> list[RepeatRecord]:
        """Attempts on the two arms."""
        return [record for record in self.records if record.slot.arm in self.arms]

    def logs(self, arm: str) -> list[LaunchFacts]:
        """Server starts of an arm."""
        return [facts for facts in self.launches if facts.arm == arm]


def serve_flags(argv: Sequence[str]) -> dict[str, str]:
    """``["serve", "m", "--tp", "2", "--no-x", "--y=1"]`` → ``{"tp": "2", "x": "off", "y": "1"}``.

    A switch that is given is "on". The model, which is no flag, is left out.
    """
    flags: dict[str, str] = {}
    for place, word in enumerate(argv):
        if not word.startswith("--"):
            continue
        name, has_value, value = word[2:].partition("=")
        name = name.replace("_", "-")
        following = argv[place + 1] if place + 1 < len(argv) else "--"
        if has_value:
            flags[name] = value
        elif name.startswith("no-"):
            flags[name.removeprefix("no-")] = "off"
        else:
            flags[name] = "on" if following.startswith("--") else following
    return flags


def differing(conditions: Conditions) -> dict[str, tuple[str, str]]:
    """Flags and environment variables that are not the same on every server of the two arms.

    Returns:
        Name → value on the baseline's first server, and the first value that differs from it.
    """
    settings = [
        {
            **{k: v for k, v in serve_flags(command.argv).items() if k not in _OWN_FLAGS},
            **command.env,
        }
        for arm in conditions.arms
        for command in conditions.commands
        if command.arm == arm
    ]
    if not settings:
        return {}
    first, *others = settings
    return {
        name: (first.get(name, "not given"), other.get(name, "not given"))
        for other in reversed(others)
        for name in dict.fromkeys([*first, *other])
        if first.get(name) != other.get(name)
    }
