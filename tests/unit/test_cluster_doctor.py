"""What the doctor finds on a cluster, with Slurm's and the nodes' answers made up."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reproduce import doctor
from reproduce.doctor import plan
from reproduce.engine import launcher, slurm
from reproduce.errors import ConfigError, EngineError
from reproduce.outside import profile_store, provenance
from reproduce.profile import Profile

ARTICLE = profile_store.load("h100-2x8")
VERSIONS = {"python": "3.11.9", "vllm": "0.32.0", "torch": "2.13.0", "transformers": "5.19.0"}
NODE: dict[str, Any] = {
    "versions": VERSIONS, "gpus": [[78.9, 79.2]] * 8, "memory_gib": 900.0, "model_lacks": None,
    "shared": True,
}  # fmt: skip


class Cluster:
    """A cluster that answers; tests change its answers."""

    def __init__(self) -> None:
        self.nodes = [{**copy.deepcopy(NODE), "node": name} for name in ("n1", "n2")]
        self.left = "2-00:00:00"
        self.rows = "n1 gpu:h100:8(S:0-1)\nn2 gpu:h100:8(S:0-1)\nn3 (null)\n"

    def __call__(self, *command: str, **_: object) -> str:
        if command[0] == "scontrol":
            return "n1\nn2\n" if command[2] == "hostnames" else "NodeName=n1 NodeAddr=10.0.0.1 X=1"
        return {
            "squeue": self.left,
            "srun": "".join(json.dumps(node) + "\n" for node in reversed(self.nodes)),
            "sinfo": self.rows,
        }[command[0]]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Inside an allocation of two nodes where all is well."""
    made = Cluster()
    monkeypatch.setattr(provenance, "compiler", lambda: "/usr/bin/g++")
    monkeypatch.setattr(provenance, "engine_version", lambda: "0.32.0")
    monkeypatch.setattr(slurm, "ask_slurm", made)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    return made


def states(profile: Profile, runs: Path) -> dict[str, tuple[str, str]]:
    found = doctor.examine(profile, runs)
    return {check.name: (check.state, check.found) for check in found}


def test_a_cluster_where_all_is_well(cluster: Cluster, tmp_path: Path) -> None:
    found = states(ARTICLE, tmp_path)
    assert {state for state, _ in found.values()} == {"ok"}
    assert "8 on every node" in found["gpus"][1]
    assert found["nodes"][1] == "n1, n2"


def few_nodes(cluster: Cluster) -> None:
    del cluster.nodes[1]


def other_torch(cluster: Cluster) -> None:
    cluster.nodes[1]["versions"]["torch"] = "2.12.0"


def no_engine(cluster: Cluster) -> None:
    for node in cluster.nodes:
        node["versions"] = {"python": "3.11.9"}


def few_gpus(cluster: Cluster) -> None:
    del cluster.nodes[0]["gpus"][0]


def busy_gpu(cluster: Cluster) -> None:
    cluster.nodes[1]["gpus"][3] = [12.0, 79.2]


def no_model(cluster: Cluster) -> None:
    cluster.nodes[1]["model_lacks"] = "3 of 163 weight files"


def not_shared(cluster: Cluster) -> None:
    cluster.nodes[1]["shared"] = False


def ends_soon(cluster: Cluster) -> None:
    cluster.left = "59:00"


@pytest.mark.parametrize(
    ("change", "name", "words", "fix"),
    [
        (few_nodes, "nodes", "2 wanted, the job has 1", "--nodes=2"),
        (other_torch, "versions", "torch is 2.13.0 on n1 and 2.12.0 on n2", "the same lock"),
        (no_engine, "versions", "vLLM is not installed", "install the gpu extra"),
        (few_gpus, "gpus", "n1 shows 7, 8 wanted", "--gpus-per-node=8"),
        (busy_gpu, "gpus", "GPU 3 of n2 has 12.0 of 79.2 GiB free", "end what holds the rest"),
        (no_model, "model", "n2 lacks 3 of 163 weight files", "HF_HOME"),
        (not_shared, "shared", "n2 does not see", "--runs"),
        (ends_soon, "time", "time limit 59 min, but the longest rung takes 3.", "slurm.hours"),
    ],
)
def test_each_fault_is_one_line_with_its_fix(
    cluster: Cluster, tmp_path: Path, change: Callable[[Cluster], None], name: str, words: str,
    fix: str,
) -> None:  # fmt: skip
    change(cluster)
    found = states(ARTICLE, tmp_path)
    assert [key for key, (state, _) in found.items() if state == "fail"] == [name]
    assert words in found[name][1]
    assert fix in found[name][1]
    assert "\n" not in found[name][1]


def test_an_allocation_that_ends_before_the_plan_does_is_noted(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.left = "12:00:00"
    state, found = states(ARTICLE, tmp_path)["time"]
    assert state == "note"
    assert found == (
        "about 24.4 h of measuring, time limit 12.0 h: --resume goes on in another allocation"
    )


def test_no_rates_give_no_estimate(tmp_path: Path) -> None:
    assert plan.estimates_s(profile_store.load("cpu-slurm"), tmp_path) is None


def test_a_topology_that_does_not_fit_is_refused_by_the_memory_model() -> None:
    data_parallel = {"topology.tp": 1, "topology.pp": 1, "topology.dp": 16}
    check = plan.budget(profile_store.load("h100-2x8", data_parallel))
    assert check.state == "fail"
    assert "does not fit" in check.found
    assert "reproduce plan" in check.found


def test_from_outside_the_cluster_is_asked_for_its_nodes(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID")
    assert states(ARTICLE, tmp_path)["nodes"] == (
        "ok", "2 in the cluster with 8 GPUs, 2 wanted",
    )  # fmt: skip
    cluster.rows = "n1 gpu:8\nn2 gpu:a100:4\n"
    state, found = states(ARTICLE, tmp_path)["nodes"]
    assert state == "fail"
    assert "2 nodes with 8 GPUs wanted, the cluster has 1" in found


def test_an_engine_of_two_nodes_wants_an_allocation_of_two(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = [rank for rank in launcher.ranks(ARTICLE) if rank is not None]
    assert [(rank.rank, rank.nodes, rank.address) for rank in ranks] == [
        (0, 2, "10.0.0.1"), (1, 2, "10.0.0.1"),
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="ask for --nodes=3"):
        launcher.ranks(profile_store.load("h100-2x8", {"topology.nodes": 3}))
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(ConfigError, match="no Slurm job"):
        launcher.ranks(ARTICLE)


def test_slurm_that_does_not_answer_is_one_line() -> None:
    with pytest.raises(EngineError, match="is not installed"):
        slurm.ask_slurm("no-such-command-of-slurm")
    with pytest.raises(EngineError, match="bad news: check that Slurm runs"):
        slurm.ask_slurm("sh", "-c", "echo detail >&2; echo bad news >&2; exit 1")


def test_steps_get_the_whole_environment_but_slurms_own_options() -> None:
    env = {"PATH": "/bin", "SLURM_NTASKS": "1", "SLURM_JOB_ID": "7", "SLURM_CONF": "/c",
           "SRUN_CPUS_PER_TASK": "2", "SALLOC_PARTITION": "p"}  # fmt: skip
    assert slurm.step_env(env) == {
        "PATH": "/bin", "SLURM_JOB_ID": "7", "SLURM_CONF": "/c", "SALLOC_PARTITION": "p",
    }  # fmt: skip
