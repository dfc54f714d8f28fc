"""Result files made elsewhere → the same tables, intervals, audit and verdict as a run's own.

The files say nothing of the engines: that one set is native and the other is not is taken on trust,
and so is that both servers were started alike. What the files do say must agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from reproduce import metrics, tables
from reproduce.errors import DataError, IncomparableError
from reproduce.evidence.engine_log import Scope
from reproduce.plan import vllm_contract
from reproduce.profile import Arm, Model, Profile, Rung
from reproduce.reading.result_files import StoredResult, find_results, read_results
from reproduce.schemas import RungResult
from reproduce.stats.equivalence import Comparison
from reproduce.verdicts import confounders, verdict
from reproduce.verdicts.audit import Finding, Outcome, audit
from reproduce.verdicts.conditions import Conditions
from reproduce.verdicts.confounders import Confounder

NATIVE, TRANSFORMERS = "native", "transformers"

_IMPLS: Final = {NATIVE: "vllm", TRANSFORMERS: "transformers"}
_WORKLOAD: Final = ("max_concurrency", "request_rate", "burstiness", "num_prompts")
_SAME: Final = ("model_id", "tokenizer_id", "backend", "endpoint_type")
_MEASURED: Final = (
    "date", "label", "duration", "completed", "failed", "total_input_tokens",
    "total_output_tokens", "run_number", "rtfx", "model_impl", "model-impl",
    "trust_remote_code", "trust-remote-code",
)  # fmt: skip
_MEASURED_ENDINGS: Final = ("_ms", "_throughput", "_goodput", "_per_s", "_requests")
_FILE_KEYS: Final = {
    "prompts": "num_prompts",
    "completed": "completed",
    "input_tokens": "total_input_tokens",
    "output_tokens": "total_output_tokens",
    "total_tok_s": "total_token_throughput",
}
_MEASURED_BEGINNINGS: Final = ("spec_decode_", "diffusion_")
_SAME_LENGTH: Final = 0.02
"""Random prompts differ by this share in length, since they are cut after tokenising twice."""


@dataclass(frozen=True)
class Read:
    """One result that was read: where, by which arm, and what it says."""

    arm: str
    where: str
    data: Mapping[str, Any]
    result: RungResult


@dataclass(frozen=True)
class Compared:
    """Everything `reproduce compare` shows.

    Attributes:
        profile: what the files say of workloads and model, as a profile.
        measurements: frame of :mod:`reproduce.tables`, one row per result.
        comparison: of total token throughput.
        findings: of the audit, with the file.
        confounders: that the files show.
        verdict: on total token throughput.
    """

    profile: Profile
    measurements: pd.DataFrame
    comparison: Comparison | None
    findings: Sequence[tuple[str, Finding]]
    confounders: Sequence[Confounder]
    verdict: verdict.Verdict

    @property
    def metrics(self) -> list[str]:
        """Metrics that both arms' files have on some workload."""
        return [
            key
            for key in metrics.METRICS
            if not tables.pairs(self.measurements, self.profile, key).empty
        ]


def compare(native: str, transformers: str, margin: float) -> Compared:
    """Compare the files that two patterns name.

    Raises:
        DataError: a file is missing or not a result.
        IncomparableError: two results differ in more than the arm; the message names the key.
    """
    reads = [
        _read(arm, stored)
        for arm, pattern in ((NATIVE, native), (TRANSFORMERS, transformers))
        for path in find_results(pattern)
        for stored in read_results(path)
    ]
    for key in _SAME:
        _require_same([read for read in reads if key in read.data], key)
    for key in _extra_keys(reads):
        _require_same(reads, key)
    groups = _workloads(reads)
    rungs = [_rung(group) for group in groups]
    profile = _profile(reads[0], rungs, margin)
    frame = _measurements(groups, rungs)
    findings = [
        (read.where, finding)
        for group, rung in zip(groups, rungs, strict=True)
        for read in group
        for finding in audit(dict(read.data), output_len=_forced_length(read, rung))
    ]
    violations = [
        f"{where}: {finding.identity}: {finding.sentence}"
        for where, finding in findings
        if finding.outcome is Outcome.VIOLATED
    ]
    conditions = Conditions(profile=profile, measurements=frame, violations=violations)
    found = confounders.find(conditions)
    compared = tables.comparison(frame, profile, "total_tok_s")
    trust = "Result files do not show the engines: which classes served them is taken on trust."
    judged = verdict.judge(profile, compared, Scope(True, (), (trust,)), frame, None, found)
    limits = (*judged.limits, *_unpaired(frame), trust)
    judged = verdict.Verdict(judged.label, judged.headline, limits)
    return Compared(profile, frame, compared, findings, found, judged)


