"""Guards in a chain, as on the nodes of an engine, without anything that carries the beat far."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from reproduce.engine.guard import SILENCE_S

GUARD = (sys.executable, "-m", "reproduce.engine.guard")
ENGINE = (sys.executable, "-c", "import time; time.sleep(600)")


class Chain:
    """A guard that beats, one that listens, one for the case that the second is killed."""

    def __init__(self) -> None:
        command = [*GUARD, "--beat", "--", *GUARD, "--listen", "--", *GUARD, "--", *ENGINE]
        self.beating = subprocess.Popen(command, start_new_session=True)
        self.wait(lambda: len(self.below()) == 3)
        self.listening, self.last, self.engine = self.below()

    def below(self) -> list[psutil.Process]:
        return psutil.Process(self.beating.pid).children(recursive=True)

    def over(self) -> bool:
        return not any(
            process.is_running() and process.status() != psutil.STATUS_ZOMBIE
            for process in (self.listening, self.last, self.engine)
        )

    def wait(self, condition: object, limit_s: float = 15) -> float:
        began = time.monotonic()
        while not condition():  # type: ignore[operator]
            assert time.monotonic() - began < limit_s, "not within the time allowed"
            time.sleep(0.1)
        return time.monotonic() - began


@pytest.fixture
def chain() -> Iterator[Chain]:
    made = Chain()
    yield made
    made.beating.kill()
    made.beating.wait()
    made.wait(made.over)


def test_the_engine_runs_as_long_as_it_hears_the_beat(chain: Chain) -> None:
    time.sleep(SILENCE_S + 2)
    assert chain.engine.is_running()


def test_it_ends_in_order_when_asked(chain: Chain) -> None:
    chain.beating.terminate()
    chain.wait(chain.over, 5)
    assert chain.beating.wait(5) == 0


def test_it_ends_when_the_beat_falls_silent(chain: Chain) -> None:
    os.kill(chain.beating.pid, signal.SIGSTOP)
    assert chain.wait(chain.over) > SILENCE_S / 2


@pytest.mark.parametrize("which", ["listening", "last", "engine"])
def test_it_ends_when_any_guard_is_killed(chain: Chain, which: str) -> None:
    getattr(chain, which).kill()
    chain.wait(chain.over)
    chain.beating.wait(15)
