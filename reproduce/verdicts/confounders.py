"""What else could explain the result: rules over a run's conditions, each with a sentence.

A rule whose facts are not on file finds nothing: that is for the rules of evidence to say.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from reproduce import tables
from reproduce.evidence.engine_log import missing_fusions
from reproduce.handed_over import REMOTE_CODE, FlagValue, canonical
from reproduce.schemas import RepeatRecord
from reproduce.stats.trend import trends
from reproduce.verdicts.conditions import UNDER_TEST, Conditions, differing, serve_flags


class Severity(StrEnum):
    """What a confounder does to the verdict on speed."""

    BLOCKS = "withholds the verdict"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Confounder:
    """Something beside the arm under test that may have decided the result."""

    name: str
    severity: Severity
    sentence: str


Found = Iterator[tuple[Severity, str]]
Rule = Callable[[Conditions], Found]

_LOADED_BLOCKS, _LOADED_WARNS = 0.5, 0.1
_INVALID_WARNS = 0.25
_KV_BLOCKS = 0.01
"""Profiling the memory anew at each start moves the capacity by less than this."""


def find(conditions: Conditions) -> list[Confounder]:
    """Every confounder, those that withhold the verdict first."""
    found = [
        Confounder(name, severity, sentence)
        for name, rule in RULES.items()
        for severity, sentence in rule(conditions)
    ]
    order = list(Severity)
    return sorted(found, key=lambda one: order.index(one.severity))


def blocking(found: Sequence[Confounder]) -> tuple[str, ...]:
    """Sentences of those that withhold the verdict."""
    return tuple(c.sentence for c in found if c.severity is Severity.BLOCKS)


def _flags(conditions: Conditions) -> Found:
    for name, (ours, theirs) in differing(conditions).items():
        if name not in (UNDER_TEST, REMOTE_CODE):
            yield Severity.BLOCKS, f"The servers differ in {name}: {ours} against {theirs}."


def _remote_code(conditions: Conditions) -> Found:
    if trusting := _trusting(conditions):
        yield (
            Severity.NOTE,
            f"{REMOTE_CODE} is given to {' and '.join(trusting)}: code from the model's own "
            "repository may have run there.",
        )
    if REMOTE_CODE in (found := differing(conditions)):
        ours, theirs = found[REMOTE_CODE]
        yield (
            Severity.NOTE,
            f"The arms differ in {REMOTE_CODE} ({ours} against {theirs}): the native class may "
            "need it to read the model's configuration.",
        )


def _trusting(conditions: Conditions) -> list[str]:
    """Servers, and the client, that the profile or a command on file lets run the model's code."""
    profile = conditions.profile
    given: dict[str, list[Mapping[str, FlagValue]]] = {}
    for arm in conditions.arms:
        started = [serve_flags(c.argv) for c in conditions.commands if c.arm == arm]
        given[f"the {arm} server"] = [profile.server.flags, profile.arms[arm].serve, *started]
    sent = [serve_flags(record.argv) for record in conditions.records_of_arms()]
    given["the client"] = [profile.client.flags, *sent]
    return [who for who, listed in given.items() if any(map(_trusts, listed))]


def _trusts(flags: Mapping[str, FlagValue]) -> bool:
    return any(
        canonical(name) == REMOTE_CODE and value not in (False, "off")
        for name, value in flags.items()
    )


def _versions(conditions: Conditions) -> Found:
    shown = {
        f"{facts.arm}, launch {facts.launch}": facts.engine.version
        for arm in conditions.arms
        for facts in conditions.logs(arm)
        if facts.engine.version is not None
    }
    if len(set(shown.values())) > 1:
        first = next(iter(shown.items()))
        other = next(pair for pair in shown.items() if pair[1] != first[1])
        yield (
            Severity.BLOCKS,
            f"The servers run different vLLM versions: {first[0]}: {first[1]}; "
            f"{other[0]}: {other[1]}.",
        )


def _counted(conditions: Conditions, what: str, amount: Callable[[RepeatRecord], float]) -> Found:
    """A server counter that must be 0: it blocks in a repeat that counts, else it is told."""
    for valid, severity in ((True, Severity.BLOCKS), (False, Severity.WARNING)):
        hit = [r for r in conditions.records_of_arms() if r.valid is valid and amount(r) > 0]
        if hit:
            slot, total = hit[0].slot, sum(map(amount, hit))
            fate = "count" if valid else "were left out"
            yield (
                severity,
                f"{what}: {total:.0f} in {len(hit)} repeats that {fate}, first in {slot.arm}, "
                f"{slot.rung}, repeat {slot.repeat}.",
            )


def _prefix_cache(conditions: Conditions) -> Found:
    def hits(record: RepeatRecord) -> float:
        if record.before is None or record.after is None:
            return 0
        return record.after.prefix_cache_hits - record.before.prefix_cache_hits

    return _counted(conditions, "Prompt tokens came from the prefix cache", hits)


def _busy(conditions: Conditions) -> Found:
    def in_flight(record: RepeatRecord) -> float:
        return 0 if record.before is None else record.before.running + record.before.waiting

    return _counted(conditions, "The server was busy with other requests at the start", in_flight)