def _read(arm: str, stored: StoredResult) -> Read:
    result = vllm_contract.parse_result(stored.data, stored.where)
    for key, name in _FILE_KEYS.items():
        if getattr(result, key) is None:
            raise DataError(f"{stored.where}: {name} is missing: not a result of this kind")
    impl = stored.data.get("model_impl", stored.data.get("model-impl", _IMPLS[arm]))
    if (impl == _IMPLS[TRANSFORMERS]) != (arm == TRANSFORMERS):
        raise IncomparableError(
            f"{stored.where}: given as {arm}, but model_impl is {impl!r} in it: swap the two"
        )
    return Read(arm, stored.where, stored.data, result)


def _extra_keys(reads: Sequence[Read]) -> list[str]:
    """Settings that a sweep or ``--metadata`` wrote into the files, workload apart."""
    known = {*_WORKLOAD, *_SAME, *_MEASURED}
    return [
        key
        for key in dict.fromkeys(key for read in reads for key in read.data)
        if key not in known
        and not key.endswith(_MEASURED_ENDINGS)
        and not key.startswith(_MEASURED_BEGINNINGS)
        and not any(isinstance(read.data.get(key), list | dict) for read in reads)
        and not _varies_within_arm(reads, key)
    ]


def _varies_within_arm(reads: Sequence[Read], key: str) -> bool:
    """A key that a sweep varies is part of the workload, and shows there."""
    return any(
        len({repr(read.data.get(key)) for read in reads if read.arm == arm}) > 1
        for arm in (NATIVE, TRANSFORMERS)
    )


def _require_same(reads: Sequence[Read], key: str) -> None:
    for read in reads[1:]:
        if read.data.get(key) != reads[0].data.get(key):
            raise _incomparable(key, reads[0], read)


def _incomparable(key: str, one: Read, other: Read) -> IncomparableError:
    def side(read: Read) -> str:
        return f"{read.arm} has {read.data.get(key)!r} ({read.where})"

    return IncomparableError(
        f"not comparable, {key} differs: {side(one)}, {side(other)}: "
        "measure both alike, or name fewer files"
    )


def _workloads(reads: Sequence[Read]) -> list[list[Read]]:
    """Results of one workload together, both arms in each.

    Raises:
        IncomparableError: a workload that only one arm has; the key is that of the nearest one.
    """
    groups: list[list[Read]] = []
    for read in reads:
        home = next((group for group in groups if _difference(group[0], read) is None), None)
        if home is None:
            groups.append([read])
        else:
            home.append(read)
    for group in groups:
        if len({read.arm for read in group}) == 2:
            continue
        lonely = group[0]
        others = [read for read in reads if read.arm != lonely.arm]
        nearest = min(others, key=lambda read: len(_differences(lonely, read)))
        pair = (lonely, nearest) if lonely.arm == NATIVE else (nearest, lonely)
        raise _incomparable(_differences(lonely, nearest)[0], *pair)
    return groups


def _difference(one: Read, other: Read) -> str | None:
    return next(iter(_differences(one, other)), None)


