"""One vLLM server's life: start, prove ready, read its counters, end with all its workers."""

import os
import re
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families

from reproduce.engine.process import GuardedProcess
from reproduce.errors import ConfigError, EngineError
from reproduce.evidence import clean_lines, parse_log
from reproduce.profile import Backend
from reproduce.schemas import EngineFacts, ServerCounters

ENGINE = (sys.executable, "-m", "reproduce.engine.vllm_main")

_POLL_S = 0.3
_REQUEST_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 15.0
_LOG_TAIL_BYTES = 200_000
_TELLING = re.compile(r"error|exception|refus|fail|not found|no such|unrecognized|assert", re.I)


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
            env={**os.environ, **self.spec.env},
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
        logs = (process.log.read_text(errors="replace") for process in self.processes)
        return parse_log("\n".join(logs))

    def wait_ready(self) -> EngineFacts:
        """Wait until the engine is healthy, answers a completion, and proves its backend.

        Raises:
            EngineError: it exited, missed its deadline, does not answer, or is another backend.
        """
        deadline = self._started + self.spec.ready_timeout_s
        while not self._healthy():
            if fallen := self._fallen:
                status = fallen.guard.returncode
                raise EngineError(self._obituary(f"exited with status {status}"))
            if time.monotonic() > deadline:
                limit = f"{self.spec.ready_timeout_s:.0f} s"
                raise EngineError(self._obituary(f"was not ready within {limit}"))
            time.sleep(_POLL_S)
        self._complete_once()
        facts = self.facts()
        if facts.backend != self.spec.backend:
            raise EngineError(
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

    def _complete_once(self) -> None:
        body = {"model": self.spec.model, "prompt": "ba", "max_tokens": 1, "temperature": 0}
        try:
            answer = requests.post(
                f"{self.url}/v1/completions", json=body, timeout=_REQUEST_TIMEOUT_S
            )
            if answer.ok and answer.json()["choices"]:
                return
            problem = f"answered {answer.status_code}: {answer.text[:160]!r}"
        except (requests.RequestException, ValueError, KeyError) as error:
            problem = f"did not answer a completion ({type(error).__name__})"
        raise EngineError(self._obituary(problem))

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
        except KeyError:
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
        return f"the {self.spec.backend} server {what}: {_last_words(fallen.log)} ({fallen.log})"


def _last_words(path: Path) -> str:
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - _LOG_TAIL_BYTES))
        tail = log.read().decode(errors="replace")
    lines = [line.strip() for line in clean_lines(tail) if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    return (telling or lines or ["its log is empty"])[-1][:240]
