"""A fixed piece of work whose duration shows how much of the machine is free."""

import statistics
import time

import numpy as np

_TIMINGS = 5
# Measured: an engine's threads keep spinning for 0.4 s after the last token, on every core they
# have; a single worker may go on for longer.
SETTLE_S = 0.75
_NUMBERS = 400_000
_PASSES = 35


class Probe:
    """The same arithmetic on one core, about 8 ms of it, in NumPy, which uses one thread for it.

    One core and not all of them: an idle engine's worker may go on spinning on its own core for
    seconds after the last token. That doubled the time of a probe on both cores (7.9 to 15.7 ms)
    with nothing else running, and marked every slice. The scheduler runs a single thread beside
    the spinner. The arrays (3.2 MB) are larger than a core's own cache, as the engine's weights
    are.
    """

    def __init__(self) -> None:
        self._numbers = np.linspace(0, 1, _NUMBERS, dtype=np.float32)
        self._scratch = np.empty_like(self._numbers)

    def settled_ms(self, worked_until: float | None = None) -> float:
        """The same as :meth:`time_ms`, once an engine that has just worked is at rest.

        Args:
            worked_until: when it gave its last token, on the monotonic clock; None means now.
        """
        now = time.monotonic()
        rested_s = now - (now if worked_until is None else worked_until)
        time.sleep(max(0.0, SETTLE_S - rested_s))
        return self.time_ms()

    def time_ms(self) -> float:
        """Median of a few timings in ms; a single interruption does not move it."""
        return statistics.median(self._once() for _ in range(_TIMINGS))

    def _once(self) -> float:
        started = time.perf_counter()
        for _ in range(_PASSES):
            np.exp(self._numbers, out=self._scratch)
            np.add(self._scratch, self._numbers, out=self._scratch)
        return 1000 * (time.perf_counter() - started)
