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

from reproduce import tables
from reproduce.engine import client, model_source
from reproduce.engine.probe import Probe
from reproduce.errors import DataError, EngineError, LaunchError
from reproduce.outside import privacy
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import parse_json
from reproduce.plan import ladder, timing, vllm_contract
from reproduce.profile import Rung
from reproduce.reading import analysis
from reproduce.running.launch import CACHE, Launch
from reproduce.schemas import Probes, RepeatRecord, RungResult, ServerCounters, Slot
from reproduce.stats import disturbance
from reproduce.stats.stopping import Action

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
        EngineError: a server does not start, proves to be another backend, dies or stops
            answering in a rung, or nothing that it answered to a rung counts.
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
        self._missing: set[Slot] = set()
        self._failed: LaunchError | None = None
        self._given_up: set[ladder.Block] = set()
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
        for earlier in sorted({f.launch for f in self.run.failures() if f.launch < launch}):
            self._measure_launch(earlier)
        while True:
            self._measure_launch(launch)
            step = ladder.after_launch(self.profile, self._pairs(), launch)
            last = launch >= ladder.precision(self.profile).max_launches
            if step.action is Action.STOP or last or self._late:
                reason = "the time limit is reached" if self._late else step.reason
                self.run.log_event("stopped", launch=launch, reason=reason, too_wide=step.rungs)
                break
            launch += 1
        if self._failed is not None:
            begun = {record.slot.launch for record in self.run.records() if record.valid}
            if not begun - {gap.launch for gap in analysis.gaps(self.run)}:
                raise self._failed
        if problem := ladder.fruitless(self.profile, self.run.records()):
            raise EngineError(problem)

    def _due(self, block: ladder.Block, spent: Counter[str]) -> list[ladder.Round]:
        if self._late:
            return []
        records = self.run.records()
        due = ladder.due_rounds(self.profile, block, records, self._pairs(), spent)
        self._announce({r.slot for r in records if r.valid}, due)
        return due

    def _announce(self, counted: set[Slot], due: list[ladder.Round]) -> None:
        """Tell a front end how many repeats this session will have measured in the end."""
        lost = {(block.launch, arm) for block in self._given_up for arm in block.arms}
        planned = {s for s in ladder.slots(self.profile) if (s.launch, s.arm) not in lost}
        planned.update(slot for slots in due for slot in slots)
        self._missing = planned - counted
        missing = self._counted_now + len(self._missing)
        if missing != self._announced:
            self._announced = missing
            self.run.log_event("plan", total=len(planned | counted), missing=missing)

    def _measure_launch(self, launch: int) -> None:
        for block in ladder.blocks(self.profile, launch):
            self._measure_block(block)

    def _measure_block(self, block: ladder.Block) -> None:
        """Measure with a block's servers; when one fails, start them again, ever later.

        What is still missing after the last try is a gap: its reason is on file, the run goes on.
        """
        asked = self.profile.server
        for number in range(asked.retries + 1):
            try:
                self._measure_once(block)
            except LaunchError as error:
                self._failed = error
                if number == asked.retries or self._late:
                    self._given_up.add(block)
                    return
                wait_s = asked.retry_wait_s * 2**number
                self.run.log_event("retry", launch=block.launch, wait_s=wait_s)
                time.sleep(wait_s)
            else:
                return

    def _measure_once(self, block: ladder.Block) -> None:
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
            if record.valid:
                self._missing.discard(record.slot)
            self.run.log_event(
                "repeat",
                **record.slot.model_dump(),
                valid=record.valid,
                reasons=record.reasons,
                total_tok_s=each.result.total_tok_s,
                measured_s=each.result.duration_s,
                wall_s=round(record.wall_s, 3),
            )
        self._estimate(launch.block)
        for slot in slots:
            server = launch.servers[slot.arm]
            if slot.arm in failed or not server.alive:
                with launch.blaming(slot.arm):
                    server.check(f"in rung {slot.rung}, repeat {slot.repeat}")

    def _estimate(self, up: ladder.Block) -> None:
        """Tell a front end how long the rest will take."""
        records, launches = self.run.records(), self.run.launch_facts()
        seconds = timing.left_s(self.profile, self._missing, records, launches, up)
        if seconds is not None:
            self.run.log_event("left", seconds=round(seconds))

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
            outcome = bench.run(
                arguments, output, self.profile.client.rung_timeout_s, server.spec.api_key
            )
            after = server.idle_counters()
        reasons, result = _judge_result(outcome, before, after, rung)
        probes = self._judge_machine(probe_before_ms, _worked_until(outcome, result))
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

    def _judge_machine(self, before_ms: float, worked_until: float | None) -> Probes:
        after_ms = self._probe.settled_ms(worked_until)
        self._probes_ms += [before_ms, after_ms]
        quiet_ms = disturbance.quiet_level(self._probes_ms)
        return Probes(
            before_ms=before_ms,
            after_ms=after_ms,
            quiet_ms=quiet_ms,
            disturbed=disturbance.is_disturbed(before_ms, after_ms, quiet_ms),
        )


def _worked_until(outcome: client.ClientRun, result: RungResult) -> float | None:
    """When the engine gave its last token, on the monotonic clock; None where nothing says so."""
    if outcome.measured_at is None or result.duration_s is None:
        return None
    return outcome.measured_at + result.duration_s


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
