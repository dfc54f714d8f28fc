"""Two runs of one plan → what changed between them: verdicts, surroundings, figures.

Versions, machine and source may differ, for that is what drift is about; what was measured may
not. A figure has moved when its two 95 % intervals have no value in common. Verdicts and figures
matter; a version that changes neither is a version to trust.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pandas as pd

from reproduce.errors import IncomparableError
from reproduce.profile import Profile
from reproduce.schemas import EngineFacts

_PLAN: dict[str, Any] = {
    **dict.fromkeys(
        ("model", "topology", "baseline", "candidate", "arms", "ladder", "schedule", "margin"), True
    ),
    "server": {"flags", "env"},
    "client": {"temperature", "flags"},
}
"""Keys of a profile that decide what a figure means."""

_ENGINE = (
    "version", "architecture", "backend", "attention_backend", "prefill_backend", "fusions",
    "custom_fusions", "compiled", "kv_tokens",
)  # fmt: skip


@dataclass(frozen=True)
class Snapshot:
    """What a run says, as far as drift looks at it.

    Attributes:
        run_id: of the run.
        profile: what was measured.
        provenance: the manifest's.
        engines: facts of each arm's first log; None where there is none.
        verdicts: the run's verdict and each claim's, by name.
        tables: :func:`reproduce.tables.ladder_table` of each metric, by its label.
    """

    run_id: str
    profile: Profile
    provenance: Mapping[str, Any]
    engines: Mapping[str, EngineFacts | None]
    verdicts: Mapping[str, str]
    tables: Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Change:
    """One fact that is not the same in both runs; "–" where a run does not have it."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Drift:
    """What changed from one run to another.

    Attributes:
        verdicts: that changed.
        surroundings: provenance and engine facts that changed.
        figures: ratios that moved beyond their intervals, appeared or vanished.
        compared: ratios that could be compared.
        unjudged: ratios that lack one in either, so that nothing can be said.
    """

    verdicts: tuple[Change, ...]
    surroundings: tuple[Change, ...]
    figures: tuple[Change, ...]
    compared: int
    unjudged: int

    @property
    def matters(self) -> bool:
        """Whether a verdict or a figure changed."""
        return bool(self.verdicts or self.figures)


def drift(before: Snapshot, after: Snapshot) -> Drift:
    """Compare two runs of one plan.

    Raises:
        IncomparableError: the runs did not measure the same; the message names the key.
    """
    _require_one_plan(before, after)
    figures = list(_figures(before, after))
    return Drift(
        verdicts=_changes(before.verdicts, after.verdicts),
        surroundings=_changes(_surroundings(before), _surroundings(after)),
        figures=tuple(figure for figure in figures if isinstance(figure, Change)),
        compared=len(figures) - figures.count(None),
        unjudged=figures.count(None),
    )


def _require_one_plan(before: Snapshot, after: Snapshot) -> None:
    plans = [
        dict(_leaves(run.profile.model_dump(mode="json", include=_PLAN))) for run in (before, after)
    ]
    for key in dict.fromkeys(chain(*plans)):
        ours, theirs = (plan.get(key, "–") for plan in plans)
        if ours != theirs:
            raise IncomparableError(
                f"{key} differs: {ours} in {before.run_id}, {theirs} in {after.run_id}: "
                "compare runs of one plan"
            )


def _leaves(data: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every value in nested plain data as text, by its dotted path."""
    if isinstance(data, Mapping):
        inner: Sequence[tuple[Any, Any]] = list(data.items())
    elif isinstance(data, list):
        inner = [(_name(entry, place), entry) for place, entry in enumerate(data)]
    else:
        yield path, str(data)
        return
    for key, value in inner:
        yield from _leaves(value, f"{path}.{key}".removeprefix("."))


def _name(entry: Any, place: int) -> str:
    return str(entry.get("name", place)) if isinstance(entry, Mapping) else str(place)


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    pairs = ((key, before.get(key, "–"), after.get(key, "–")) for key in {**before, **after})
    return tuple(Change(key, ours, theirs) for key, ours, theirs in pairs if ours != theirs)


def _surroundings(run: Snapshot) -> dict[str, str]:
    facts = dict(_leaves(run.provenance))
    for arm, engine in run.engines.items():
        for name in _ENGINE if engine is not None else ():
            facts[f"engine.{arm}.{name}"] = _say(name, getattr(engine, name))
    return facts


def _say(name: str, value: Any) -> str:
    if value is None or value == ():
        return "–"
    if name == "fusions":
        return ", ".join(sorted(f"{fusion.source} -> {fusion.target}" for fusion in value))
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _figures(before: Snapshot, after: Snapshot) -> Iterator[Change | bool | None]:
    """Per ratio that either run has: a change, False for none, or None where it cannot be said."""
    for label, table in before.tables.items():
        rows = zip(table.to_dict("records"), after.tables[label].to_dict("records"), strict=True)
        for ours, theirs in rows:
            known = [not pd.isna(row["percent"]) for row in (ours, theirs)]
            if not any(known):
                continue
            change = Change(f"{label}, {ours['workload']}", _ratio(ours), _ratio(theirs))
            if not all(known):
                yield change
            elif any(pd.isna(row[end]) for row in (ours, theirs) for end in ("low", "high")):
                yield None
            else:
                apart = ours["high"] < theirs["low"] or theirs["high"] < ours["low"]
                yield change if apart else False


def _ratio(row: Mapping[Any, Any]) -> str:
    if pd.isna(row["percent"]):
        return "–"
    text = f"{row['percent']:.1f} %"
    return text if pd.isna(row["low"]) else f"{text} ({row['low']:.1f} to {row['high']:.1f})"
