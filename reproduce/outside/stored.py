"""Files written whole or not at all, and read back with suspicion."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from reproduce.errors import DataError, StorageError
from reproduce.text import plain

M = TypeVar("M", bound=BaseModel)


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Whatever the disk refuses in here is said of ``path``.

    Raises:
        StorageError: it refused something.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(path, error) from error


def write_atomic(path: Path, data: bytes) -> None:
    """Write so that a reader, or a kill at any moment, sees the old file or the new one.

    Raises:
        StorageError: the disk does not take it; the old file is still there.
    """
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(draft).chmod(0o644)
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise


def parse_json(data: bytes, where: object) -> Any:
    """Parse JSON bytes, or say in one line why they are none.

    Raises:
        DataError: cut off, not JSON, or nothing that an honest writer writes.
    """
    try:
        return plain.from_json(data)
    except plain.NotPlainError as error:
        raise DataError(f"{where}: not readable as JSON ({error}): restore or remove it") from error


def read_json(path: Path) -> Any:
    """Parse a JSON file.

    Raises:
        DataError: missing, unreadable, cut off or not JSON.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    return parse_json(data, path)


def to_json(data: object) -> bytes:
    """Plain data as indented JSON with a final newline."""
    return json.dumps(data, indent=2).encode() + b"\n"


def read_model(model: type[M], path: Path) -> M:
    """Parse a JSON file that holds one object of a kind.

    Raises:
        DataError: missing, unreadable, not JSON, or of another kind; the first key is named.
    """
    data = read_json(path)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "content"
        raise DataError(f"{path}: {key}: {first['msg']}") from error
