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
"""Where the quiet level lies among all probes so far: low, as disturbances only slow down, and
not the minimum, which a single lucky probe would set."""


def quiet_level(probes_ms: Sequence[float]) -> float:
    """The time of the undisturbed probe in ms, from all probes of the run so far."""
    return float(np.quantile(probes_ms, QUIET_QUANTILE))


def is_disturbed(before_ms: float, after_ms: float, quiet_ms: float) -> bool:
    """Whether either probe of a slice was clearly slower than the quiet level."""
    return max(before_ms, after_ms) > FACTOR * quiet_ms
