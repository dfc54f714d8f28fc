"""What a doctor finds: one check, its state, and the fix when it is not well."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from reproduce.errors import ReproduceError

State = Literal["ok", "note", "fail"]


@dataclass(frozen=True)
class Check:
    """One thing looked at: its state, what was found, and the fix when it is not well."""

    name: str
    state: State
    found: str


def checked(name: str, look: Callable[[], str]) -> Check:
    """A check that is well unless looking raises one of the package's own errors."""
    try:
        return Check(name, "ok", look())
    except ReproduceError as error:
        return Check(name, "fail", str(error))
