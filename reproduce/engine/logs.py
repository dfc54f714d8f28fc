"""Engine logs on disk: bounded while they grow, compressed once they are whole, read either way."""

import gzip
import os
import re
import zlib
from pathlib import Path

from reproduce.errors import DataError

LIMIT_BYTES = 64 * 2**20
"""A log beyond this keeps a quarter of it from the beginning, where an engine says what it is, and
a quarter from the end, where it says what it died of. Two compiled servers of a tiny model print
0.1 MB in a run; a debug level prints this much in minutes."""
_NOTE = re.compile(rb"\n\[\.\.\. (\d+) bytes of this log were left out here \.\.\.\]\n")
_NOTE_BYTES = 100
_GZ = ".gz"


def trim(path: Path, limit: int = LIMIT_BYTES) -> None:
    """Bound a log while its writer has it open; what is left out is counted in the file itself.

    The writer appends, so it goes on at whatever end the file has, and it waits for nothing: there
    is no pipe and no lock. What it prints in the moment of the cut is lost with the middle.
    """
    if path.stat().st_size <= limit:
        return
    kept = limit // 4
    with path.open("r+b") as log:
        log.seek(kept)
        earlier = _NOTE.match(log.read(_NOTE_BYTES))
        end = log.seek(0, os.SEEK_END)
        log.seek(end - kept)
        tail = log.read()
        log.truncate(kept)
    missing = end - 2 * kept
    if earlier:
        missing += int(earlier[1]) - len(earlier[0])
    with path.open("ab") as log:
        log.write(b"\n[... %d bytes of this log were left out here ...]\n" % missing + tail)


def compressed_path(path: Path) -> Path:
    """Where a log is kept, compressed, once its writer has ended."""
    return path.with_name(path.name + _GZ)


def compress(data: bytes) -> bytes:
    """The same bytes for the same log, whenever they are made."""
    return gzip.compress(data, mtime=0)


def stored(path: Path) -> Path:
    """The file that holds a log: the plain one while it is there, else the compressed one."""
    return path if path.is_file() else compressed_path(path)


def of_start(directory: Path) -> list[Path]:
    """Logs of one server start by their plain names, node 0 first; they may be compressed."""
    names = {path.name.removesuffix(_GZ) for path in directory.glob("engine*.log*")}
    return [directory / name for name in sorted(names, key=lambda name: (len(name), name))]


def read(path: Path, limit: int = LIMIT_BYTES) -> str:
    """A log's text in either form; of a longer one the beginning, and the end if it is plain.

    Args:
        path: the log's plain name.
        limit: bytes that are read at most.

    Raises:
        DataError: it is missing or damaged.
    """
    found = stored(path)
    try:
        if found.suffix == _GZ:
            with gzip.open(found) as file:
                data = file.read(limit)
        else:
            with found.open("rb") as file:
                data = file.read(limit // 2)
                end = file.seek(0, os.SEEK_END)
                file.seek(max(len(data), end - limit // 2))
                data += file.read(limit // 2)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{found}: cannot be read as a log ({error}): restore it") from error
    return data.decode(errors="replace")
