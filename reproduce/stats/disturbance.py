"""Was the machine disturbed around a slice? A rule that sees the probe's times and nothing else.

The probe is a fixed piece of work (:mod:`reproduce.engine.probe`), timed before and after each
slice while no request is in flight. The rule knows neither the arm nor the result of the slice,
so leaving out what it marks cannot favour an arm.
"""

from collections.abc import Sequence

import numpy as np

FACTOR = 1.25
"""A probe this many times slower than the quiet level marks its slice."""
QUIET_QUANTILE = 0.25
"""Where the quiet level lies among the recent probes: low, as disturbances only slow down, and
not the minimum, which a single lucky probe would set."""
RECENT = 24
"""Probes that the level is taken from. A shared machine can change its speed for good (8.6 ms for
minutes, then 16 ms for the rest of a run, was seen); after a dozen slices that is its quiet."""


def quiet_level(probes_ms: Sequence[float]) -> float:
    """The time of the undisturbed probe in ms, from the run's probes so far, oldest first."""
    return float(np.quantile(probes_ms[-RECENT:], QUIET_QUANTILE))


def is_disturbed(before_ms: float, after_ms: float, quiet_ms: float) -> bool:
    """Whether either probe of a slice was clearly slower than the quiet level."""
    return max(before_ms, after_ms) > FACTOR * quiet_ms
