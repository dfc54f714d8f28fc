"""A run directory's raw facts → the frames and judgements that notebooks show."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from reproduce import metrics
from reproduce.engine import logs
from reproduce.errors import DataError
from reproduce.evidence import agreement
from reproduce.evidence.agreement import Agreement, Decision
from reproduce.evidence.engine_log import Scope, parse_log, scope_of_claim, scope_of_yardstick
from reproduce.evidence.fusions import EXPECTED_FUSIONS
from reproduce.outside.memo import once, remembered
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import read_json
from reproduce.plan import ladder, vllm_contract
from reproduce.schemas import EngineFacts, LaunchFacts, RepeatRecord, RungResult


@once
def measurements(run: RunDir) -> pd.DataFrame:
    """Every repeat on file, invalid ones included; see :mod:`reproduce.tables` for the columns.

    Raises:
        DataError: a raw file is not what its kind must be.
    """
    rows = [_row(arm, launch, rung, 1, 0, result, source, 0.0)
            for arm, launch, rung, result, source in _bare_results(run)]  # fmt: skip
    for record in run.records():
        stem = run.repeat_stem(record.slot)
        result = RungResult()
        source = stem.with_name(f"{stem.name}.record.json")
        if record.result is not None:
            source = stem.with_name(record.result)
            if record.valid:
                result = _result(source)
        slot = record.slot
        name = source.relative_to(run.root).as_posix()
        row = _row(slot.arm, slot.launch, slot.rung, slot.repeat, record.order, result, name, 0.0)
        row |= {
            "start": record.start,
            "valid": record.valid,
            "disturbed": record.disturbed,
            "reasons": "; ".join(record.reasons),
        }
        if record.probes is not None:
            row |= {key: getattr(record.probes, key) for key in metrics.PROBE_COLUMNS}
        rows.append(row)
    rows += _printed_rows(run, known={(row["arm"], row["rung"]) for row in rows})
    facts = ["arm", "launch", "start", "rung", "repeat", "order", "valid", "disturbed", "reasons"]
    numbers = [
        *metrics.PROBE_COLUMNS,
        *(c for key in metrics.METRICS for c in (key, f"{key}_half")),
    ]
    frame = pd.DataFrame(rows, columns=[*facts, "source", *numbers])
    return frame.astype({"valid": bool, "disturbed": bool, **dict.fromkeys(numbers, float)})


@remembered
def _result(path: Path) -> RungResult:
    return vllm_contract.parse_result(read_json(path), str(path))


def _row(
    arm: str, launch: int, rung: str, repeat: int, order: int,
    result: RungResult, source: str, half: float,
) -> dict[str, Any]:  # fmt: skip
    row: dict[str, Any] = {
        "arm": arm, "launch": launch, "start": 1, "rung": rung, "repeat": repeat, "order": order,
        "valid": True, "disturbed": False, "reasons": "", "source": source,
    }  # fmt: skip
    for key in metrics.METRICS:
        value = getattr(result, key)
        row[key] = math.nan if value is None else value
        row[f"{key}_half"] = math.nan if value is None else half
    return row


def _bare_results(run: RunDir) -> list[tuple[str, int, str, RungResult, str]]:
    """Client results without a harness record, as published data has them."""
    found = []
    for path in sorted((run.root / "raw").glob("*/launch-*/*/rep-*.json")):
        if ".record." in path.name or ".invalid-" in path.name:
            continue
        if path.with_name(f"{path.stem}.record.json").is_file():
            continue
        rung, launch, arm = path.parent.name, path.parents[1].name, path.parents[2].name
        planned = run.profile.rung(rung)
        data = read_json(path)
        result = vllm_contract.parse_result(data, str(path))
        if reasons := vllm_contract.invalid_reasons(data, result, planned):
            raise DataError(f"{path}: {'; '.join(reasons)}")
        name = path.relative_to(run.root).as_posix()
        found.append((arm, int(launch.removeprefix("launch-")), rung, result, name))
    return found


def _printed_rows(run: RunDir, known: set[tuple[str, str]]) -> list[dict[str, Any]]:
    """Values that only a printed table gives: each is known to half a unit of its last digit."""
    path = run.root / "raw" / "table.json"
    if not path.is_file():
        return []
    rows = []
    try:
        for printed in read_json(path)["rows"]:
            for arm in (run.profile.baseline, run.profile.candidate):
                if (arm, printed["rung"]) in known:
                    continue
                row = _row(arm, 1, printed["rung"], 1, 0, RungResult(), "raw/table.json", 0.0)
                for key, text in printed[arm].items():
                    row[key] = float(text)
                    row[f"{key}_half"] = half_unit(text)
                rows.append(row)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: rows: not a printed table ({error}): restore the file") from error
    return rows


def half_unit(text: str) -> float:
    """Half a unit of a printed number's last digit: ``"139"`` → 0.5, ``"10.5"`` → 0.05."""
    _, _, decimals = text.partition(".")
    return 0.5 * 10.0 ** -len(decimals)


def printed_table(run: RunDir) -> dict[str, Any] | None:
    """A published run's printed table, as its author printed it; None for a measured run."""
    path = run.root / "raw" / "table.json"
    data: dict[str, Any] | None = read_json(path) if path.is_file() else None
    return data


