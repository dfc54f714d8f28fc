"""Forked kernels: papermill's like any other, with a life no longer than who asked for them."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
import psutil
import pytest

from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.running import execution, kernels
from tests.synthetic import make_run
from tests.waiting import wait_for

SMOKE = profile_store.load("smoke", {"repeats": 1})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    made = make_run(tmp_path / "run", SMOKE)
    monkeypatch.chdir(made.root)
    return made


def notebook(folder: Path, code: str) -> Path:
    path = folder / "one.ipynb"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(code))])
    book.metadata["kernelspec"] = {"name": "python3", "language": "python", "display_name": ""}
    nbformat.write(book, path)
    return path


def test_a_kernel_has_the_directory_environment_and_process_of_its_own(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
    import json, os, sys
    from pathlib import Path
    told = [os.getcwd(), os.environ["ASKED"], os.getpid(), "reproduce.tables" in sys.modules]
    Path("told").write_text(json.dumps(told))
    """
    source = notebook(tmp_path, code)
    with kernels.forked() as manager:
        monkeypatch.setenv("ASKED", "after the imports")
        execution.execute(run, source, manager)
    where, asked, pid, imported = json.loads((run.root / "told").read_text())
    assert (where, asked, imported) == (str(run.root), "after the imports", True)
    assert pid != os.getpid()
    assert not psutil.pid_exists(pid)


def test_a_cell_that_fails_is_named(run: RunDir, tmp_path: Path) -> None:
    source = notebook(tmp_path, "1 / 0")
    with kernels.forked() as manager, pytest.raises(execution.NotebookError) as told:
        execution.execute(run, source, manager)
    assert "cell 1: ZeroDivisionError: division by zero" in str(told.value)


def test_a_kernel_that_dies_is_a_failure_of_its_notebook(run: RunDir, tmp_path: Path) -> None:
    source = notebook(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with kernels.forked() as manager, pytest.raises(execution.NotebookError, match="its kernel"):
        execution.execute(run, source, manager)


def test_nothing_to_fork_from(run: RunDir, tmp_path: Path) -> None:
    source = notebook(tmp_path, "import os, time; os.kill(os.getppid(), 9); time.sleep(30)")
    with kernels.forked() as manager:
        for reason in ("Kernel died", "the process that kernels are forked from ended"):
            with pytest.raises(execution.NotebookError, match=reason):
                execution.execute(run, source, manager)


def test_kernels_end_with_whoever_asked_for_them(run: RunDir, tmp_path: Path) -> None:
    code = """
    import os, time
    from pathlib import Path
    Path("pids").write_text(f"{os.getpid()} {os.getppid()} ")
    time.sleep(60)
    """
    source = notebook(tmp_path, code)
    program = f"""
    from pathlib import Path
    from reproduce.running import execution, kernels
    from reproduce.outside.rundir import RunDir
    with kernels.forked() as manager:
        execution.execute(RunDir.open(Path(".")), Path({str(source)!r}), manager)
    """
    asking = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    pids = run.root / "pids"
    wait_for(lambda: pids.exists() and pids.read_text().endswith(" "), 60, "no kernel")
    kernel, nursery = map(int, pids.read_text().split())
    asking.send_signal(signal.SIGKILL)
    asking.wait()
    wait_for(lambda: not (psutil.pid_exists(kernel) or psutil.pid_exists(nursery)), 15, "alive")
