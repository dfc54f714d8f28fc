"""Takes the handling of every fault in docs/faults.md away: a test of its row must fail then.

    python benchmarks/fault_handling.py [WORD ...]

One piece of code after the other is replaced by what would stand there if nobody had thought of
the fault, the row's test runs, and the file is put back. With words, only rows that hold one of
them. Run it in a clone of its own that has no changes: a kill leaves a file replaced.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from reproduce.outside.provenance import REPO

LIMIT_S = 120.0
"""A test that would wait forever without the handling is ended then, and has failed."""


class Handling(NamedTuple):
    """Code that handles a fault, what stands there without it, and the test that sees it."""

    file: str
    code: str
    without: str
    test: str


_SERVER, _GUARD = "reproduce/engine/server.py", "reproduce/engine/guard.py"
_STORED, _RUNDIR = "reproduce/outside/stored.py", "reproduce/outside/rundir.py"
_CONTRACT, _MEASURE = "reproduce/plan/vllm_contract.py", "reproduce/running/measure.py"
_FAULTS = "tests/faults/test_engine_faults.py"

HANDLING = {
    "the engine crashes at start": Handling(
        _SERVER,
        "            if fallen := self._fallen:\n"
        "                raise EngineError(self._obituary(ending(fallen.guard.returncode)))\n",
        "",
        f"{_FAULTS}::test_an_engine_that_crashes_at_start",
    ),
    "the engine hangs at start": Handling(
        _SERVER, "if time.monotonic() > deadline:", "if False:",
        "tests/unit/test_server.py::test_a_server_that_hangs_meets_its_deadline",
    ),
    "the engine dies in a rung": Handling(
        _MEASURE, "if slot.arm in failed or not server.alive:", "if False:",
        f"{_FAULTS}::test_an_engine_that_fails_in_a_rung",
    ),
    "the engine stops answering but stays alive": Handling(
        _MEASURE, "if slot.arm in failed or not server.alive:", "if not server.alive:",
        f"{_FAULTS}::test_an_engine_that_lives_and_no_longer_answers",
    ),
    "the engine answers with errors (HTTP 500)": Handling(
        _SERVER, 'if not answer.ok or not answer.json()["choices"]:', "if False:",
        f"{_FAULTS}::test_an_engine_that_fails_in_a_rung",
    ),
    "the engine answers short, fewer tokens than asked": Handling(
        _CONTRACT,
        'wanted = rung.prompts * rung.output_tokens\n    lengths = data.get("output_lens")\n',
        "wanted, lengths = result.output_tokens, None\n",
        f"{_FAULTS}::test_an_engine_that_answers_short",
    ),
    "the engine answers as another model": Handling(
        _SERVER, "if model != self.spec.model:", "if False:",
        f"{_FAULTS}::test_an_engine_that_does_not_start",
    ),
    "the port is taken": Handling(
        _SERVER, "probe.bind((host, port))", "pass", "tests/unit/test_cli.py::test_a_port_in_use"
    ),
    "the client, or the process it is forked from, is killed": Handling(
        "reproduce/engine/client.py", "elif process.exitcode:", "elif False:",
        "tests/faults/test_killed.py::test_of_the_client",
    ),
    "the disk is full": Handling(
        _STORED, "except OSError as error:\n        raise StorageError",
        "except ZeroDivisionError as error:\n        raise StorageError",
        "tests/faults/test_disk.py::test_a_write_that_fails_half_way",
    ),
    "the run directory is not writable": Handling(
        _RUNDIR, '        with storing(path):\n            lock = path.open("w")\n',
        '        lock = path.open("w")\n',
        "tests/faults/test_disk.py::test_a_run_directory_that_cannot_be_written",
    ),
    "the log lacks the expected lines": Handling(
        _SERVER, "if facts.backend != self.spec.backend:", "if False:",
        "tests/unit/test_server.py::test_a_server_that_is_not_ready_says_why",
    ),
    "the log is enormous or binary": Handling(
        "reproduce/engine/logs.py", "if path.stat().st_size <= limit:", "if limit:",
        "tests/unit/test_logs.py::test_a_flood_is_bounded_while_it_lasts_and_the_engine_goes_on",
    ),
    "a result is cut off": Handling(
        _STORED, "except plain.NotPlainError as error:", "except ZeroDivisionError as error:",
        "tests/unit/test_cli.py::test_a_result_that_was_cut_off",
    ),
    "a result or a run directory is of another version": Handling(
        _RUNDIR, "version > SCHEMA_VERSION:", "False:",
        "tests/unit/test_rundir.py::test_a_newer_schema_is_refused",
    ),
    "a result holds NaN or Infinity": Handling(
        _CONTRACT, "if not 0 <= value <= _LARGEST:", "if value < 0:",
        "tests/unit/test_vllm_contract.py::test_a_value_that_is_no_number_is_refused",
    ),
    "two runs in one directory at once": Handling(
        _RUNDIR, "fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_UN",
        "tests/faults/test_interrupted.py::test_it_is_measured_already",
    ),
    "the clock goes back": Handling(
        _RUNDIR, "key=lambda r: (r.order, r.attempt)", "key=lambda r: r.started_at",
        "tests/faults/test_clock.py::test_a_clock_that_goes_back_in_a_run",
    ),
    "SIGINT twice": Handling(
        "reproduce/cli/__init__.py", "signal.signal(sign, signal.SIG_IGN)", "pass",
        "tests/faults/test_interrupted.py::test_it_is_interrupted_twice",
    ),
    "kill -9 of the command": Handling(
        _GUARD, "return not silent and all(map(_alive, self._watched))", "return not silent",
        "tests/unit/test_guard.py::test_kill_9_of_the_owner_ends_the_engine",
    ),
    "kill -9 of the kernel": Handling(
        "reproduce/running/execution.py", "except (DeadKernelError, RuntimeError) as error:",
        "except ZeroDivisionError as error:",
        "tests/faults/test_interrupted.py::test_its_kernel_is_killed",
    ),
    "kill -9 of the process that the reading notebooks' kernels are forked from, or of such a "
    "kernel": Handling(
        "reproduce/running/kernels.py", ", contextlib.suppress(OSError, ValueError, psutil.Error):",
        ":", "tests/unit/test_kernels.py::test_nothing_to_fork_from",
    ),
    "kill -9 of the guard, the server, the engine core or a worker": Handling(
        "reproduce/engine/process.py",
        "if self.pgid is not None and group_members(self.pgid) and not end_group(self.pgid):",
        "if False:",
        "tests/unit/test_server.py::test_stop_ends_the_engine_even_without_its_guard",
    ),
    "a headless node outlives its head": Handling(
        _GUARD, "silent = self._listen and time.monotonic() - self._heard > SILENCE_S",
        "silent = False", "tests/unit/test_heartbeat.py::test_it_ends_when_the_beat_falls_silent",
    ),
    "memory runs out": Handling(
        "reproduce/evidence/last_words.py",
        "if _MEMORY.search(line) and not _HARMLESS.search(line):", "if False:",
        "tests/unit/test_last_words.py::test_the_line_that_says_most",
    ),
}  # fmt: skip


def run(tests: Sequence[str], limit_s: float) -> str:
    """What pytest made of the tests: passed, failed, hung, or why they did not run."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", *tests]
    process = subprocess.Popen(
        command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        told, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return "hung"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    closing = told.strip().splitlines()[-1]
    if "skipped" in closing:
        return f"skipped: {closing}"
    return {0: "passed", 1: "failed"}.get(process.returncode, told[-1500:])


def without(handling: Handling) -> str:
    path = REPO / handling.file
    whole = path.read_bytes()
    try:
        path.write_text(whole.decode().replace(handling.code, handling.without))
        return run([handling.test], LIMIT_S)
    finally:
        path.write_bytes(whole)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*")
    words = parser.parse_args().words
    chosen = {
        row: handling
        for row, handling in HANDLING.items()
        if not words or any(word in row for word in words)
    }
    changed = subprocess.run(
        ["git", "status", "--porcelain", "reproduce", "tests"],  # noqa: S607
        cwd=REPO, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    if changed:
        raise SystemExit(f"there are changes here; run this in a clone of its own:\n{changed}")
    whole = run(sorted({handling.test for handling in chosen.values()}), 10 * LIMIT_S)
    print(f"with all handling: {whole}", flush=True)
    seen = 0
    for row, handling in chosen.items():
        found = without(handling)
        seen += found in ("failed", "hung")
        print(f"without it: {found:7} {row}", flush=True)
    print(f"{seen} of {len(chosen)} are seen by their test")
    sys.exit(whole != "passed" or seen < len(chosen))


if __name__ == "__main__":
    main()
