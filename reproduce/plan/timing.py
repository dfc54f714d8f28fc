"""Where the time of a run went, and how much of it is still to come: from what was measured."""

import statistics
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reproduce.plan import ladder
from reproduce.plan.ladder import Block
from reproduce.profile import Profile, Rung
from reproduce.schemas import LaunchFacts, RepeatRecord, Slot


@dataclass(frozen=True)
class Spent:
    """Seconds from the moment that the last of a launch's servers was ready to its last slice.

    Attributes:
        launch: 1-based launch.
        arms: whose servers were up.
        total_s: from ready to the end of the last slice.
        traffic_s: in which the client measured.
        warmup_s: in which it warmed the server up.
    """

    launch: int
    arms: tuple[str, ...]
    total_s: float
    traffic_s: float
    warmup_s: float

    @property
    def harness_s(self) -> float:
        """The rest: probes, waiting, starting clients, questions to both arms."""
        return self.total_s - self.traffic_s - self.warmup_s


def spent(
    slices: Sequence[tuple[RepeatRecord, float | None]], launches: Sequence[LaunchFacts]
) -> list[Spent]:
    """Where the time of each launch went; empty when the records do not say.

    Args:
        slices: every attempt on file, and the measured seconds of its result if it has one.
        launches: every server start on file.
    """
    ready = sorted(facts.ready_at.timestamp() for facts in launches if facts.ready_at is not None)
    groups: dict[float, list[tuple[RepeatRecord, float | None]]] = {}
    for record, traffic_s in slices:
        # All servers of a launch are ready before its first slice, and the next ones after it.
        place = bisect_right(ready, record.started_at.timestamp())
        if not place or (traffic_s is not None and record.warmup_s is None):
            return []
        groups.setdefault(ready[place - 1], []).append((record, traffic_s))
    return [_spent(begin, group) for begin, group in sorted(groups.items())]


def _spent(begin: float, group: Sequence[tuple[RepeatRecord, float | None]]) -> Spent:
    end = max(_end(record) for record, _ in group)
    return Spent(
        launch=group[0][0].slot.launch,
        arms=tuple(sorted({record.slot.arm for record, _ in group})),
        total_s=end - begin,
        traffic_s=sum(traffic_s or 0 for _, traffic_s in group),
        warmup_s=sum(record.warmup_s or 0 for record, _ in group),
    )


def _end(record: RepeatRecord) -> float:
    return record.started_at.timestamp() + record.wall_s


def left_s(
    profile: Profile,
    missing: Collection[Slot],
    records: Sequence[RepeatRecord],
    launches: Sequence[LaunchFacts],
    up: Block,
) -> float | None:
    """Seconds that the missing slots will take; None while nothing was measured.

    A slice takes the median of its rung so far and the median pause between slices. A rung that was
    not measured yet takes what the others took per decoding step. Servers take the median from
    start to ready of their arm, those of one block at once.

    Args:
        profile: the run's profile.
        missing: what is still to be measured.
        records: every attempt on file.
        launches: every server start on file.
        up: the block whose servers are up.
    """
    walls: dict[str, list[float]] = {}
    for record in records:
        walls.setdefault(record.slot.rung, []).append(record.wall_s)
    rungs = {rung.name: rung for rung in profile.ladder}
    typical = {name: statistics.median(walls[name]) for name in rungs.keys() & walls.keys()}
    if not typical:
        return None
    per_step = statistics.median(wall / _steps(rungs[name]) for name, wall in typical.items())
    pause = statistics.median(_pauses(records) or [0.0])
    slices = sum(
        typical.get(slot.rung, per_step * _steps(rungs[slot.rung])) + pause for slot in missing
    )
    return slices + sum(_start_s(block, launches) for block in _blocks(profile, missing) - {up})


def _steps(rung: Rung) -> int:
    """Decoding steps of a rung whose requests run in full waves."""
    return -(-rung.prompts // rung.in_flight) * rung.output_tokens


def _pauses(records: Sequence[RepeatRecord]) -> list[float]:
    """Seconds between the slices of one server start."""
    ordered = sorted(records, key=lambda record: record.started_at)
    return [
        later.started_at.timestamp() - _end(earlier)
        for earlier, later in pairwise(ordered)
        if (earlier.slot.launch, earlier.start) == (later.slot.launch, later.start)
    ]


def _blocks(profile: Profile, missing: Collection[Slot]) -> set[Block]:
    def of(launch: int) -> Iterator[Block]:
        arms = {slot.arm for slot in missing if slot.launch == launch}
        return (block for block in ladder.blocks(profile, launch) if arms & {*block.arms})

    return {block for launch in {slot.launch for slot in missing} for block in of(launch)}


def _start_s(block: Block, launches: Sequence[LaunchFacts]) -> float:
    known: dict[str, list[float]] = {}
    for facts in launches:
        if facts.ready_s is not None:
            known.setdefault(facts.arm, []).append(facts.ready_s)
    everything = [seconds for listed in known.values() for seconds in listed]
    return max(statistics.median(known.get(arm) or everything or [0.0]) for arm in block.arms)
