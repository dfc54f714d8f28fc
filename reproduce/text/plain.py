"""Text from a file → plain data, or why it is none.

A file may come from anywhere. Readers differ on keys that are given twice, on half a character,
on numbers of a thousand digits; a short YAML text can stand for gigabytes. No honest writer needs
any of it, so it is refused here, once, before anything is made of the data.
"""

import json
from collections.abc import Callable
from typing import Any

import yaml

from reproduce.errors import DataError

_LARGEST = 2**64
_SHOWN = 120


class NotPlainError(DataError):
    """The text is not plain data; the message is one line, without the name of the file."""


def from_json(data: bytes) -> Any:
    """One JSON value; NaN and Infinity, which Python writes, are read.

    Raises:
        NotPlainError: it is none, or holds what no writer of results or records writes.
    """
    values = from_json_sequence(data)
    if len(values) != 1:
        raise NotPlainError("Expecting one value, found " + ("more" if values else "none"))
    return values[0]


def from_json_sequence(data: bytes) -> list[Any]:
    """JSON values one after another, as ``vllm bench serve --append-result`` leaves them.

    Raises:
        NotPlainError: see :func:`from_json`.
    """
    values: list[Any] = _guarded(_read_sequence, data)
    return values


def from_yaml(data: bytes | str) -> Any:
    """One YAML document of mappings, lists, text, numbers and dates.

    Raises:
        NotPlainError: it is none, or uses tags, anchors or a key twice.
    """
    return _guarded(lambda text: yaml.load(text, Loader=_Loader), data)  # noqa: S506  a SafeLoader


def _guarded(read: Callable[[Any], Any], data: bytes | str) -> Any:
    try:
        return read(data)
    except UnicodeDecodeError as error:
        raise NotPlainError("not text") from error
    except RecursionError as error:
        raise NotPlainError("nested too deeply") from error
    # Of a malformed scalar PyYAML's constructors raise whatever they happen to stumble over.
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
            yaml.YAMLError) as error:  # fmt: skip
        reason = " ".join(str(error).split()) or type(error).__name__
        raise NotPlainError(reason[:_SHOWN]) from error


def _read_sequence(data: bytes) -> list[Any]:
    text = data.decode("utf-8-sig").strip()
    values, place = [], 0
    while place < len(text):
        value, place = _DECODER.raw_decode(text, place)
        values.append(value)
        while place < len(text) and text[place].isspace():
            place += 1
    if "\\u" in text:
        json.dumps(values, ensure_ascii=False).encode()  # fails on half a surrogate pair
    return values


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotPlainError(f"the key {twice[:40]!r} is given twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


class _Loader(yaml.SafeLoader):
    """YAML without what makes it more than data."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise NotPlainError(f"*{event.anchor}: write the value out, anchors are not read")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value]
        found = super().construct_mapping(node, deep=deep)
        if len(found) < len(names):
            twice = next((name for name in names if names.count(name) > 1), "?")
            raise NotPlainError(f"the key {str(twice)[:40]!r} is given twice")
        return found

    def construct_yaml_int(self, node: Any) -> int:
        number: int = super().construct_yaml_int(node)
        if abs(number) > _LARGEST:
            raise NotPlainError("a number of more than 64 bits")
        return number


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
