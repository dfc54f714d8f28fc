"""kill -9 of each kind of process in real engines, in the middle of a rung."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from reproduce.engine import checkpoint, model_source
from reproduce.engine.client import Client
from reproduce.engine.guard import group_members
from reproduce.engine.server import Server
from reproduce.errors import EngineError
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.plan import ladder, vllm_contract
from reproduce.profile import Rung
from reproduce.running.launch import CACHE, Launch
from tests.engine.conftest import ORPHAN_LIMIT_S
from tests.waiting import wait_for

pytestmark = pytest.mark.engine

ARMS = ("server", "core", "worker")
TITLES = {"core": "VLLM::EngineCore", "worker": "VLLM::Worker"}


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    """Three real engines, each an arm that will lose another process."""
    native = {"backend": "native", "serve": {"model-impl": "vllm"}}
    profile = profile_store.load(
        "smoke",
        {
            # By path, so that no reference is computed for it.
            "model.id": str(checkpoint.ensure(CACHE / "checkpoints")),
            "arms": dict.fromkeys(ARMS, native),
            "baseline": "server",
            "candidate": "core",
            "ladder": [{"name": "long", "concurrency": 2, "input_tokens": 32,
                        "output_tokens": 2000, "prompts": 2, "warmups": 0}],
        },
    )  # fmt: skip
    run = RunDir.create(tmp_path_factory.mktemp("fallen") / "run", profile, {})
    source = model_source.resolve(profile.model, CACHE)
    with run.writing(), Launch(run, ladder.blocks(profile, 1)[0], source) as made:
        yield made


@pytest.fixture(scope="module")
def client(launch: Launch) -> Client:
    return Client(launch.source.workdir, launch.source.env)


def victim(server: Server, arm: str) -> psutil.Process:
    pgid = server.processes[0].pgid
    assert pgid is not None
    if arm == "server":
        return psutil.Process(pgid)
    return next(p for p in group_members(pgid) if p.cmdline()[0].startswith(TITLES[arm]))


def is_working(server: Server) -> bool:
    counters = server.counters()
    return counters is not None and counters.running == 2


def reasons(data: dict[str, Any], rung: Rung) -> list[str]:
    return vllm_contract.invalid_reasons(data, vllm_contract.parse_result(data, ""), rung)


@pytest.mark.parametrize("arm", ARMS)
def test_one_process_is_killed_in_a_rung(
    launch: Launch, client: Client, arm: str, tmp_path: Path
) -> None:
    profile, server = launch.run.profile, launch.servers[arm]
    output = tmp_path / "result.json"
    arguments = vllm_contract.bench_arguments(
        profile, profile.ladder[0], 1, launch.source.name, server.spec.port, str(output)
    )
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(client.run, arguments, output, 120, server.spec.api_key)
        wait_for(lambda: is_working(server), 60, "the rung did not begin")
        victim(server, arm).kill()
        outcome = going.result()
    # The client takes a stream that breaks off for a request that is complete.
    assert outcome.result is None or reasons(json.loads(outcome.result), profile.ladder[0])
    with pytest.raises(EngineError, match=r"the native server (exited|was killed).* in the rung"):
        server.check("in the rung")
    pgid = server.processes[0].pgid
    assert pgid is not None
    wait_for(lambda: not group_members(pgid), ORPHAN_LIMIT_S, "processes are left")
    others = ARMS[ARMS.index(arm) + 1 :]
    assert all(launch.servers[other].alive for other in others)
