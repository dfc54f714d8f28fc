"""One vLLM server's life: start, prove ready, read its counters, end with all its workers."""

import os
import secrets
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families

from reproduce.engine import logs
from reproduce.engine.agreement import Bearer
from reproduce.engine.guard import GRACE_S
from reproduce.engine.process import GuardedProcess, ending
from reproduce.errors import ConfigError, EngineError, WrongEngineError
from reproduce.evidence.engine_log import parse_log
from reproduce.evidence.last_words import last_words
from reproduce.profile import Backend
from reproduce.schemas import EngineFacts, ServerCounters

ENGINE = (sys.executable, "-m", "reproduce.engine.vllm_main")

_POLL_S = 0.3
_REQUEST_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 15.0
_FALL_S = 2 * GRACE_S
"""How long a dying engine's guard may take to clear up and end as well."""
_LOG_TAIL_BYTES = 200_000


def free_port(host: str) -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def claim_port(host: str, port: int | None) -> int:
    """The asked-for port when it is free, any free one when none was asked for.

    Raises:
        ConfigError: the port is taken.
    """
    if port is None:
        return free_port(host)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigError(
                f"server.port: {port} on {host} is in use: free it or choose another"
            ) from error
    return port


@dataclass(frozen=True)
class ServerSpec:
    """What to start.

    Attributes:
        arguments: of the ``vllm`` command, ``serve`` first.
        env: on top of this process's environment.
        workdir: directory in which the model's name resolves.
        log: file that gets everything the engine prints, from its first byte.
        host: address it binds to.
        port: port it binds to.
        model: name that requests ask for.
        backend: what its log must prove it to be.
        ready_timeout_s: deadline from start to ready.
        headless: arguments of an engine's further nodes, if it has any.
        api_key: what every request must bring along; made anew for each start, and shown nowhere.
    """

    arguments: Sequence[str]
    env: dict[str, str]
    workdir: Path
    log: Path
    host: str
    port: int
    model: str
    backend: Backend
    ready_timeout_s: float
    headless: Sequence[Sequence[str]] = ()
    api_key: str = field(default_factory=secrets.token_urlsafe, repr=False)

    @property
    def whole_env(self) -> dict[str, str]:
        """Environment of the engine's processes; other users cannot read it, as they can argv.

        Python looks for no module in the directory that holds the model, which may be anybody's.
        """
        ours = {"VLLM_API_KEY": self.api_key, "PYTHONSAFEPATH": "1"}
        return {**os.environ, **self.env, **ours}


class Server:
    """A running engine. Use as a context manager: leaving it ends every process of the engine."""

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self.url = f"http://{spec.host}:{spec.port}"
        self.ready_s: float | None = None
        self._started = time.monotonic()
        self.processes = self._launch()

    def _launch(self) -> list[GuardedProcess]:
        """Start the engine's processes; the first is the one with the API."""
        process = GuardedProcess(
            [*ENGINE, *self.spec.arguments],
            env=self.spec.whole_env,
            workdir=self.spec.workdir,
            log=self.spec.log,
            stop_timeout_s=_STOP_TIMEOUT_S,
        )
        return [process]

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def alive(self) -> bool:
        """Whether the engine's first process is still running, on every node."""
        return self._fallen is None

    @property
    def _fallen(self) -> GuardedProcess | None:
        return next((process for process in self.processes if not process.alive), None)

    def facts(self) -> EngineFacts:
        """What the log shows so far."""
        return parse_log("\n".join(logs.read(process.log) for process in self.processes))

    def wait_ready(self) -> EngineFacts:
        """Wait until the engine is healthy, answers a completion, and proves its backend.

        Raises:
            EngineError: it exited, missed its deadline or does not answer.
            WrongEngineError: it is another backend.
        """
        deadline = self._started + self.spec.ready_timeout_s
        while not self._healthy():
            if fallen := self._fallen:
                raise EngineError(self._obituary(ending(fallen.guard.returncode)))
            if time.monotonic() > deadline:
                limit = f"{self.spec.ready_timeout_s:.0f} s"
                raise EngineError(self._obituary(f"was not ready within {limit}"))
            time.sleep(_POLL_S)
        self.check()
        facts = self.facts()
        if facts.backend != self.spec.backend:
            raise WrongEngineError(
                f"the {self.spec.backend} arm loaded {facts.architecture or 'unknown classes'} "
                f"({facts.backend or 'unknown'} backend): check its serve flags ({self.spec.log})"
            )
        self.ready_s = time.monotonic() - self._started
        return facts

    def _healthy(self) -> bool:
        try:
            return requests.get(f"{self.url}/health", timeout=5).ok
        except requests.RequestException:
            return False

    def check(self, when: str = "") -> None:
        """Have a completion answered, as proof that the engine is there and is the right one.

        Args:
            when: what was going on, for the message.

        Raises:
            EngineError: it has ended, does not answer, or answers as another model.
        """
        problem = self._unanswered()
        if problem is None and self.alive:
            return
        deadline = time.monotonic() + _FALL_S
        while self.alive and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if fallen := self._fallen:
            problem = ending(fallen.guard.returncode)
        raise EngineError(self._obituary(f"{problem} {when}".rstrip()))

    def _unanswered(self) -> str | None:
        """What is wrong with the answer to a completion; None when nothing is."""
        body = {"model": self.spec.model, "prompt": "ba", "max_tokens": 1, "temperature": 0}
        try:
            answer = requests.post(
                f"{self.url}/v1/completions",
                json=body,
                auth=Bearer(self.spec.api_key),
                timeout=_REQUEST_TIMEOUT_S,
            )
            if not answer.ok or not answer.json()["choices"]:
                return f"answered {answer.status_code}: {answer.text[:160]!r}"
            model = answer.json()["model"]
        except (requests.RequestException, ValueError, KeyError, TypeError) as error:
            return f"did not answer a completion ({type(error).__name__})"
        if model != self.spec.model:
            return f"answered as {model!r:.80}, not as {self.spec.model}"
        return None

    def counters(self) -> ServerCounters | None:
        """Counters of ``/metrics``, None when they cannot be read."""
        try:
            text = requests.get(f"{self.url}/metrics", timeout=10).text
            totals: dict[str, float] = {}
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
        except (requests.RequestException, ValueError):
            return None
        try:
            return ServerCounters(
                running=totals["vllm:num_requests_running"],
                waiting=totals["vllm:num_requests_waiting"],
                prompt_tokens=totals["vllm:prompt_tokens_total"],
                generation_tokens=totals["vllm:generation_tokens_total"],
                prefix_cache_hits=totals.get("vllm:prefix_cache_hits_total", 0.0),
            )
        except (KeyError, ValueError):
            return None

    def idle_counters(self, patience_s: float = 2.0) -> ServerCounters | None:
        """Counters once nothing is in flight; the last reading when that does not happen."""
        deadline = time.monotonic() + patience_s
        while True:
            counters = self.counters()
            busy = counters is not None and (counters.running or counters.waiting)
            if not busy or time.monotonic() > deadline:
                return counters
            time.sleep(0.05)

    def stop(self) -> None:
        """End the engine and verify that nothing of it lives.

        Raises:
            EngineError: a process survived even SIGKILL.
        """
        for process in self.processes:
            process.ask()
        for process in self.processes:
            process.stop()

    def _obituary(self, what: str) -> str:
        fallen = self._fallen or self.processes[0]
        words = last_words(_end(fallen.log))
        return f"the {self.spec.backend} server {what}: {words} ({fallen.log})"


def _end(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
        return file.read().decode(errors="replace")
