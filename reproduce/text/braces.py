"""Many paths in few words: the brace notation of a shell, which expands to exactly these paths."""

import re
import shlex
from collections.abc import Iterable, Sequence

_PLAIN = re.compile(r"[A-Za-z0-9._/@%+-]+")
_COUNTED = re.compile(r"(.*?)(\d{1,9})(\D*)")
_RUN = 3
"""Shorter runs of numbers are listed, longer ones spelled ``{1..3}``."""

Parts = tuple[str, ...]


def braces(paths: Iterable[str]) -> list[str]:
    """``["a/1.x", "a/2.x", "a/3.x", "b/c"]`` → ``["a/{1..3}.x", "b/c"]``.

    Paths with a character that a shell reads otherwise are quoted, one by one.
    """
    listed = sorted(set(paths))
    plain = [path for path in listed if _PLAIN.fullmatch(path)]
    quoted = [shlex.quote(path) for path in listed if not _PLAIN.fullmatch(path)]
    return ["/".join(parts) for parts in _merged([tuple(p.split("/")) for p in plain])] + quoted


def _merged(paths: Sequence[Parts]) -> list[Parts]:
    """Directories with equal contents become one."""
    below: dict[str, list[Parts]] = {}
    for path in filter(None, paths):
        below.setdefault(path[0], []).append(path[1:])
    alike: dict[tuple[Parts, ...], list[str]] = {}
    for name, rests in below.items():
        alike.setdefault(tuple(_merged(rests)), []).append(name)
    ends: list[Parts] = [()] if () in paths else []
    return ends + [(_any_of(names), *rest) for rests, names in alike.items() for rest in rests]


def _any_of(names: Sequence[str]) -> str:
    """Several names as one: ``rep-{01..30}.json``, ``{c1,c4}``."""
    counted: dict[tuple[str, str, int], list[int]] = {}
    for name in names:
        if match := _COUNTED.fullmatch(name):
            shape = match[1], match[3], len(match[2])
            counted.setdefault(shape, []).append(int(match[2]))
    runs = {
        shape: found
        for shape, numbers in counted.items()
        if len(found := _runs(numbers)) < len(numbers)
    }
    words = [
        f"{before}{_one_of([_spelled(run, width) for run in found])}{after}"
        for (before, after, width), found in runs.items()
    ]
    for name in names:
        match = _COUNTED.fullmatch(name)
        if match is None or (match[1], match[3], len(match[2])) not in runs:
            words.append(name)
    return _one_of(words)


def _one_of(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else "{" + ",".join(words) + "}"


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    """Numbers in order, parted where one is missing or a run is too short to spell."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [part for run in runs for part in ([run] if len(run) >= _RUN else [[n] for n in run])]


def _spelled(run: Sequence[int], width: int) -> str:
    if len(run) == 1:
        return f"{run[0]:0{width}d}"
    return f"{{{run[0]:0{width}d}..{run[-1]:0{width}d}}}"
