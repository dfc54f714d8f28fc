"""What a function makes of a file, remembered until the file changes."""

from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
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


def _state(path: Path) -> tuple[int, int] | None:
    """Time and size of the file that decides; None where there is none, which ``read`` will say."""
    file = path / "manifest.json" if path.is_dir() else path
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
