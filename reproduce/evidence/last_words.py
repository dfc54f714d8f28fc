"""Why an engine fell, in one line out of the thousands that it logged."""

import re

from reproduce.evidence.engine_log import clean_lines
from reproduce.text.printable import printable

_LONGEST = 240
_MEMORY = re.compile(
    r"\bMemoryError\b|OutOfMemory|out of memory|bad_alloc|No available memory"
    r"|(?:cannot|can't|unable to|failed to) allocate memory|memory allocation (?:still )?failed",
    re.I,
)
_TELLING = re.compile(r"error|exception|refus|fail|not found|no such|unrecognized|assert", re.I)
_HARMLESS = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b")


def last_words(log: str) -> str:
    """The line of a fallen engine's log that says most about why; never raises.

    Want of memory comes first: it is the root of whatever else goes wrong after it, and the
    process that logs it is seldom the last one to log.
    """
    lines = [line for raw in clean_lines(log) if (line := printable(raw).strip())]
    for line in reversed(lines):
        if _MEMORY.search(line) and not _HARMLESS.search(line):
            return f"memory ran out: {line[:_LONGEST]}"
    telling = [line for line in lines if _TELLING.search(line)]
    return (telling or lines or ["its log is empty"])[-1][:_LONGEST]
