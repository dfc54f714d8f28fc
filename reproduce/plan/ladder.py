"""Profile → what to measure next; the same profile and the same facts, the same answer.

A *round* is one repeat of one rung on every arm that is up, back to back: the unit that counts or
is measured again as a whole, so that the slices of a pair always alternate within seconds. The
rounds of a launch go around the ladder (every rung once, then every rung again), which spreads a
rung's repeats over minutes: an episode of half a minute then meets one repeat of a rung, not all.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from reproduce.profile import Profile
from reproduce.schemas import Failure, RepeatRecord, Slot
from reproduce.stats.stopping import Action, Precision, Step, next_step


@dataclass(frozen=True)
class Block:
    """Servers that are up together.

    Attributes:
        launch: 1-based launch.
        arms: arms whose servers are up.
    """

    launch: int
    arms: tuple[str, ...]


Round = tuple[Slot, ...]

WITH_PARTNER = "measured again together with"
"""How the reason begins of a slice that was fine itself, in a round that does not count."""


def alternation(arms: Sequence[str], number: int, first: int) -> tuple[str, ...]:
    """The arms of the ``number``-th round, so that a drift cancels: A B, B A, A B, ...

    Args:
        arms: the arms that take turns.
        number: 1-based round.
        first: index of the arm that opens the first round.
    """
    order = (*arms[first:], *arms[:first])
    return order if number % 2 else order[::-1]


def _first(profile: Profile, *key: int) -> int:
    """Index of the arm that opens, drawn from the profile's seed for this place of the plan."""
    seed = np.random.SeedSequence([profile.seed, *key])
    return int(np.random.Generator(np.random.PCG64(seed)).integers(len(profile.arms)))


def blocks(profile: Profile, launch: int) -> list[Block]:
    """Which servers a launch brings up, one block after the other.

    Resident: all of them together. Sequential: one at a time, the arms' launches alternating.
    """
    arms = tuple(profile.arms)
    if profile.schedule == "resident":
        return [Block(launch, arms)]
    return [Block(launch, (arm,)) for arm in alternation(arms, launch, _first(profile))]


def round_of(profile: Profile, block: Block, rung: str, repeat: int) -> Round:
    """One repeat of one rung on the block's arms, in the order of measuring.

    The opening arm is drawn anew for every rung and launch and alternates over the repeats.
    """
    place = [r.name for r in profile.ladder].index(rung)
    order = alternation(tuple(profile.arms), repeat, _first(profile, block.launch, place))
    return tuple(
        Slot(arm=arm, launch=block.launch, rung=rung, repeat=repeat)
        for arm in order
        if arm in block.arms
    )


def precision(profile: Profile) -> Precision:
    """The stopping rule's target; a fixed plan is one that any width satisfies."""
    if profile.precision is None:
        launches, repeats = profile.launches, profile.repeats
        return Precision(math.inf, launches, launches, repeats, repeats)
    return Precision(**profile.precision.model_dump())


def planned_launches(profile: Profile) -> int | None:
    """Launches that were fixed before any look at the width; None when all of them were."""
    return None if profile.precision is None else profile.precision.min_launches


def slots(profile: Profile) -> list[Slot]:
    """Every repeat that the profile asks for whatever the widths turn out to be."""
    target = precision(profile)
    return [
        slot
        for launch in range(1, target.min_launches + 1)
        for block in blocks(profile, launch)
        for repeat in range(1, target.min_repeats + 1)
        for rung in profile.ladder
        for slot in round_of(profile, block, rung.name, repeat)
    ]


def due_rounds(
    profile: Profile,
    block: Block,
    records: Iterable[RepeatRecord],
    pairs: pd.DataFrame,
    spent: Counter[str],
) -> list[Round]:
    """The next turn around the ladder while a block's servers are up; empty when it is done.

    Args:
        profile: the run's profile.
        block: the servers that are up.
        records: every attempt on file.
        pairs: the pairs that count so far, as :func:`reproduce.tables.pairs` makes them.
        spent: attempts that these servers have made, by rung. A rung gets no more than it may
            have repeats, plus the planned ones once over: a machine that is never quiet, or an
            engine that always fails, is not measured forever.
    """
    target = precision(profile)
    if profile.schedule == "resident":
        step = _step(profile, pairs, block.launch, running=True)
        rungs = step.rungs if step.action is Action.REPEAT else ()
    else:
        rungs = tuple(rung.name for rung in profile.ladder)
    counted = {record.slot for record in records if record.valid}
    due = []
    for rung in rungs:
        if spent[rung] >= target.max_repeats + target.min_repeats:
            continue
        for repeat in range(1, target.max_repeats + 1):
            slots = round_of(profile, block, rung, repeat)
            if not counted.issuperset(slots):
                due.append(slots)
                break
    return due


@dataclass(frozen=True)
class Gap:
    """What a launch lacks because a server of it failed.

    Attributes:
        launch: 1-based launch.
        arms: whose slices are missing: all that were to be up together.
        rungs: with fewer repeats than planned.
        failure: why.
    """

    launch: int
    arms: tuple[str, ...]
    rungs: tuple[str, ...]
    failure: Failure


def gaps(
    profile: Profile, records: Iterable[RepeatRecord], failures: Iterable[Failure]
) -> list[Gap]:
    """What failures have left unmeasured.

    Args:
        profile: the run's profile.
        records: every attempt on file.
        failures: those of the latest start of an arm in a launch; an earlier one was made good.
    """
    counted = {record.slot for record in records if record.valid}
    planned = range(1, precision(profile).min_repeats + 1)
    found = []
    for failure in failures:
        for block in blocks(profile, failure.launch):
            rungs = tuple(
                rung.name
                for rung in profile.ladder
                if not all(
                    counted.issuperset(round_of(profile, block, rung.name, repeat))
                    for repeat in planned
                )
            )
            if failure.arm in block.arms and rungs:
                found.append(Gap(failure.launch, block.arms, rungs, failure))
    return found


def fruitless(profile: Profile, records: Iterable[RepeatRecord]) -> str | None:
    """The rung that was tried and never answered as it must be, with the reason; usually None.

    A rung that a restless machine alone keeps from counting is none.
    """
    attempts = list(records)
    for rung in profile.ladder:
        tried = [r for r in attempts if r.slot.rung == rung.name]
        told = [
            x for r in tried if not r.disturbed for x in r.reasons if not x.startswith(WITH_PARTNER)
        ]
        if told and not any(r.valid for r in tried):
            return f"rung {rung.name}: none of {len(tried)} attempts counts: {told[-1]}"
    return None


def after_launch(profile: Profile, pairs: pd.DataFrame, launch: int) -> Step:
    """Whether another launch follows, and why.

    Args:
        profile: the run's profile.
        pairs: the pairs that count so far, of all launches.
        launch: the launch that has just ended.
    """
    step = _step(profile, pairs, launch, running=False)
    if step.action is Action.STOP and profile.precision is None:
        return Step(Action.STOP, (), "the planned launches are measured")
    return step


def _step(profile: Profile, pairs: pd.DataFrame, launch: int, *, running: bool) -> Step:
    return next_step(
        pairs,
        [rung.name for rung in profile.ladder],
        precision(profile),
        launch=launch,
        running=running,
        baseline=profile.baseline,
        candidate=profile.candidate,
    )
