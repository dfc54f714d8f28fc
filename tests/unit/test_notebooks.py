"""The notebooks: stored bare, run as they are, and strict about their parameters."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reproduce.outside.provenance import REPO

NOTEBOOKS = sorted((REPO / "notebooks").glob("*.ipynb"))
BATCH = [path for path in NOTEBOOKS if path.stem[:2].isdigit()]


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return found


def papermill(path: Path, out: Path, *parameters: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "papermill", str(path), str(out), "--no-progress-bar",
         *(word for parameter in parameters for word in ("-p", *parameter.split("=", 1)))],
        cwd=REPO, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_batch_is_complete() -> None:
    assert [path.stem for path in BATCH] == [
        "01_measure", "02_evidence", "03_memory_budget", "04_verdict", "05_report",
    ]  # fmt: skip


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebooks_are_stored_bare(path: Path) -> None:
    book = json.loads(path.read_text())
    assert book["metadata"]["kernelspec"]["name"] == "python3"
    for cell in book["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
        assert cell.get("id")


@pytest.mark.parametrize("path", BATCH, ids=lambda p: p.stem)
def test_notebooks_are_thin(path: Path) -> None:
    tagged = [c for c in cells(path) if "parameters" in c["metadata"].get("tags", [])]
    assert len(tagged) == 1
    for cell in cells(path):
        if cell["cell_type"] == "code":
            assert len("".join(cell["source"]).splitlines()) <= 8


@pytest.mark.parametrize("path", BATCH, ids=lambda p: p.stem)
def test_notebooks_run_with_their_default_parameters(path: Path, tmp_path: Path) -> None:
    done = papermill(path, tmp_path / "out.ipynb")
    assert done.returncode == 0, done.stderr[-2000:]
    for cell in cells(tmp_path / "out.ipynb"):
        assert all(output["output_type"] != "error" for output in cell.get("outputs", []))


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ("profil=published", "profil: no such key"),
        ("repeats=many", "repeats: Input should be a valid integer"),
        ("profile=cpuu", "did you mean 'cpu'"),
        ("run=/no/such/run", "not a run directory"),
    ],
)
def test_a_wrong_parameter_stops_the_notebook(parameter: str, words: str, tmp_path: Path) -> None:
    done = papermill(REPO / "notebooks" / "04_verdict.ipynb", tmp_path / "out.ipynb", parameter)
    assert done.returncode != 0
    assert words in done.stderr
