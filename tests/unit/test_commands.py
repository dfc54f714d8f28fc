"""Commands to paste: the article's flags for the article's profile, the harness's own elsewhere."""

import re
import shlex

import pytest

from tests.conftest import command_line

# Section Reproduce of the article, flag by flag; None for a switch.
Flags = dict[str, str | None]
MODEL = "deepseek-ai/DeepSeek-R1-0528"
SHARED: Flags = {
    "--tensor-parallel-size": "8", "--pipeline-parallel-size": "2",
    "--enable-expert-parallel": None, "--all2all-backend": "deepep_high_throughput",
    "--nnodes": "2", "--master-addr": "$NODE0", "--master-port": "29501",
    "--no-enable-prefix-caching": None, "--gpu-memory-utilization": "0.9",
}  # fmt: skip
NODES: list[Flags] = [
    {"--node-rank": "0", "--port": "8241"},
    {"--node-rank": "1", "--headless": None},
]
ARMS: dict[str, Flags] = {
    "native": {"--model-impl": "vllm", "--trust-remote-code": None},
    "transformers": {"--model-impl": "transformers"},
}
CLIENT: Flags = {
    "--model": MODEL, "--port": "8241", "--dataset-name": "random", "--random-input-len": "1024",
    "--random-output-len": "2048", "--num-prompts": "512", "--ignore-eos": None,
    "--percentile-metrics": "ttft,tpot,itl,e2el", "--save-result": None,
}  # fmt: skip
RUNGS: dict[str, Flags] = {
    "c1": {"--max-concurrency": "1"},
    "c16": {"--max-concurrency": "16"},
    "c64": {"--max-concurrency": "64"},
    "c128": {"--max-concurrency": "128"},
    "unbounded": {},
    "long-context": {
        "--random-input-len": "8192", "--random-output-len": "1024", "--max-concurrency": "32",
        "--num-prompts": "96",
    },
}  # fmt: skip


def commands(profile: str, *arguments: str) -> list[list[str]]:
    """The printed commands as a shell would read them, without their environment."""
    done = command_line("commands", "--profile", profile, *arguments)
    assert done.returncode == 0, done.stderr
    text = done.stdout.replace("\\\n", " ")
    lines = [shlex.split(line) for line in text.splitlines() if line and line[0] != "#"]
    return [[word for word in line if not re.match(r"[A-Z_]+=", word)] for line in lines]


def flags(words: list[str]) -> Flags:
    """Flags with their values; a word that belongs to none is an error, a flag given twice too."""
    found: Flags = {}
    for word in words:
        if word.startswith("--"):
            assert word not in found
            found[word] = None
        else:
            name = list(found)[-1]
            assert found[name] is None, word
            found[name] = word
    return found


def test_the_articles_servers_flag_by_flag() -> None:
    servers = [line for line in commands("h100-2x8") if line[1] == "serve"]
    assert [line[:3] for line in servers] == [["vllm", "serve", MODEL]] * 4
    found = [flags(line[3:]) for line in servers]
    assert found == [SHARED | node | arm for arm in ARMS.values() for node in NODES]


def test_the_articles_client_flag_by_flag() -> None:
    clients = [line for line in commands("h100-2x8") if line[1] == "bench"]
    assert [line[:3] for line in clients] == [["vllm", "bench", "serve"]] * 12
    found = [flags(line[3:]) for line in clients]
    names = [flag_values.pop("--result-filename") for flag_values in found]
    assert found == [CLIENT | rung for _ in ARMS for rung in RUNGS.values()]
    assert names == [f"{arm}__{rung}.json" for arm in ARMS for rung in RUNGS]


def test_the_h200_profile_differs_in_its_topology_alone() -> None:
    across = {"--pipeline-parallel-size", "--nnodes", "--node-rank", "--master-addr",
              "--master-port"}  # fmt: skip
    servers = [flags(line[3:]) for line in commands("h200") if line[1] == "serve"]
    expected = {k: v for k, v in (SHARED | NODES[0]).items() if k not in across}
    assert servers == [expected | {"--host": "127.0.0.1"} | arm for arm in ARMS.values()]


def test_what_the_harness_adds_elsewhere_is_shown() -> None:
    move, *others = commands("cpu-slurm")
    assert move[0] == "cd"
    servers = [line for line in others if "bench" not in line]
    assert ["--headless" in line for line in servers] == [False, True] * 2
    client = next(line for line in others if "bench" in line)
    given = flags(client[client.index("--model") :])
    assert {"--host", "--seed", "--num-warmups", "--temperature", "--save-detailed"} <= set(given)


def test_resident_servers_have_a_port_each() -> None:
    servers = [line for line in commands("cpu", "-p", "server.port=8300") if "bench" not in line]
    assert [flags(line[5:])["--port"] for line in servers[1:]] == ["8300", "8301"]


def test_a_job_script_asks_for_the_profiles_nodes() -> None:
    done = command_line("slurm-script", "--profile", "h100-2x8", "-p", "slurm.hours=12")
    lines = done.stdout.splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    for option in (
        "nodes=2",
        "ntasks-per-node=1",
        "gpus-per-node=8",
        "time=720",
        "exclusive",
        "mem=0",
    ):
        assert f"#SBATCH --{option}" in lines
    assert any("--profile h100-2x8 -p slurm.hours=12" in line for line in lines)
    assert lines[-1].startswith("exec ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["slurm-script", "--profile", "cpu"], "add -p launcher=slurm"),
        (["commands", "--profile", "published"], "replays stored data"),
        (["commands", "--profile", "cpu", "-p", "topology.nodes=2"], "needs launcher: slurm"),
    ],
)
def test_what_has_no_commands_is_refused_in_one_line(arguments: list[str], words: str) -> None:
    done = command_line(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