@once
def engine_facts(run: RunDir) -> list[LaunchFacts]:
    """What every server start's log shows, read anew from the logs themselves."""
    facts = {(f.arm, f.launch, f.start): f for f in run.launch_facts()}
    found = []
    for place in sorted((run.root / "raw").glob("*/launch-*/start-*")):
        if not (nodes := logs.of_start(place)):
            continue
        arm, launch, start = place.parents[1].name, _index(place.parent), _index(place)
        known = facts.get((arm, launch, start))
        text = "\n".join(map(logs.read, nodes))
        found.append(
            LaunchFacts(
                arm=arm,
                launch=launch,
                start=start,
                ready_s=known.ready_s if known else None,
                engine=parse_log(text),
            )
        )
    return found


def timed(run: RunDir) -> list[tuple[RepeatRecord, float | None]]:
    """Every attempt on file and the measured seconds of its result, None where it has none."""
    return [(record, _measured_s(run, record)) for record in run.records()]


def _measured_s(run: RunDir, record: RepeatRecord) -> float | None:
    if record.result is None:
        return None
    try:
        return _result(run.repeat_stem(record.slot).with_name(record.result)).duration_s
    except DataError:  # which is why it does not count
        return None


def gaps(run: RunDir) -> list[ladder.Gap]:
    """What launches lack because a server of theirs failed."""
    return ladder.gaps(run.profile, run.records(), run.failures())


def _index(directory: Path) -> int:
    return int(directory.name.rpartition("-")[2])


def facts_of(run: RunDir, arm: str) -> EngineFacts | None:
    """The facts of an arm's first server start, None when it has no log."""
    return next((f.engine for f in engine_facts(run) if f.arm == arm), None)


@dataclass(frozen=True)
class Check:
    """Two sources of answers, compared in one launch.

    Attributes:
        launch: the launch that answered.
        first: an arm.
        second: another arm, or :data:`REFERENCE`.
        found: the comparison.
    """

    launch: int
    first: str
    second: str
    found: Agreement


REFERENCE = "the reference"


@once
def agreements(run: RunDir) -> list[Check]:
    """Every launch's answers: the baseline against the other arms, each arm against the reference.

    The reference is left out where nothing could compute it.
    """
    profile, reference = run.profile, run.reference()
    answers = {arm: run.answers(arm) for arm in profile.arms}
    others = [arm for arm in profile.arms if arm != profile.baseline]
    checks = []
    for launch in sorted({n for given in answers.values() for n in given} or {1}):
        ours = answers[profile.baseline].get(launch)
        for arm in others:
            found = agreement.compare(ours, answers[arm].get(launch))
            checks.append(Check(launch, profile.baseline, arm, found))
        if reference is not None:
            for arm in profile.arms:
                found = agreement.compare(answers[arm].get(launch), reference)
                checks.append(Check(launch, arm, REFERENCE, found))
    return checks


def agreement_table(run: RunDir) -> pd.DataFrame:
    """:func:`agreements` as a frame, one row per comparison; what is not known is NaN.

    Columns: launch, first, second, answers (the decision), equal (prompts with the same answer),
    prompts, positions (with equal context), usual and largest (difference of log-probabilities,
    in nats, that nine in ten positions stay below, and the largest).
    """
    rows = [
        {
            "launch": check.launch,
            "first": check.first,
            "second": check.second,
            "answers": check.found.decision.value,
            "equal": check.found.equal,
            "prompts": check.found.prompts,
            "positions": check.found.positions,
            "usual": check.found.usual,
            "largest": check.found.largest,
        }
        for check in agreements(run)
    ]
    return pd.DataFrame(rows).astype({"usual": float, "largest": float})


@once
def scope(run: RunDir) -> Scope:
    """Whether the run tests the claim: the right engines, and the same answers from both.

    Arms of one backend are a yardstick for noise: they must be the same engine instead.
    """
    profile = run.profile
    compared = (profile.baseline, profile.candidate)
    facts = {arm: facts_of(run, arm) for arm in compared}
    if len({profile.arms[arm].backend for arm in compared}) == 1:
        engines = scope_of_yardstick(facts)
    else:
        engines = scope_of_claim(*facts.values())
    objections, notes = list(engines.objections), list(engines.notes)
    for check in agreements(run):
        sentence = agreement.problem(check.found, check.first, check.second)
        if sentence is None:
            continue
        at_stake = {check.first, check.second} <= {*compared, REFERENCE}
        unpublished = check.found.decision is Decision.NOT_CHECKED and profile.kind == "published"
        (objections if at_stake and not unpublished else notes).append(sentence)
    return Scope(not objections, tuple(dict.fromkeys(objections)), tuple(dict.fromkeys(notes)))


def native_architecture(run: RunDir) -> str | None:
    """The native architecture that a run's model has where no native log says so.

    Published data may lack the native log; the candidate's fused classes then name the model.
    """
    facts = facts_of(run, run.profile.candidate)
    shown = {fusion.source for fusion in facts.fusions} if facts else set()
    return next(
        (
            architecture
            for architecture, expected in EXPECTED_FUSIONS.items()
            if shown & {fusion.source for fusion in expected}
        ),
        None,
    )


def commands(run: RunDir) -> dict[str, dict[str, Any]]:
    """The command and environment of each arm's first server start."""
    known = run.commands()
    first = {arm: known[arm, 1, 1] for arm in run.profile.arms if (arm, 1, 1) in known}
    return {arm: command.model_dump() for arm, command in first.items()}
