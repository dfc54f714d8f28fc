"""Progress: plain lines, few of them, where output is no terminal."""

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.running import progress
from reproduce.running.progress import Follower


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path / "run", profile_store.load("smoke"), {})


def repeat(run: RunDir, number: int, valid: bool = True) -> None:
    run.log_event("repeat", arm="native", launch=1, rung="c1", repeat=number, valid=valid,
                  reasons=[] if valid else ["1 requests failed"], total_tok_s=1234.5)  # fmt: skip


def follow(run: RunDir, repeats: int, *, terminal: bool = False) -> str:
    output = io.StringIO()
    with Follower(run, Console(file=output, force_terminal=terminal, width=100)):
        run.log_event("plan", total=repeats, missing=repeats)
        run.log_event("ready", launch=1)
        for number in range(1, repeats + 1):
            repeat(run, number)
        time.sleep(3 * progress._POLL_S)
    return output.getvalue()


def test_many_events_make_few_lines_and_the_last_one_is_kept(run: RunDir) -> None:
    lines = follow(run, 50).splitlines()
    assert len(lines) <= 3
    assert "50/50 c1 repeat 50 native: 1,234 total tok/s" in lines[-1]


def test_what_happened_before_is_not_told_again(run: RunDir) -> None:
    follow(run, 3)
    assert "plan" not in follow(run, 0)


def test_a_repeat_that_does_not_count_is_said_with_its_reason(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.0)
    output = io.StringIO()
    with Follower(run, Console(file=output, force_terminal=False, width=40)):
        run.log_event("plan", total=1, missing=1)
        repeat(run, 1, valid=False)
        time.sleep(3 * progress._POLL_S)
    assert "c1 repeat 1 native: does not count (1 requests failed)\n" in output.getvalue()


@pytest.mark.parametrize(
    ("seconds", "words"), [(7300, "about 2.0 h left"), (240, "about 4 min left"), (30, "")]
)
@pytest.mark.parametrize("terminal", [False, True])
def test_the_time_left_is_the_runs_own_estimate(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, seconds: int, words: str, terminal: bool
) -> None:
    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.0)
    output = io.StringIO()
    with Follower(run, Console(file=output, force_terminal=terminal, width=200)):
        run.log_event("plan", total=2, missing=2)
        run.log_event("left", seconds=seconds)
        repeat(run, 1)
        time.sleep(3 * progress._POLL_S)
    assert words in output.getvalue()
    assert ("left" in output.getvalue()) == bool(words)


def test_a_failed_launch_is_said_with_its_reason_and_when_it_is_tried_again(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.0)
    output = io.StringIO()
    with Follower(run, Console(file=output, force_terminal=False, width=200)):
        run.log_event("failed", arm="native", launch=2, problem="[no] such model")
        run.log_event("retry", launch=2, wait_s=20)
        time.sleep(3 * progress._POLL_S)
    assert "launch 2 failed: [no] such model" in output.getvalue()
    assert "launch 2 is tried again in 20 s" in output.getvalue()


def test_a_terminal_gets_a_bar(run: RunDir) -> None:
    text = follow(run, 4, terminal=True)
    assert "4/4" in text
    assert "\x1b[" in text
