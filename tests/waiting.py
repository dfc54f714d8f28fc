"""Waiting for what another process does."""

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], limit_s: float, what: str) -> float:
    """Wait, and say how long it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < limit_s, what
        time.sleep(0.25)
    return time.monotonic() - began
