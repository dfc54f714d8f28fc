"""Where the served model comes from, and the directory in which its name resolves."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from reproduce.engine import checkpoint
from reproduce.errors import ConfigError
from reproduce.profile import Model

_HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")


@dataclass(frozen=True)
class ModelSource:
    """A model as vLLM's commands name it.

    Attributes:
        name: what ``vllm serve`` and the client are given; relative, so that no result or log
            carries a path of the machine.
        workdir: directory the commands run in.
        env: environment that keeps a local model from asking a hub.
    """

    name: str
    workdir: Path
    env: dict[str, str]


def resolve(model: Model, cache: Path) -> ModelSource:
    """Find the model; the tiny one is made when it is not there yet.

    Args:
        model: the profile's model.
        cache: directory for made checkpoints.

    Raises:
        ConfigError: a local path that holds no checkpoint, or a name that is nothing.
    """
    offline = {"HF_HUB_OFFLINE": "1"}
    if model.id == checkpoint.NAME:
        path = checkpoint.ensure(cache / "checkpoints", model.seed)
        return ModelSource(path.name, path.parent, offline)
    path = Path(os.path.expandvars(model.id)).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ConfigError(f"model.id: {model.id} holds no config.json: name a checkpoint")
        path = path.resolve()
        if path.name.startswith("-"):
            raise ConfigError(f"model.id: '{path.name}' begins with '-', like a flag: rename it")
        return ModelSource(path.name, path.parent, offline)
    if not _HUB_ID.match(model.id):
        raise ConfigError(
            f"model.id: no checkpoint at '{model.id}': give '{checkpoint.NAME}', "
            "a checkpoint directory or a hub id (owner/name)"
        )
    cache.mkdir(parents=True, exist_ok=True)
    return ModelSource(model.id, cache, {})
