"""Models and GPUs that the repository knows, and config.json files from anywhere."""

import csv
import json
import os
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

import reproduce
from reproduce.errors import ConfigError, DataError
from reproduce.memory.budget import Band, Gpu
from reproduce.memory.records import Gib, MemoryLog, PublishedFigure

DATA_DIRECTORY = Path(reproduce.__file__).parents[1] / "data"


class StoredModel(BaseModel):
    """One file of data/models: a config.json, where it comes from, and which hub ids share it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    repositories: list[str]
    source: str
    config: dict[str, Any]


class _PublishedFigures(BaseModel):
    """The layout of data/published/memory_figures.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    figures: list[PublishedFigure]


class _StoredBand(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    low: Gib
    high: Gib


class _StoredGpu(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    total_gib: Gib
    source: str


class _StoredGpus(BaseModel):
    """The layout of data/gpus.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    overhead_gib: _StoredBand
    gpus: dict[str, _StoredGpu]


def stored_models(directory: Path = DATA_DIRECTORY / "models") -> dict[str, StoredModel]:
    """The stored models, by name.

    Raises:
        DataError: A file is damaged; the message names it.
    """
    models = {}
    for path in sorted(directory.glob("*.json")):
        try:
            models[path.stem] = StoredModel.model_validate_json(path.read_text(encoding="utf-8"))
        except ValidationError as error:
            raise DataError(f"{path}: {_first(error)}") from None
    return models


def load_config(model: str) -> dict[str, Any]:
    """Find a model's configuration.

    Args:
        model: Name or hub id of a stored model, a config.json, or a directory that holds one.

    Raises:
        ConfigError: Nothing is there, or it is not a configuration.
    """
    models = stored_models()
    for stored in models.values():
        if model == stored.name or model in stored.repositories:
            return stored.config
    path = Path(os.path.expandvars(model)).expanduser()
    path = path / "config.json" if path.is_dir() else path
    if not path.is_file():
        raise ConfigError(
            f"model {model!r} is neither one of {', '.join(models)} nor the path of a config.json"
        )
    try:
        return TypeAdapter(dict[str, Any]).validate_python(json.loads(path.read_text("utf-8")))
    except (ValueError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a JSON object; {_first(error)}") from None


def load_gpus(path: Path = DATA_DIRECTORY / "gpus.yaml") -> dict[str, Gpu]:
    """Memory of the known GPUs, by name.

    Raises:
        DataError: The file is damaged.
    """
    try:
        stored = _StoredGpus.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValidationError) as error:
        raise DataError(f"{path}: {_first(error)}") from None
    band = Band(stored.overhead_gib.low, stored.overhead_gib.high)
    return {name: Gpu(name, gpu.total_gib, band) for name, gpu in stored.gpus.items()}


def load_gpu(name: str) -> Gpu:
    """Memory of a known GPU.

    Raises:
        ConfigError: The name is unknown.
        DataError: The file is damaged.
    """
    gpus = load_gpus()
    if name not in gpus:
        raise ConfigError(f"gpu {name!r} is not one of {', '.join(sorted(gpus))}")
    return gpus[name]


def load_memory_logs(path: Path = DATA_DIRECTORY / "memory_logs.csv") -> list[MemoryLog]:
    """Memory lines of public logs.

    Raises:
        DataError: A row does not hold what it must; the message names it.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{k: v or None for k, v in row.items()} for row in csv.DictReader(file)]
    logs = []
    for number, row in enumerate(rows, start=2):
        try:
            logs.append(MemoryLog.model_validate(row))
        except ValidationError as error:
            raise DataError(f"{path}, line {number}: {_first(error)}") from None
    return logs


def load_published_figures(
    path: Path = DATA_DIRECTORY / "published" / "memory_figures.json",
) -> list[PublishedFigure]:
    """The article's memory figures.

    Raises:
        DataError: The file is damaged.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return _PublishedFigures.model_validate_json(text).figures
    except ValidationError as error:
        raise DataError(f"{path}: {_first(error)}") from None


def _first(error: Exception) -> str:
    """The first complaint of an error, on one line."""
    if isinstance(error, ValidationError):
        details = error.errors()[0]
        key = ".".join(str(part) for part in details["loc"])
        return f"key {key!r}: {details['msg']}"
    return " ".join(str(error).split())
