"""A server's life, with a scripted stand-in for the faults that the real engine does not show."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from reproduce.engine import server as server_module
from reproduce.engine.guard import group_members
from reproduce.engine.server import Server, ServerSpec, claim_port, free_port
from reproduce.errors import ConfigError, EngineError

STAND_IN = Path(__file__).parents[1] / "fakes" / "engine.py"


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerSpec:
    """A spec whose engine is the stand-in; its behaviour is chosen in the environment."""
    monkeypatch.setattr(server_module, "ENGINE", [sys.executable, "-I", "-S", str(STAND_IN)])
    monkeypatch.setattr(server_module, "_FALL_S", 0.5)
    port = free_port("127.0.0.1")
    return ServerSpec(
        arguments=["serve", "m", "--port", str(port)], env={}, workdir=tmp_path,
        log=tmp_path / "engine.log", host="127.0.0.1", port=port, model="m", backend="native",
        ready_timeout_s=20,
    )  # fmt: skip


def start(spec: ServerSpec, behaviour: str, **changes: object) -> Server:
    values = {**spec.__dict__, "env": {"STAND_IN": behaviour}, **changes}
    return Server(ServerSpec(**values))


def test_ready_is_proven(spec: ServerSpec) -> None:
    with start(spec, "") as server:
        assert server.wait_ready().backend == "native"
        assert server.ready_s is not None
        counters = server.counters()
        assert counters is not None
        assert (counters.running, counters.prompt_tokens) == (0, 0)
        pgid = server.processes[0].pgid
    assert pgid is not None
    assert group_members(pgid) == []


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("crash", "exited with status 3: ValueError: no such model"),
        ("wrong-backend", "loaded TransformersMoEForCausalLM"),
        ("silent", "loaded unknown classes"),
        ("errors", "answered 500"),
        ("garbage", "did not answer a completion"),
    ],
)
def test_a_server_that_is_not_ready_says_why(spec: ServerSpec, behaviour: str, words: str) -> None:
    with start(spec, behaviour) as server:
        with pytest.raises(EngineError) as caught:
            server.wait_ready()
        pgid = server.processes[0].pgid
    assert words in str(caught.value)
    assert str(spec.log) in str(caught.value)
    assert pgid is not None
    assert group_members(pgid) == []


def test_a_server_that_hangs_meets_its_deadline(spec: ServerSpec) -> None:
    began = time.monotonic()
    with (
        start(spec, "hang", ready_timeout_s=2) as server,
        pytest.raises(EngineError, match="not ready within 2 s"),
    ):
        server.wait_ready()
    assert time.monotonic() - began < 30


def test_nothing_is_imported_from_where_the_model_lies(spec: ServerSpec) -> None:
    (spec.workdir / "reproduce").mkdir()
    (spec.workdir / "reproduce" / "__init__.py").write_text("raise SystemExit(9)\n")
    with start(spec, "") as server:
        assert server.wait_ready().backend == "native"


def test_metrics_that_cannot_be_read_are_none(spec: ServerSpec) -> None:
    with start(spec, "no-metrics") as server:
        server.wait_ready()
        assert server.counters() is None


def test_stop_ends_the_engine_even_without_its_guard(spec: ServerSpec) -> None:
    server = start(spec, "")
    server.wait_ready()
    os.kill(server.processes[0].guard.pid, signal.SIGKILL)
    server.stop()
    assert server.processes[0].pgid is not None
    assert group_members(server.processes[0].pgid) == []
    assert not server.alive


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"server.port: {port}"):
            claim_port("127.0.0.1", port)
    assert claim_port("127.0.0.1", port) == port
