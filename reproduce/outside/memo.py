"""What a function makes of a file or a run, remembered until that changes."""

from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar
from weakref import WeakKeyDictionary


class Rooted(Protocol):
    """A run directory, as far as remembering goes."""

    root: Path


P = ParamSpec("P")
R = TypeVar("R", bound=Rooted)
T = TypeVar("T")

_MOST = 8192


def remembered(read: Callable[Concatenate[Path, P], T]) -> Callable[Concatenate[Path, P], T]:
    """Remember what ``read`` makes of a file, or of a run directory as its manifest has it.

    What is remembered is shared, so it must not be changed by whoever gets it.
    """

    @lru_cache(maxsize=_MOST)
    def kept(_state: tuple[int, int] | None, path: Path, *rest: P.args, **named: P.kwargs) -> T:
        return read(path, *rest, **named)

    @wraps(read)
    def ask(path: Path, /, *rest: P.args, **named: P.kwargs) -> T:
        return kept(_state(path), path, *rest, **named)  # type: ignore[arg-type]

    return ask


def once(read: Callable[[R], T]) -> Callable[[R], T]:
    """Remember what ``read`` makes of a run until the run's manifest changes.

    Of an object that describes a run, not of a path: two may judge one run by other profiles.
    What is remembered is shared, so it must not be changed by whoever gets it.
    """
    kept: WeakKeyDictionary[R, tuple[tuple[int, int] | None, T]] = WeakKeyDictionary()

    @wraps(read)
    def ask(run: R) -> T:
        state = _state(run.root)
        if run not in kept or kept[run][0] != state:
            kept[run] = state, read(run)
        return kept[run][1]

    return ask


def _state(path: Path) -> tuple[int, int] | None:
    """Time and size of the file that decides; None where there is none, which ``read`` will say."""
    file = path / "manifest.json" if path.is_dir() else path
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
