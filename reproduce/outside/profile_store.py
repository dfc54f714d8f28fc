"""Profiles on disk: find, extend, override, and say in one line what is wrong with one."""

import difflib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from reproduce.errors import ConfigError
from reproduce.profile import Profile
from reproduce.text import plain

BUILT_IN = Path(__file__).parents[1] / "profiles"
_MAX_EXTENDS = 8


def names() -> list[str]:
    """Names of the profiles that come with the package."""
    return sorted(path.stem for path in BUILT_IN.glob("*.yaml"))


def load(name: str, overrides: Mapping[str, Any] | None = None) -> Profile:
    """Load a profile by name, or from a YAML file, and override some of its keys.

    Args:
        name: a built-in name, or a path ending in .yaml.
        overrides: dotted key → value, as in ``{"server.port": 8241, "repeats": 5}``.

    Raises:
        ConfigError: no such profile, or the file, a key or a value is wrong.
    """
    data, path = _read(name, depth=0)
    for key, value in (overrides or {}).items():
        _override(data, key, value)
    return _validate(data, path, overridden=set(overrides or ()))


def changed(profile: Profile, overrides: Mapping[str, Any]) -> Profile:
    """A profile that was loaded already, with some of its keys overridden.

    Raises:
        ConfigError: a key or a value is wrong.
    """
    data = profile.model_dump(mode="json")
    for key, value in overrides.items():
        _override(data, key, value)
    return _validate(data, Path(profile.name), overridden=set(overrides))


def parse_overrides(items: Iterable[str]) -> dict[str, Any]:
    """``["repeats=5", "model.id=/m"]`` → a mapping, values read as YAML scalars.

    Raises:
        ConfigError: an item is not KEY=VALUE.
    """
    parsed: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"-p {item}: write KEY=VALUE, as in -p repeats=5")
        try:
            parsed[key.strip()] = plain.from_yaml(text) if text else ""
        except plain.NotPlainError as error:
            raise ConfigError(f"-p {item}: the value is not a YAML value ({error})") from error
    return parsed


def _read(name: str, depth: int) -> tuple[dict[str, Any], Path]:
    path = Path(name) if name.endswith((".yaml", ".yml")) else BUILT_IN / f"{name}.yaml"
    if depth > _MAX_EXTENDS:
        raise ConfigError(f"{path}: extends: profiles extend one another in a circle")
    try:
        data = plain.from_yaml(path.read_bytes())
    except FileNotFoundError as error:
        near = difflib.get_close_matches(name, names(), 1)
        hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(names())}"
        raise ConfigError(f"profile '{name}': no such profile; {hint}") from error
    except (OSError, ValueError, plain.NotPlainError) as error:
        reason = " ".join(str(error).split())[:160]
        raise ConfigError(f"{path}: not readable as YAML ({reason})") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: must hold a mapping of keys")
    parent = data.pop("extends", None)
    if parent is None:
        return data, path
    if not isinstance(parent, str):
        raise ConfigError(f"{path}: extends: must be a profile's name")
    base, _ = _read(parent, depth + 1)
    return _merge(base, data), path


def _merge(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in top.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _merge(old, value) if both else value  # type: ignore[arg-type]
    return merged


def _override(data: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    # A rung's or a flag's own name may hold no dot, so every dot is a step down.
    place = data
    for parent in parents:
        step = place.setdefault(parent, {})
        if not isinstance(step, dict):
            raise ConfigError(f"{key}: '{parent}' holds no keys of its own")
        place[parent] = place = dict(step)
    # Environment values are text, whatever they look like.
    if parents and parents[-1] == "env" and isinstance(value, int | float):
        value = format(int(value) if isinstance(value, bool) else value)
    place[last] = value


def _validate(data: dict[str, Any], path: Path, overridden: set[str]) -> Profile:
    try:
        # JSON mode is strict about types (true is no number) and still makes tuples of lists.
        return Profile.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise ConfigError(_explain(error, path, overridden)) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: holds a value that is not plain data ({error})") from error


def _explain(error: ValidationError, path: Path, overridden: set[str]) -> str:
    first = error.errors()[0]
    steps = [str(step) for step in first["loc"]]
    key = ".".join(steps) or "profile"
    where = f"-p {key}" if key in overridden else f"{path}: {key}"
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(steps[-1], _keys_beside(steps), 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        return f"{where}: no such key{hint}"
    if first["type"] == "missing":
        return f"{where}: is missing"
    message = first["msg"].removeprefix("Value error, ")
    given = f", found {first['input']!r:.60}" if first["type"] != "value_error" else ""
    return f"{where}: {message}{given}" if first["loc"] else f"{path}: {message}"


def _keys_beside(steps: list[str]) -> list[str]:
    model: Any = Profile
    for step in steps[:-1]:
        field = model.model_fields.get(step) if _is_model(model) else None
        model = field.annotation if field is not None else None
    return list(model.model_fields) if _is_model(model) else []


def _is_model(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseModel)
