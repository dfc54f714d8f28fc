"""The schedule carried out: launches, rounds, slices, every attempt on file."""

import math
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import pandas as pd

from reproduce import analysis, disturbance, ladder, privacy, tables, vllm_contract
from reproduce.engine import client, model_source
from reproduce.engine.probe import Probe
from reproduce.errors import DataError, EngineError
from reproduce.launch import CACHE, Launch
from reproduce.profile import Rung
from reproduce.rundir import RunDir, parse_json
from reproduce.schemas import Probes, RepeatRecord, RungResult, ServerCounters, Slot
from reproduce.stopping import Action

PRIMARY = "total_tok_s"
"""The metric whose intervals the precision target is about: the article's tok/s."""
_CALIBRATION_PROBES = 3
_PAUSE_S = 0.5
_PATIENCE_S = 30.0
"""How long a round waits for a quiet machine: about as long as disturbances were seen to last."""


def measure(run: RunDir) -> None:
    """Measure what the profile asks for and the run does not hold yet.

    Every round is on file before the next one starts, so an interruption of any kind loses at
    most the one in progress. What is on file stays; the plan is made anew from it.

    Raises:
        EngineError: a server does not start, proves to be another backend, or dies in a rung.
        ConfigError: the model or the port is not to be had, or the run is being measured already.
    """
    with run.writing():
        _Session(run).measure()


@dataclass(frozen=True)
class _Slice:
    """One slice as measured, before it is known whether its round counts."""

    record: RepeatRecord
    output: bytes | None
    result: RungResult


