"""What is measured per rung, by the names of the measurements frame."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True)
class Metric:
    """One thing measured per rung.

    Attributes:
        key: column of the measurements frame, unit last.
        label: how tables and figures call it.
        unit: of the values.
        digits: decimals shown.
        higher_is_better: True for throughputs.
    """

    key: str
    label: str
    unit: str
    digits: int
    higher_is_better: bool


METRICS: Final = MappingProxyType(
    {
        m.key: m
        for m in (
            Metric("total_tok_s", "Total token throughput", "tok/s", 0, True),
            Metric("output_tok_s", "Output token throughput", "tok/s", 0, True),
            Metric("ttft_ms", "Mean TTFT", "ms", 1, False),
            Metric("tpot_ms", "Mean TPOT", "ms", 2, False),
            Metric("itl_ms", "Mean ITL", "ms", 2, False),
            Metric("e2el_ms", "Mean E2EL", "ms", 0, False),
        )
    }
)


PROBE_COLUMNS: Final = ("before_ms", "after_ms", "quiet_ms")
