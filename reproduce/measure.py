"""The schedule carried out: servers up, rungs one at a time, every attempt on file."""

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from reproduce import ladder, vllm_contract
from reproduce.engine import client, model_source
from reproduce.engine.server import Server, ServerSpec, claim_port
from reproduce.errors import DataError, EngineError
from reproduce.provenance import REPO
from reproduce.rundir import RunDir, parse_json, to_json
from reproduce.schemas import LaunchFacts, RepeatRecord, Slot

CACHE = REPO / ".cache"
ATTEMPTS = 2


def measure(run: RunDir) -> None:
    """Measure what the profile asks for and the run does not hold yet.

    Every repeat is on file before the next one starts, so an interruption of any kind loses at
    most the one in progress.

    Raises:
        EngineError: a server does not start, proves to be another backend, or dies in a rung.
        ConfigError: the model or the port is not to be had, or the run is being measured already.
    """
    with run.writing():
        todo = {slot: None for slot in ladder.slots(run.profile) if not run.is_measured(slot)}
        run.log_event("plan", total=len(ladder.slots(run.profile)), missing=len(todo))
        if not todo:
            return
        source = model_source.resolve(run.profile.model, CACHE)
        bench = client.Client(source.workdir, source.env)
        for block in ladder.blocks(run.profile):
            slots = [slot for slot in block.slots if slot in todo]
            if slots:
                _Launch(run, block, source, bench).measure(slots)


class _Launch:
    """One block of the schedule: its servers, from start to stop."""

    def __init__(
        self,
        run: RunDir,
        block: ladder.Block,
        source: model_source.ModelSource,
        bench: client.Client,
    ) -> None:
        self.run, self.block, self.source, self.bench = run, block, source, bench
        self.servers: dict[str, Server] = {}
        self.measured = len(run.records())
        self.starts = {arm: run.next_start(arm, block.launch) for arm in block.arms}

    def measure(self, slots: Sequence[Slot]) -> None:
        with ExitStack() as stack:
            stack.callback(self._keep_logs)
            for arm in self.block.arms:
                self.servers[arm] = stack.enter_context(self._start(arm))
            for arm in self.block.arms:
                self._prove(arm)
            self.run.log_event("ready", launch=self.block.launch)
            for slot in slots:
                self._measure_slot(slot)

    def _directory(self, arm: str) -> Path:
        return self.run.start_dir(arm, self.block.launch, self.starts[arm])

    def _name(self, arm: str, file: str) -> str:
        return (self._directory(arm) / file).relative_to(self.run.root).as_posix()

    def _start(self, arm: str) -> Server:
        profile = self.run.profile
        asked = profile.server.port
        if asked is not None:
            asked += self.block.arms.index(arm)
        port = claim_port(profile.server.address, asked)
        arguments = vllm_contract.serve_arguments(profile, arm, self.source.name, port)
        env = {
            **self.source.env,
            "VLLM_CACHE_ROOT": os.path.relpath(CACHE / "vllm", self.source.workdir),
            **vllm_contract.serve_env(profile, arm),
        }
        command = {"argv": ["vllm", *arguments], "env": env}
        self.run.write_raw(self._name(arm, "command.json"), to_json(command))
        self.run.log_event("starting", arm=arm, launch=self.block.launch)
        return Server(
            ServerSpec(
                arguments=arguments,
                env=env,
                workdir=self.source.workdir,
                log=self._directory(arm) / "engine.log",
                host=profile.server.address,
                port=port,
                model=self.source.name,
                backend=profile.arms[arm].backend,
                ready_timeout_s=profile.server.ready_timeout_s,
            )
        )

    def _prove(self, arm: str) -> None:
        engine = self.servers[arm].wait_ready()
        facts = LaunchFacts(
            arm=arm,
            launch=self.block.launch,
            start=self.starts[arm],
            ready_s=self.servers[arm].ready_s,
            engine=engine,
        )
        self.run.write_raw(self._name(arm, "facts.json"), facts.model_dump_json(indent=2).encode())

    def _keep_logs(self) -> None:
        logs = [self._name(arm, "engine.log") for arm in self.servers]
        self.run.add_raw(*logs)

    def _measure_slot(self, slot: Slot) -> None:
        for _ in range(ATTEMPTS):
            record = self._attempt(slot)
            if record.valid:
                return
            if not self.servers[slot.arm].alive:
                raise EngineError(
                    f"the {slot.arm} server died in rung {slot.rung}, repeat {slot.repeat} "
                    f"({self.servers[slot.arm].spec.log})"
                )

    def _attempt(self, slot: Slot) -> RepeatRecord:
        profile = self.run.profile
        server = self.servers[slot.arm]
        rung = ladder.rung_named(profile, slot.rung)
        with tempfile.TemporaryDirectory(prefix="rung-") as scratch:
            output = Path(scratch) / "result.json"
            arguments = vllm_contract.bench_arguments(
                profile, rung, slot.repeat, self.source.name, server.spec.port, str(output)
            )
            before = server.idle_counters()
            started_at = datetime.now(UTC)
            outcome = self.bench.run(arguments, output, profile.client.rung_timeout_s)
            after = server.idle_counters()
        reasons = [outcome.problem] if outcome.problem else []
        total_tok_s = measured_s = None
        if outcome.result is not None:
            try:
                data = parse_json(outcome.result, "the client's result")
                result = vllm_contract.parse_result(data, "the client's result")
                reasons += vllm_contract.invalid_reasons(data, result, rung)
                reasons += vllm_contract.counters_reasons(before, after, result, rung)
                total_tok_s, measured_s = result.total_tok_s, result.duration_s
            except DataError as error:
                reasons.append(str(error))
        placed = ["result.json" if argument == str(output) else argument for argument in arguments]
        record = RepeatRecord(
            slot=slot,
            start=self.starts[slot.arm],
            order=self.measured,
            attempt=self.run.attempts(slot) + 1,
            valid=not reasons,
            reasons=tuple(reasons),
            result=None,
            result_sha256=None,
            started_at=started_at,
            wall_s=outcome.wall_s,
            warmups=rung.warmup_requests,
            argv=("vllm", "bench", "serve", *placed),
            before=before,
            after=after,
        )
        self.run.save_repeat(record, outcome.result)
        self.measured += 1
        self.run.log_event(
            "repeat",
            **slot.model_dump(),
            valid=record.valid,
            reasons=record.reasons,
            total_tok_s=total_tok_s,
            measured_s=measured_s,
            wall_s=round(outcome.wall_s, 3),
        )
        return record
