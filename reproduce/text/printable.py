"""Text from anywhere as a terminal may show it: visible characters, nothing that acts on it."""

import re

# C0 and C1 but for tab and line feed, marks that turn the direction of reading, half surrogates.
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """``text`` with every character that acts instead of showing spelled as an escape."""
    return _ACTING.sub(lambda match: ascii(match[0])[1:-1], text)
