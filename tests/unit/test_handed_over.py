"""What a profile may hand to a process: the shell, the loader and the disk are not its business."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from reproduce.engine import model_source
from reproduce.errors import ConfigError, DataError
from reproduce.handed_over import SECRET_NAME
from reproduce.outside import profile_store
from reproduce.plan import vllm_contract
from reproduce.profile import Model
from tests.conftest import command_line

HOSTILE = "a'b\"c $(touch pwned) `touch pwned` ; touch pwned & | > pwned \\ \n*~ #é"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("server.flags.config", "mine.yaml", "hide flags"),
        ("server.flags.confi", "mine.yaml", "hide flags"),
        ("server.flags.api-key", "x", "a secret does not belong"),
        ("server.flags.hf_token", "x", "a secret does not belong"),
        ("arms.native.serve.worker_cls", "os.system", "not vLLM's"),
        ("arms.native.serve.middlew", "os.system", "not vLLM's"),
        ("arms.native.serve.trust-remote", True, "trust-remote-code write it out"),
        ("arms.native.serve.trust_remote_cod", True, "write it out"),
        ("server.flags.served-model-name", "--trust-remote-code", "a flag of its own"),
        ("server.flags.a b", 1, "not the name of a flag"),
        ("server.flags.--x", 1, "not the name of a flag"),
        ("server.flags.x=y", 1, "not the name of a flag"),
        ("server.flags.chat-template", "a\x00b", "control character"),
        ("server.flags.model", "other", "model.id"),
        ("server.flags.seed", float("inf"), "found inf"),
        ("client.flags.result-dir", "/elsewhere", "where it writes"),
        ("client.flags.result_filename", "x", "where it writes"),
        ("client.flags.base-url", "http://elsewhere", "whom the client asks"),
        ("client.flags.host", "elsewhere", "whom the client asks"),
        ("server.env.LD_PRELOAD", "evil.so", "what programs are run"),
        ("server.env.PYTHONPATH", "evil", "what programs are run"),
        ("server.env.PATH", ".", "what programs are run"),
        ("server.env.CXX", "sh", "what programs are run"),
        ("arms.native.env.BASH_ENV", "x", "what programs are run"),
        ("arms.native.env.VLLM_NCCL_SO_PATH", "x.so", "what programs are run"),
        ("arms.native.env.NCCL_NET_PLUGIN", "/elsewhere/evil.so", "the machine's matter"),
        ("arms.native.env.HF_ENDPOINT", "https://elsewhere", "the machine's matter"),
        ("arms.native.env.VLLM_API_KEY", "x", "a secret does not belong"),
        ("arms.native.env.HF_TOKEN", "x", "a secret does not belong"),
        ("arms.native.env.A=B", "x", "not the name of a variable"),
        ("arms.native.env.A", "x\x00", "control character"),
        ("server.host", "-x", "match"),
        ("model.id", "a\nb", "match"),
        ("slurm.hours", float("inf"), "finite"),
    ],
)
def test_a_profile_may_not(key: str, value: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        profile_store.load("cpu", {key: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["/etc", "../elsewhere", "data/../../elsewhere", "a\x00"])
def test_a_replay_stays_in_the_repository(source: str) -> None:
    with pytest.raises(ConfigError, match="below the repository"):
        profile_store.load("published", {"source": source})


def test_what_tunes_an_engine_is_allowed() -> None:
    flags = {"trust_remote_code": True, "compilation-config.cudagraph_mode": "NONE",
             "rope-scaling": '{"factor": -1}', "seed": -1, "served-model-name": ""}  # fmt: skip
    env = {"VLLM_LOGGING_LEVEL": "DEBUG", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "0,1",
           "TOKENIZERS_PARALLELISM": "false", "NCCL_SOCKET_IFNAME": "=eth0"}  # fmt: skip
    profile = profile_store.load("cpu", {"server.flags": flags, "server.env": env})
    assert (profile.server.flags, profile.server.env) == (flags, env)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True), ("AWS_SECRET_ACCESS_KEY", True), ("AWS_ACCESS_KEY_ID", True),
        ("KEY", True), ("OPENAI_APIKEY", True), ("GITHUB_PAT", True), ("MYSQL_PWD", True),
        ("HF_TOKEN_2", True), ("SSH_PASSPHRASE", True), ("PWD", False), ("OLDPWD", False),
        ("MONKEY", False), ("MAX_NUM_BATCHED_TOKENS", False), ("SSL_KEYFILE", False),
        ("TOKENIZERS_PARALLELISM", False), ("LONG_PREFILL_TOKEN_THRESHOLD", False),
    ],
)  # fmt: skip
def test_secrets_are_known_by_their_names(name: str, secret: bool) -> None:
    assert bool(SECRET_NAME.search(name)) is secret


def test_code_of_the_model_is_trusted_where_a_profile_says_so() -> None:
    for name in profile_store.names():
        profile = profile_store.load(name)
        for arm, asked in profile.arms.items():
            argv = vllm_contract.serve_arguments(profile, arm, "m", 8000)
            assert ("--trust-remote-code" in argv) is ("trust-remote-code" in asked.serve)
        argv = vllm_contract.bench_arguments(profile, profile.ladder[0], 1, "m", 8000, "r.json")
        assert "--trust-remote-code" not in argv


def test_a_checkpoint_with_the_name_of_a_flag_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "--trust-remote-code"
    place.mkdir()
    (place / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="begins with"):
        model_source.resolve(Model(id=str(place)), tmp_path)


def hostile_profile(folder: Path, **more: Any) -> Path:
    path = folder / "it's $(touch pwned).yaml"
    server = {"flags": {"chat-template": HOSTILE}, "env": {"VLLM_LOGGING_PREFIX": HOSTILE}}
    client = {"flags": {"label": HOSTILE}}
    data = {"extends": "smoke", "name": "mine", "client": client, "server": server, **more}
    path.write_text(yaml.safe_dump(data))
    return path


def as_bash_reads_it(script: str, folder: Path) -> list[list[str]]:
    """Every command of a script, as words, with the variable it was given; nothing is run."""
    stand_in = 'vllm() { printf "%s\\0" "$@" "${VLLM_LOGGING_PREFIX-}" END; }\n'
    # The interpreter has several names; the one of the printed commands need not be this one.
    whole = stand_in + re.sub(r"\S+/python[\d.]* -m reproduce\.engine\.vllm_main", "vllm", script)
    assert "vllm_main" not in whole
    done = subprocess.run(
        [shutil.which("bash") or "", "-c", whole],
        cwd=folder, capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    words = done.stdout.decode().split("\0")[:-1]
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "END":
            commands.append([])
        else:
            commands[-1].append(word)
    assert not list(folder.rglob("pwned"))
    return commands[:-1]


def value_of(flag: str, words: Sequence[str]) -> str:
    return words[words.index(flag) + 1]


def test_bash_reads_the_printed_commands_as_they_are_meant(tmp_path: Path) -> None:
    done = command_line("commands", "--profile", str(hostile_profile(tmp_path)))
    assert done.returncode == 0, done.stderr
    commands = as_bash_reads_it(done.stdout, tmp_path)
    serve = [words for words in commands if "bench" not in words]
    bench = [words for words in commands if "bench" in words]
    assert (len(serve), len(bench)) == (2, 4)
    for words in serve:
        assert value_of("--chat-template", words) == HOSTILE
        assert words[-1] == HOSTILE
    for words in bench:
        assert value_of("--label", words) == HOSTILE


def test_bash_reads_the_job_script_as_it_is_meant(tmp_path: Path) -> None:
    path = hostile_profile(tmp_path, launcher="slurm")
    override = f"server.flags.tokenizer={yaml.safe_dump(HOSTILE, width=1000).strip()}"
    done = command_line("slurm-script", "--profile", str(path), "-p", override)
    assert done.returncode == 0, done.stderr
    (words,) = as_bash_reads_it(f'exec() {{ vllm "$@"; }}\n{done.stdout}', tmp_path)
    given = words[words.index("--profile") :]
    assert given == ["--profile", str(path), "-p", override, ""]


def test_a_profile_that_would_call_python_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: !!python/object/apply:os.system ['touch pwned']\n")
    done = command_line("profiles", str(path), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {path}: not readable as YAML")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "pwned").exists()


def test_a_rung_of_another_profile_is_named() -> None:
    with pytest.raises(DataError, match="rung 'x': not in the ladder of profile cpu"):
        profile_store.load("cpu").rung("x")
