"""Result files made anywhere: plain, appended line by line, or the folders of a sweep."""

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproduce.errors import DataError
from reproduce.text import plain

_SUMMARIES = ("summary.json", "warmup.json")


@dataclass(frozen=True)
class StoredResult:
    """One result, and where it was read: the file, and its place in it if there are several."""

    where: str
    data: Any


def read_results(path: Path) -> list[StoredResult]:
    """Read one result, an array of results, or results one after another (``--append-result``).

    Raises:
        DataError: the file cannot be read, is empty or is not JSON.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}): check the path") from error
    if not data.strip():
        raise DataError(f"{path}: empty: the benchmark wrote no result; run it again")
    try:
        values = plain.from_json_sequence(data)
    except plain.NotPlainError as error:
        raise DataError(f"{path}: not JSON ({error}): restore or remove it") from error
    found: list[Any] = []
    for value in values:
        found += value if isinstance(value, list) else [value]
    if not found:
        raise DataError(f"{path}: holds no result: give a file of `vllm bench serve`")
    if len(found) == 1:
        return [StoredResult(str(path), found[0])]
    return [StoredResult(f"{path}, result {n}", value) for n, value in enumerate(found, start=1)]


def find_results(pattern: str) -> list[Path]:
    """Result files that a pattern names; a folder stands for every result below it.

    In the folders of `vllm bench sweep serve`, ``run=N.json`` are the results. Its summaries
    repeat them, its warm-ups are no measurement, and ``*.failure.json`` hold none. Records and
    invalid attempts of this package's own run directories are no results either.

    Raises:
        DataError: nothing is there.
    """
    named = [Path(name) for name in glob.glob(str(Path(pattern).expanduser()), recursive=True)]  # noqa: PTH207
    files: set[Path] = set()
    for path in named:
        files |= set(path.rglob("*.json")) if path.is_dir() else {path}
    results = sorted(path for path in files if not _is_by_product(path))
    if not results:
        raise DataError(f"{pattern}: no result file there: check the path, and quote the pattern")
    return results


def _is_by_product(path: Path) -> bool:
    if path.name.endswith((".failure.json", ".record.json")) or ".invalid-" in path.name:
        return True
    return path.name in _SUMMARIES and any(path.parent.glob("run=*.json"))