class _Session:
    """One call of :func:`measure`: from what is on file to as much as the profile asks."""

    def __init__(self, run: RunDir) -> None:
        self.run, self.profile = run, run.profile
        limit = self.profile.time_limit_s
        self._deadline = math.inf if limit is None else time.monotonic() + limit
        records = run.records()
        self._order = len(records)
        self._counted_now = 0
        self._announced: int | None = None
        self._probes_ms = [
            ms for r in records if r.probes for ms in (r.probes.before_ms, r.probes.after_ms)
        ]

    @cached_property
    def _source(self) -> model_source.ModelSource:
        return model_source.resolve(self.profile.model, CACHE)

    @cached_property
    def _bench(self) -> client.Client:
        return client.Client(self._source.workdir, self._source.env)

    @cached_property
    def _probe(self) -> Probe:
        return Probe()

    @property
    def _late(self) -> bool:
        return time.monotonic() > self._deadline

    def _pairs(self) -> pd.DataFrame:
        return tables.pairs(analysis.measurements(self.run), self.profile, PRIMARY)

    def measure(self) -> None:
        launch = max((record.slot.launch for record in self.run.records()), default=1)
        while True:
            for block in ladder.blocks(self.profile, launch):
                self._measure_block(block)
            step = ladder.after_launch(self.profile, self._pairs(), launch)
            last = launch >= ladder.precision(self.profile).max_launches
            if step.action is Action.STOP or last or self._late:
                reason = "the time limit is reached" if self._late else step.reason
                self.run.log_event("stopped", launch=launch, reason=reason, too_wide=step.rungs)
                return
            launch += 1

    def _due(self, block: ladder.Block, spent: Counter[str]) -> list[ladder.Round]:
        if self._late:
            return []
        records = self.run.records()
        due = ladder.due_rounds(self.profile, block, records, self._pairs(), spent)
        self._announce({r.slot for r in records if r.valid}, due)
        return due

    def _announce(self, counted: set[Slot], due: list[ladder.Round]) -> None:
        """Tell a front end how many repeats this session will have measured in the end."""
        planned = {*ladder.slots(self.profile), *(slot for r in due for slot in r)}
        missing = self._counted_now + len(planned - counted)
        if missing != self._announced:
            self._announced = missing
            self.run.log_event("plan", total=len(planned | counted), missing=missing)

    def _measure_block(self, block: ladder.Block) -> None:
        spent: Counter[str] = Counter()
        due = self._due(block, spent)
        if not due:
            return
        # The client's import goes on while the servers start.
        bench = self._bench
        with Launch(self.run, block, self._source) as launch:
            self._probes_ms.append(self._probe.settled_ms())
            self._probes_ms += [self._probe.time_ms() for _ in range(_CALIBRATION_PROBES)]
            while due:
                for slots in due:
                    if self._late:
                        return
                    self._measure_round(launch, bench, slots)
                    spent[slots[0].rung] += 1
                due = self._due(block, spent)

    def _measure_round(self, launch: Launch, bench: client.Client, slots: ladder.Round) -> None:
        """Measure the slots back to back; they count together or not at all."""
        self._wait_for_quiet()
        slices = []
        for slot in slots:
            slices.append(self._measure_slice(launch, bench, slot))
            if not launch.servers[slot.arm].alive:
                break
        failed = [s.record.slot.arm for s in slices if not s.record.valid]
        for each in slices:
            record = each.record
            if failed and record.valid:
                reason = f"{ladder.WITH_PARTNER} {' and '.join(failed)}"
                record = record.model_copy(update={"valid": False, "reasons": (reason,)})
            # What counts is kept to the byte; what failed may hold a traceback's paths.
            kept = each.output
            if kept is not None and not record.valid:
                kept = privacy.scrub_bytes(kept)
            self.run.save_repeat(record, kept)
            self._counted_now += record.valid
            self.run.log_event(
                "repeat",
                **record.slot.model_dump(),
                valid=record.valid,
                reasons=record.reasons,
                total_tok_s=each.result.total_tok_s,
                measured_s=each.result.duration_s,
                wall_s=round(record.wall_s, 3),
            )
        for slot in slots:
            if not launch.servers[slot.arm].alive:
                raise EngineError(
                    f"the {slot.arm} server died in rung {slot.rung}, repeat {slot.repeat} "
                    f"({launch.servers[slot.arm].spec.log})"
                )

    def _wait_for_quiet(self) -> None:
        """Let a disturbance pass; when it does not, the round is measured and marked."""
        patience = time.monotonic() + _PATIENCE_S
        quiet_ms = disturbance.quiet_level(self._probes_ms)
        while time.monotonic() < patience:
            now_ms = self._probe.time_ms()
            if not disturbance.is_disturbed(now_ms, now_ms, quiet_ms):
                return
            time.sleep(_PAUSE_S)

    def _measure_slice(self, launch: Launch, bench: client.Client, slot: Slot) -> _Slice:
        server = launch.servers[slot.arm]
        rung = self.profile.rung(slot.rung)
        with tempfile.TemporaryDirectory(prefix="rung-") as scratch:
            output = Path(scratch) / "result.json"
            arguments = vllm_contract.bench_arguments(
                self.profile, rung, slot.repeat, self._source.name, server.spec.port, str(output)
            )
            before = server.idle_counters()
            probe_before_ms = self._probe.time_ms()
            started_at = datetime.now(UTC)
            outcome = bench.run(arguments, output, self.profile.client.rung_timeout_s)
            after = server.idle_counters()
            probes = self._judge_machine(probe_before_ms)
        reasons, result = _judge_result(outcome, before, after, rung)
        if probes.disturbed:
            reasons.append(
                f"disturbed machine: the probe took {probes.before_ms:.1f} ms before and "
                f"{probes.after_ms:.1f} ms after, {probes.quiet_ms:.1f} ms when quiet"
            )
        placed = ["result.json" if argument == str(output) else argument for argument in arguments]
        record = RepeatRecord(
            slot=slot,
            start=launch.starts[slot.arm],
            order=self._order,
            attempt=self.run.attempts(slot) + 1,
            valid=not reasons,
            reasons=tuple(map(privacy.scrub, reasons)),
            result=None,
            result_sha256=None,
            started_at=started_at,
            wall_s=outcome.wall_s,
            warmup_s=outcome.warmup_s,
            warmups=rung.warmup_requests,
            argv=("vllm", "bench", "serve", *placed),
            before=before,
            after=after,
            probes=probes,
        )
        self._order += 1
        return _Slice(record, outcome.result, result)

    def _judge_machine(self, before_ms: float) -> Probes:
        after_ms = self._probe.settled_ms()
        self._probes_ms += [before_ms, after_ms]
        quiet_ms = disturbance.quiet_level(self._probes_ms)
        return Probes(
            before_ms=before_ms,
            after_ms=after_ms,
            quiet_ms=quiet_ms,
            disturbed=disturbance.is_disturbed(before_ms, after_ms, quiet_ms),
        )


def _judge_result(
    outcome: client.ClientRun,
    before: ServerCounters | None,
    after: ServerCounters | None,
    rung: Rung,
) -> tuple[list[str], RungResult]:
    """Why a slice's result does not count, and what it says."""
    if outcome.result is None:
        return [outcome.problem or "the client gave no result"], RungResult()
    try:
        data = parse_json(outcome.result, "the client's result")
        result = vllm_contract.parse_result(data, "the client's result")
    except DataError as error:
        return [str(error)], RungResult()
    reasons = vllm_contract.invalid_reasons(data, result, rung)
    reasons += vllm_contract.counters_reasons(before, after, result, rung)
    return reasons, result
