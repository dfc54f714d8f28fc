"""Stored files as bound values: each knows its file, the file's digest and the place in it."""

import functools
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from reproduce.errors import DataError
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import read_json, sha256
from reproduce.pages.lineage import Bound, Source

PUBLISHED = "data/published"
REFERENCE = "data/reference"
YARDSTICK = "data/yardstick"
"""One backend against itself: how much two equal arms differ here."""
KEPT = (PUBLISHED, REFERENCE, YARDSTICK)


@functools.cache
def _digest(path: Path) -> str:
    return sha256(path)


@functools.cache
def _content(path: Path) -> Any:
    if path.suffix == ".json":
        return read_json(path)
    try:
        return yaml.safe_load(path.read_text("utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise DataError(f"{path}: cannot be read ({str(error).splitlines()[0]})") from error


def source(path: str, pointer: str) -> Source:
    """A place in a file, by the file's path in the repository.

    Raises:
        DataError: there is no such file.
    """
    if not (REPO / path).is_file():
        raise DataError(f"{path}: missing: restore it from the repository")
    return Source(path, _digest(REPO / path), pointer)


def whole(kept: str) -> list[Source]:
    """What everything in a kept run decides: the manifest lists the digest of each raw file."""
    return [source(f"{kept}/manifest.json", "/files")]


def resolve(path: str, pointer: str) -> Any:
    """What a JSON pointer leads to in a JSON or YAML file.

    Raises:
        DataError: it leads nowhere.
    """
    found = _content(REPO / path)
    for key in pointer.split("/")[1:]:
        try:
            found = found[int(key) if isinstance(found, list) else key]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise DataError(f"{path}: there is nothing at {pointer}") from error
    return found


def quoted(path: str, pointer: str, unit: str = "", *, grouped: bool = True) -> Bound:
    """A stored value as it is; long numbers get separators unless they are names."""
    value = resolve(path, pointer)
    text = str(value)
    if grouped and text.replace(".", "", 1).isdigit():
        text = f"{Decimal(text):,}"
    kept = value if isinstance(value, int | float) else text
    return Bound(f"{path}#{pointer}", kept, text, (source(path, pointer),), "as stored", unit)


def unlisted() -> list[str]:
    """Files below data/ that no run's manifest lists: their digests stand in the article."""
    paths = sorted(path for path in (REPO / "data").rglob("*") if path.is_file())
    names = [path.relative_to(REPO) for path in paths if not path.name.startswith(".")]
    return [name.as_posix() for name in names if "raw" not in name.parts]


def changed(run: RunDir) -> list[str]:
    """Raw files of a kept run that are not what its manifest says, or that it does not list."""
    found = [p for p in (run.root / "raw").rglob("*") if p.is_file()]
    extra = {p.relative_to(run.root).as_posix() for p in found} - set(run.manifest.files)
    root = run.root.relative_to(REPO).as_posix()
    return [f"{root}/{name}" for name in sorted({*run.changed_files(), *extra})]