def _warm_ups(conditions: Conditions) -> Found:
    sent: dict[str, int] = {rung.name: rung.warmup_requests for rung in conditions.profile.ladder}
    for record in conditions.records_of_arms():
        if record.valid and record.slot.rung in sent:
            sent[record.slot.rung] = min(sent[record.slot.rung], record.warmups)
    few = {
        rung.name: (sent[rung.name], rung.in_flight)
        for rung in conditions.profile.ladder
        if sent[rung.name] < rung.in_flight
    }
    if few:
        rungs = ", ".join(f"{name} ({had} of {need})" for name, (had, need) in few.items())
        yield (
            Severity.BLOCKS,
            f"Fewer warm-ups than requests in flight, so that a cold start is measured: {rungs}.",
        )


def _loaded(conditions: Conditions) -> Found:
    for arm in conditions.arms:
        disturbed, attempts = conditions.disturbed.get(arm, (0, 0))
        if attempts and (share := disturbed / attempts) > _LOADED_WARNS:
            yield (
                Severity.BLOCKS if share > _LOADED_BLOCKS else Severity.WARNING,
                f"A loaded machine: the probe was disturbed around {disturbed} of {attempts} "
                f"attempts of the {arm} arm.",
            )


def _trend(conditions: Conditions) -> Found:
    pairs = tables.pairs(conditions.measurements, conditions.profile, "total_tok_s")
    baseline, candidate = conditions.arms
    ratio = pairs.assign(y=np.log(pairs[candidate] / pairs[baseline]))
    for rungs, percent in trends(ratio):
        severe = abs(percent) > 100 * conditions.profile.margin
        yield (
            Severity.BLOCKS if severe else Severity.WARNING,
            f"The ratio of the arms drifts over the repeats of {rungs}, by {percent:+.1f} % from "
            "the first to the last.",
        )
    for rungs, percent in trends(pairs.assign(y=np.log(pairs[baseline]))):
        yield (
            Severity.WARNING,
            f"The {baseline} arm's throughput drifts over the repeats of {rungs}, by "
            f"{percent:+.1f} %; pairs cancel what both arms share.",
        )


def _invalid(conditions: Conditions) -> Found:
    frame = conditions.measurements
    frame = frame[frame["arm"].isin(conditions.arms)]
    empty = [
        rung.name
        for rung in conditions.profile.ladder
        if not set(conditions.arms)
        <= set(frame.loc[frame["valid"] & (frame["rung"] == rung.name), "arm"])
    ]
    if empty:
        yield (
            Severity.BLOCKS,
            f"No valid repeat on both arms, so no mean over the ladder: {', '.join(empty)}.",
        )
    invalid = ~frame["valid"]
    if invalid.any():
        most = str(frame.loc[invalid, "reasons"].value_counts().index[0])
        yield (
            Severity.WARNING if invalid.mean() > _INVALID_WARNS else Severity.NOTE,
            f"{int(invalid.sum())} of {len(frame)} attempts did not count; most often: {most}.",
        )


def _gaps(conditions: Conditions) -> Found:
    for gap in conditions.gaps:
        yield (
            Severity.WARNING,
            f"Launch {gap.launch} lacks {', '.join(gap.rungs)} of {' and '.join(gap.arms)}, "
            f"after {gap.failure.start} starts: {gap.failure.problem}",
        )


def _fusions(conditions: Conditions) -> Found:
    baseline, candidate = conditions.arms
    if conditions.profile.arms[candidate].backend != "transformers":
        return
    native = [facts.engine.architecture for facts in conditions.logs(baseline)]
    missing = {
        f"{fusion.source} -> {fusion.target}"
        for facts in conditions.logs(candidate)
        for fusion in missing_fusions(facts.engine, native[0] if native else None)
    }
    if missing:
        yield (
            Severity.BLOCKS,
            f"A fusion is missing in the {candidate} arm: {'; '.join(sorted(missing))}.",
        )


def _kv_capacity(conditions: Conditions) -> Found:
    tokens = {
        arm: min(known)
        for arm in conditions.arms
        if (known := [n for f in conditions.logs(arm) if (n := f.engine.kv_tokens) is not None])
    }
    if len(tokens) == 2 and len(set(tokens.values())) == 2:
        ours, theirs = tokens.values()
        share = abs(ours - theirs) / max(ours, theirs)
        yield (
            Severity.BLOCKS if share > _KV_BLOCKS else Severity.WARNING,
            f"The KV caches differ in size: {ours:,} tokens against {theirs:,}.",
        )


def _changed_files(conditions: Conditions) -> Found:
    if changed := conditions.changed_files:
        yield (
            Severity.BLOCKS,
            f"{len(changed)} raw files are not as they were written, the first is {changed[0]}.",
        )


def _audit(conditions: Conditions) -> Found:
    if violations := conditions.violations:
        yield (
            Severity.BLOCKS,
            f"{len(violations)} identities of honest results are violated, first: {violations[0]}",
        )


RULES: Final[Mapping[str, Rule]] = {
    "flags beyond the one under test": _flags,
    "different versions": _versions,
    "prefix-cache hits": _prefix_cache,
    "too few warm-ups": _warm_ups,
    "server busy at the start": _busy,
    "loaded machine": _loaded,
    "trend over the repeats": _trend,
    "invalid rungs": _invalid,
    "failed launches": _gaps,
    "missing fusion": _fusions,
    "different KV capacity": _kv_capacity,
    "changed raw files": _changed_files,
    "results that contradict themselves": _audit,
    "remote code": _remote_code,
}
