"""Imports go one way, and the core touches nothing outside itself."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from reproduce.outside.provenance import REPO

PACKAGE = REPO / "reproduce"
CONTRACTS = tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]["importlinter"]
LAYERS = CONTRACTS["contracts"][0]["layers"]
CORE = re.findall(r"\w+", " ".join(LAYERS[LAYERS.index("engine | outside") + 1 :]))

# What would let a core module see a file, a process, a clock, the network or the environment.
OUTSIDE = {
    "os", "subprocess", "socket", "time", "requests", "psutil", "shutil", "tempfile", "signal",
    "multiprocessing", "threading", "vllm", "torch", "transformers", "papermill", "nbconvert",
}  # fmt: skip
OUTSIDE_CALLS = {"open", "input", "print", "now", "today", "utcnow", "read_text", "read_bytes",
                 "write_text", "write_bytes", "read_csv", "to_csv", "getenv"}  # fmt: skip


def files(name: str) -> list[Path]:
    folder = PACKAGE / name
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{name}.py"]


def imported(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def called(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func
            found.add(name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", ""))
    return found


def core_files() -> list[Path]:
    return [path for name in CORE for path in files(name) if path.is_file()]


@pytest.mark.parametrize("path", core_files(), ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_the_core_touches_nothing_outside(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert not imported(tree) & OUTSIDE
    assert not called(tree) & OUTSIDE_CALLS


def test_only_the_engine_package_knows_vllm() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.is_relative_to(PACKAGE / "engine"):
            continue
        used = imported(ast.parse(path.read_text()))
        assert not used & {"vllm", "torch", "transformers", "safetensors", "tokenizers"}, path


def test_imports_go_one_way() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=REPO, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


def test_modules_stay_readable() -> None:
    long = {
        path.relative_to(REPO).as_posix(): lines
        for path in PACKAGE.rglob("*.py")
        if (lines := len(path.read_text().splitlines())) > 400
    }
    assert long == {}