def _differences(one: Read, other: Read) -> list[str]:
    """Keys of the workload in which two results differ; lengths within what random prompts do."""
    keys = [key for key in _WORKLOAD if one.data.get(key) != other.data.get(key)]
    for key in ("input_tokens", "output_tokens"):
        ours, theirs = getattr(one.result, key), getattr(other.result, key)
        complete = one.result.completed == other.result.completed
        if complete and abs(ours - theirs) > _SAME_LENGTH * max(ours, theirs):
            keys.append(_FILE_KEYS[key])
    return keys


def _rung(group: Sequence[Read]) -> Rung:
    result = max((read.result for read in group), key=lambda r: r.completed or 0)
    completed = result.completed or 0
    if not completed or (result.output_tokens or 0) < 2 * completed:
        raise DataError(
            f"{group[0].where}: no request generated two tokens, so there is no time per token: "
            "measure longer outputs"
        )
    inputs = max(1, round((result.input_tokens or 0) / completed))
    outputs = round((result.output_tokens or 0) / completed)
    concurrency = result.max_concurrency
    level = "unbounded" if concurrency is None else f"c{concurrency}"
    rate = group[0].data.get("request_rate", "inf")
    paced = "" if rate == "inf" else f"-rate{rate}"
    return Rung(
        name=f"{level}{paced}-{inputs}in-{outputs}out-{result.prompts}p",
        concurrency=concurrency,
        input_tokens=inputs,
        output_tokens=outputs,
        prompts=result.prompts or completed,
    )


def _forced_length(read: Read, rung: Rung) -> int | None:
    """The output length, where every request generated the same one."""
    exact = read.result.output_tokens == (read.result.completed or 0) * rung.output_tokens
    return rung.output_tokens if exact else None


def _profile(first: Read, rungs: Sequence[Rung], margin: float) -> Profile:
    return Profile(
        name="compare",
        description="Result files made elsewhere.",
        model=Model(id=first.result.model or "not named in the files"),
        arms={NATIVE: Arm(backend=NATIVE), TRANSFORMERS: Arm(backend=TRANSFORMERS)},
        ladder=tuple(rungs),
        margin=margin,
    )


def _measurements(groups: Sequence[Sequence[Read]], rungs: Sequence[Rung]) -> pd.DataFrame:
    """One row per result; within an arm and workload, repeats follow their dates.

    Which server start a file comes from is not in it, so that all count as one launch.
    """
    rows: list[dict[str, Any]] = []
    for group, rung in zip(groups, rungs, strict=True):
        for arm in (NATIVE, TRANSFORMERS):
            mine = [read for read in group if read.arm == arm]
            mine.sort(key=lambda read: str(read.data.get("date", "")))
            for repeat, read in enumerate(mine, start=1):
                reasons = _reasons(read)
                rows.append(
                    {
                        "arm": arm,
                        "launch": 1,
                        "rung": rung.name,
                        "repeat": repeat,
                        "order": len(rows),
                        "valid": not reasons,
                        "reasons": "; ".join(reasons),
                        "source": read.where,
                        **{key: getattr(read.result, key) for key in metrics.METRICS},
                        **{f"{key}_half": 0.0 for key in metrics.METRICS},
                    }
                )
    columns = [name for key in metrics.METRICS for name in (key, f"{key}_half")]
    return pd.DataFrame(rows).astype({"valid": bool, **dict.fromkeys(columns, float)})


def _unpaired(frame: pd.DataFrame) -> list[str]:
    counts = frame[frame["valid"]].groupby(["rung", "repeat"])["arm"].nunique()
    alone = int((counts < 2).sum())
    return [f"{alone} results have no partner and were left out."] if alone else []


def _reasons(read: Read) -> list[str]:
    result = read.result
    if result.completed != result.prompts or result.failed:
        return [f"{result.completed} of {result.prompts} requests completed"]
    return []
