"""What a directory from elsewhere may hold, if it is to be read, resumed and written into."""

import os
import re
from pathlib import Path

from reproduce.errors import DataError

_NAME = r"[a-z0-9][a-z0-9_.-]{0,63}"
_BELOW_RAW = (
    ("an arm", re.compile(_NAME)),
    ("a launch", re.compile(r"launch-\d{1,6}")),
    ("a start or a rung", re.compile(rf"start-\d{{1,6}}|(?!start-){_NAME}")),
)
"""Folders below ``raw``, by depth: paths and numbers are made of their names."""


def inspect(root: Path) -> None:
    """Refuse a run directory with links, with devices, or with folders that no run makes.

    A link would have a report, or a resumed run, write to where it leads.

    Raises:
        DataError: naming what is there and should not be.
    """
    try:
        _inspect(root, ())
    except OSError as error:
        raise DataError(f"{error.filename}: cannot be read ({error.strerror})") from error


def _inspect(folder: Path, below: tuple[str, ...]) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _refuse_strange(entry.path, (*below, entry.name))
                _inspect(Path(entry.path), (*below, entry.name))
            elif not entry.is_file(follow_symlinks=False):
                kind = "a link" if entry.is_symlink() else "no regular file"
                raise DataError(
                    f"{entry.path}: {kind}, which no run directory holds: put a copy in its "
                    "place, or remove it"
                )


def _refuse_strange(path: str, below: tuple[str, ...]) -> None:
    depth = len(below) - 2
    if below[0] != "raw" or depth < 0:
        return
    if depth >= len(_BELOW_RAW):
        raise DataError(f"{path}: a folder where no run has one: move it elsewhere")
    what, pattern = _BELOW_RAW[depth]
    if not pattern.fullmatch(below[-1]):
        raise DataError(f"{path}: not the name of {what}: restore it, or move it elsewhere")
