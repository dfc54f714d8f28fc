"""A fixed piece of work whose duration shows how much of the machine is free."""

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

_TIMINGS = 5
# Measured: an engine's threads keep spinning for 0.4 s after the last token, and double the
# probe's time as long as they do.
SETTLE_S = 0.75
_NUMBERS = 400_000
_PASSES = 35


class Probe:
    """The same arithmetic on every core at once, about 16 ms of it.

    Every core runs it, since the engine's threads wait for the slowest of theirs. NumPy's
    element-wise functions use one thread each and release the interpreter's lock. The arrays
    (3.2 MB per core) are larger than a core's own cache, as the engine's weights are.
    """

    def __init__(self) -> None:
        cores = len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(cores)
        self._work = [
            (np.linspace(0, 1, _NUMBERS, dtype=np.float32), np.empty(_NUMBERS, dtype=np.float32))
            for _ in range(cores)
        ]

    def settled_ms(self) -> float:
        """The same as :meth:`time_ms`, once an engine that has just worked is at rest."""
        time.sleep(SETTLE_S)
        return self.time_ms()

    def time_ms(self) -> float:
        """Median of a few timings in ms; a single interruption does not move it."""
        return statistics.median(self._once() for _ in range(_TIMINGS))

    def _once(self) -> float:
        started = time.perf_counter()
        for done in [self._pool.submit(_arithmetic, *arrays) for arrays in self._work]:
            done.result()
        return 1000 * (time.perf_counter() - started)


def _arithmetic(numbers: np.ndarray, scratch: np.ndarray) -> None:
    for _ in range(_PASSES):
        np.exp(numbers, out=scratch)
        np.add(scratch, numbers, out=scratch)
