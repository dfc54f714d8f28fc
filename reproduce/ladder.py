"""Profile → the ordered schedule of launches and repeats; the same profile, the same order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reproduce.profile import Profile, Rung
from reproduce.schemas import Slot


@dataclass(frozen=True)
class Block:
    """Servers that are up together, and the repeats measured while they are.

    Attributes:
        launch: 1-based launch.
        arms: arms whose servers are up.
        slots: repeats in the order of measuring.
    """

    launch: int
    arms: tuple[str, ...]
    slots: tuple[Slot, ...]


def alternation(arms: Sequence[str], rounds: int, first: int) -> list[tuple[str, ...]]:
    """Arms per round so that a drift of the machine cancels: A B, B A, A B, ...

    Args:
        arms: the arms that take turns.
        rounds: how many rounds.
        first: index of the arm that opens the first round.
    """
    order = (*arms[first:], *arms[:first])
    return [order if index % 2 == 0 else order[::-1] for index in range(rounds)]


def blocks(profile: Profile) -> list[Block]:
    """The whole schedule.

    Resident: one block per launch with all arms up, each rung's repeats alternating between them.
    Sequential: one block per launch and arm, the arms' launches alternating. The opening arm is
    drawn from the profile's seed, anew for every rung and launch.
    """
    rng = np.random.Generator(np.random.PCG64(profile.seed))
    arms = tuple(profile.arms)
    schedule: list[Block] = []
    if profile.schedule == "sequential":
        rounds = alternation(arms, profile.launches, int(rng.integers(len(arms))))
        for launch, order in enumerate(rounds, 1):
            for arm in order:
                slots = tuple(
                    Slot(arm=arm, launch=launch, rung=rung.name, repeat=repeat)
                    for rung in profile.ladder
                    for repeat in range(1, profile.repeats + 1)
                )
                schedule.append(Block(launch, (arm,), slots))
        return schedule
    for launch in range(1, profile.launches + 1):
        slots = tuple(
            Slot(arm=arm, launch=launch, rung=rung.name, repeat=repeat)
            for rung in profile.ladder
            for repeat, order in enumerate(
                alternation(arms, profile.repeats, int(rng.integers(len(arms)))), 1
            )
            for arm in order
        )
        schedule.append(Block(launch, arms, slots))
    return schedule


def slots(profile: Profile) -> list[Slot]:
    """Every repeat that the profile asks for, in the order of measuring."""
    return [slot for block in blocks(profile) for slot in block.slots]


def rung_named(profile: Profile, name: str) -> Rung:
    """The profile's rung of that name."""
    return next(rung for rung in profile.ladder if rung.name == name)
