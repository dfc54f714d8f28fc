"""A benchmark result under audit: read with suspicion, never trusted to hold what it should."""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LISTS = ("input_lens", "output_lens", "start_times", "ttfts", "itls", "latencies", "errors")
_STATISTIC = re.compile(r"(mean|median|std|p\d+(?:\.\d+)?)_(\w+)_ms")


class AbsentError(Exception):
    """The file lacks what a check needs."""


class MalformedError(Exception):
    """The file holds something that no run writes."""


def as_number(value: object) -> float | None:
    """A finite float, or None for anything else; True and "1" are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class AuditedFile:
    """Access to the facts of one result file.

    Attributes:
        result: The parsed JSON object.
        input_len: Tokens of each prompt as requested; None when unknown.
        output_len: Tokens every request had to generate; None when unknown or not fixed.
    """

    result: dict[Any, Any]
    input_len: int | None = None
    output_len: int | None = None

    def number(self, key: str) -> float:
        """The number under a key.

        Raises:
            AbsentError: When there is none.
        """
        if key not in self.result:
            raise AbsentError(f"the file has no {key}")
        number = as_number(self.result[key])
        if number is None:
            raise AbsentError(f"{key} is not a number")
        return number

    def statistic_keys(self) -> dict[str, tuple[str, str]]:
        """Key → (statistic, metric) for keys such as p99_ttft_ms."""
        matches = (_STATISTIC.fullmatch(key) for key in self.result if isinstance(key, str))
        return {match[0]: (match[1], match[2]) for match in matches if match}

    def metrics(self) -> tuple[str, ...]:
        """The latencies the file has statistics of, such as ttft, in its own order."""
        return tuple(dict.fromkeys(metric for _, metric in self.statistic_keys().values()))

    def statistics(self, metric: str) -> dict[str, float]:
        """Statistic → milliseconds, of one metric.

        Raises:
            AbsentError: When one of them is not a number, or there is none.
        """
        found = {
            statistic: self.number(key)
            for key, (statistic, name) in self.statistic_keys().items()
            if name == metric
        }
        if not found:
            raise AbsentError(f"the file has no statistics of {metric}")
        return found

    def completed(self) -> float:
        """Completed requests, at least one.

        Raises:
            AbsentError: When no request completed.
        """
        completed = self.number("completed")
        if completed <= 0:
            raise AbsentError("no request completed")
        return completed

    def streams_completions(self) -> bool:
        """Whether the client was that of /v1/completions, which times tokens and nothing else."""
        return self.result.get("endpoint_type", self.result.get("backend")) in ("openai", "vllm")

    def chunks(self) -> float:
        """Streamed chunks, C = N (1 + (E2EL − TTFT) / ITL) with the means over N requests.

        The gaps between the chunks of a request add up to E2EL − TTFT, and ITL is the mean gap.
        """
        gaps_ms = self.number("mean_e2el_ms") - self.number("mean_ttft_ms")
        gap_ms = self.number("mean_itl_ms")
        if gap_ms == 0:
            raise AbsentError("the file records no time between chunks")
        return self.completed() * (1 + gaps_ms / gap_ms)

    def fixed_length(self) -> tuple[float, bool]:
        """Tokens of every output, and whether that is known rather than inferred from the mean.

        Raises:
            AbsentError: When the outputs differ in length, or have no time per token at all.
        """
        tokens, known = self._fixed_length()
        if tokens < 2:
            raise AbsentError("the outputs have less than two tokens")
        return tokens, known

    def _fixed_length(self) -> tuple[float, bool]:
        completed, total = self.completed(), self.number("total_output_tokens")
        if "output_lens" in self.result:
            lengths = self.of_completed("output_lens")
            if len(lengths) and np.ptp(lengths) == 0:
                return float(lengths[0]), True
        elif self.output_len is not None and total == completed * self.output_len:
            return self.output_len, True
        elif total % completed == 0 and self.output_len is None:
            return total / completed, False
        raise AbsentError("the outputs differ in length")

    def column(self, key: str) -> list[Any]:
        """One value per request, failed ones included.

        Raises:
            AbsentError: When the file has no such list.
            MalformedError: When it is something else than a list.
        """
        if key not in self.result:
            raise AbsentError(f"the file has no {key} (--save-detailed writes them)")
        column = self.result[key]
        if not isinstance(column, list):
            raise MalformedError(f"{key} is not a list")
        return column

    def of_completed(self, key: str) -> Floats:
        """The numbers of the completed requests; those of itls one after another."""
        column = self.column(key)
        if as_number(self.result.get("failed", 0)) != 0:
            column = [value for value, good in zip(column, self._succeeded(), strict=False) if good]
        if key == "itls":
            if not all(isinstance(gaps, list) for gaps in column):
                raise MalformedError("itls is not a list of lists")
            column = [gap for gaps in column for gap in gaps]
        malformed = MalformedError(f"{key} holds something that is not a number")
        if not set(map(type, column)) <= {int, float}:
            raise malformed
        try:
            numbers = np.array(column, dtype=float)
        except OverflowError:
            raise malformed from None
        if not np.isfinite(numbers).all():
            raise malformed
        return numbers

    def seconds(self, metric: str) -> Floats:
        """One metric recomputed from the lists of the completed requests.

        Raises:
            AbsentError: For a metric the lists do not determine.
        """
        if metric == "ttft":
            return self.of_completed("ttfts")
        if metric == "itl":
            return self.of_completed("itls")
        if metric == "e2el":
            return self.of_completed("latencies")
        if metric == "tpot":
            lengths, ends = self.of_completed("output_lens"), self.of_completed("latencies")
            starts = self.of_completed("ttfts")
            if not len(lengths) == len(ends) == len(starts):
                raise MalformedError("output_lens, ttfts and latencies differ in length")
            several = lengths > 1
            return np.asarray((ends - starts)[several] / (lengths[several] - 1))
        raise AbsentError(f"the lists do not determine {metric}")

    def _succeeded(self) -> list[bool]:
        succeeded = [error == "" for error in self.column("errors")]
        if succeeded.count(True) != self.number("completed"):
            raise AbsentError("the file does not say which requests failed")
        return succeeded
