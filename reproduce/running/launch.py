"""One block of the schedule as processes: its servers from start to stop, proven and questioned."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from types import TracebackType

from reproduce.engine import checkpoint, launcher, logs, reference
from reproduce.engine.agreement import ask
from reproduce.engine.model_source import ModelSource
from reproduce.engine.server import Server, ServerSpec, claim_port
from reproduce.errors import EngineError, LaunchError, WrongEngineError
from reproduce.evidence import agreement
from reproduce.outside import privacy
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import to_json, write_atomic
from reproduce.plan import ladder, vllm_contract
from reproduce.schemas import Answers, Failure, LaunchFacts

CACHE = REPO / ".cache"


class Launch:
    """The servers of one block. Use as a context manager: entering it takes until all are ready.

    Entering raises `LaunchError` when a server does not start or does not answer,
    `WrongEngineError` when it proves to be another backend, and `ConfigError` when its port is
    taken; no server stays behind then.
    """

    def __init__(self, run: RunDir, block: ladder.Block, source: ModelSource) -> None:
        self.run, self.block, self.source = run, block, source
        self.servers: dict[str, Server] = {}
        self.starts = {arm: run.next_start(arm, block.launch) for arm in block.arms}
        self._stack = ExitStack()

    def __enter__(self) -> "Launch":
        with self._stack as stack:
            stack.callback(self._keep_logs)
            for arm in self.block.arms:
                with self.blaming(arm):
                    self.servers[arm] = stack.enter_context(self._start(arm))
            self._compute_reference()
            for arm in self.block.arms:
                with self.blaming(arm):
                    self._prove(arm)
            # Only now is every server idle: an engine that compiles slows the others' answers.
            for arm in self.block.arms:
                with self.blaming(arm):
                    self._question(arm)
            self.run.log_event("ready", launch=self.block.launch)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._stack.close()

    @contextmanager
    def blaming(self, arm: str) -> Iterator[None]:
        """Keep what goes wrong with an arm's server on file, as the reason why it ended."""
        try:
            yield
        except EngineError as error:
            told, launch, start = str(error), self.block.launch, self.starts[arm]
            for log in logs.of_start(self.run.start_dir(arm, launch, start)):
                told = told.replace(str(log), str(logs.compressed_path(log)))
            problem = privacy.scrub(told.replace(f"{self.run.root}/", ""))
            failure = Failure(
                arm=arm, launch=launch, start=start, at=datetime.now(UTC), problem=problem
            )
            self._write(self._name(arm, "failure.json"), failure)
            self.run.log_event("failed", arm=arm, launch=launch, problem=problem)
            kind = WrongEngineError if isinstance(error, WrongEngineError) else LaunchError
            raise kind(told) from error

    def _name(self, arm: str, file: str) -> str:
        directory = self.run.start_dir(arm, self.block.launch, self.starts[arm])
        return (directory / file).relative_to(self.run.root).as_posix()

    def _start(self, arm: str) -> Server:
        profile = self.run.profile
        asked = profile.server.port
        if asked is not None:
            asked += self.block.arms.index(arm)
        port = claim_port(profile.server.address, asked)
        arguments, *headless = (
            vllm_contract.serve_arguments(profile, arm, self.source.name, port, rank)
            for rank in launcher.ranks(profile)
        )
        env = {
            **self.source.env,
            "VLLM_CACHE_ROOT": os.path.relpath(CACHE / "vllm", self.source.workdir),
            **vllm_contract.serve_env(profile, arm),
        }
        command: dict[str, object] = {"argv": ["vllm", *arguments], "env": env}
        if headless:
            command["headless"] = [["vllm", *others] for others in headless]
        self.run.write_raw(self._name(arm, "command.json"), privacy.scrub_bytes(to_json(command)))
        self.run.log_event("starting", arm=arm, launch=self.block.launch)
        return launcher.start(
            profile,
            ServerSpec(
                arguments=arguments,
                env=env,
                workdir=self.source.workdir,
                log=self.run.root / self._name(arm, "engine.log"),
                host=profile.server.address,
                port=port,
                model=self.source.name,
                backend=profile.arms[arm].backend,
                ready_timeout_s=profile.server.ready_timeout_s,
                headless=headless,
            ),
        )

    def _compute_reference(self) -> None:
        """Once per run, while the servers start; only for the model that is small enough."""
        if self.run.profile.model.id != checkpoint.NAME or self.run.reference() is not None:
            return
        answers = reference.compute(self.source.workdir / self.source.name, self.run.profile.seed)
        self._write(self.run.reference_path().relative_to(self.run.root).as_posix(), answers)

    def _prove(self, arm: str) -> None:
        server = self.servers[arm]
        engine = server.wait_ready()
        facts = LaunchFacts(
            arm=arm,
            launch=self.block.launch,
            start=self.starts[arm],
            ready_s=server.ready_s,
            ready_at=datetime.now(UTC),
            engine=engine,
        )
        self._write(self._name(arm, "facts.json"), facts)

    def _question(self, arm: str) -> None:
        questions = agreement.prompts(self.run.profile.seed)
        server = self.servers[arm]
        answers = ask(server.url, self.source.name, questions, server.spec.api_key)
        self._write(self._name(arm, "agreement.json"), answers)

    def _write(self, name: str, facts: Answers | Failure | LaunchFacts) -> None:
        self.run.write_raw(name, facts.model_dump_json().encode() + b"\n")

    def _keep_logs(self) -> None:
        """Compress and list the logs of servers that have ended, those of a killed run included.

        What an older version has kept as it was stays so.
        """
        for path in sorted((self.run.root / "raw").rglob("*.log")):
            plain, packed = (
                p.relative_to(self.run.root).as_posix() for p in (path, logs.compressed_path(path))
            )
            if plain in self.run.manifest.files:
                continue
            if packed not in self.run.manifest.files:
                logs.trim(path)
                data = logs.compress(privacy.scrub_bytes(path.read_bytes()))
                write_atomic(self.run.root / packed, data)
                self.run.add_raw(packed)
            path.unlink()
