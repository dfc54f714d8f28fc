"""What a run directory must not say: who ran it, where they live, on which host, with what keys.

Each trace gives way to what a shell would expand to it: ``~``, ``$USER``, ``$HOSTNAME``,
``$HF_TOKEN``; the checkout's own path becomes ``.``. So a stored profile that names a checkpoint
below the home directory still resumes, for whoever has it there.

A secret is found as it is, as JSON and as an address spell it, and line by line if it has several.
One that is too short to be told from other words is found beside its name. Whatever stands between
``://`` and ``@`` is taken for credentials, wherever it comes from.
"""

import getpass
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from reproduce.handed_over import SECRET_NAME

_CHECKOUT = Path(__file__).resolve().parents[2]
_SHORTEST_SECRET = 8
_USERINFO = re.compile(r"(?<=://)[^\s/@'\"<>\\]+(?=@)")
NOBODY = {"root", "user", "vllm", "localhost", ""}
"""Names that tell nobody from anybody, and that logs use as words."""

# A line break in JSON and the end of a colour code are letters, yet a name may begin after them.
_BEGINS = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=\dm))"
_ENDS = r"(?![A-Za-z0-9])"


def traces() -> dict[str, str]:
    """What gives this user, machine and account away → what stands for it."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = ""
    host = socket.gethostname()
    names = {
        user: "$USER", os.environ.get("USER", ""): "$USER",
        host: "$HOSTNAME", host.partition(".")[0]: "$HOSTNAME",
    }  # fmt: skip
    homes = {str(path): "~" for path in (Path.home(), Path.home().resolve()) if path.name}
    secrets = {
        spelling: f"${name}"
        for name, value in _secrets()
        for line in (value, *value.splitlines())
        for spelling in _spellings(line.strip())
        if len(spelling) >= _SHORTEST_SECRET
    }
    named = {name: sign for name, sign in names.items() if name not in NOBODY}
    return {**named, **homes, **secrets}


def _secrets() -> Iterator[tuple[str, str]]:
    """Variables of this process that hold a secret, by their names, and what they hold."""
    return ((name, value) for name, value in os.environ.items() if SECRET_NAME.search(name.upper()))


def _spellings(secret: str) -> set[str]:
    return {secret, json.dumps(secret)[1:-1], quote(secret, safe="")}


def scrub(text: str) -> str:
    """``text`` with every trace replaced; names and paths only where they stand by themselves."""
    text = _USERINFO.sub("$CREDENTIALS", text)
    for name, value in _secrets():
        if 0 < len(value) < _SHORTEST_SECRET:
            beside = rf"(\b{re.escape(name)}['\"]?\s?[=:]\s?['\"]?){re.escape(value)}{_ENDS}"
            text = re.sub(beside, rf"\g<1>${name}", text)
    return _replace(text, {**traces(), str(_CHECKOUT): "."})


def scrub_bytes(data: bytes) -> bytes:
    """The same for a file's bytes, whatever they are."""
    return scrub(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def portable(path: str) -> str:
    """A path that tells nothing and, expanded as a shell would, leads where it led."""
    return _replace(path, traces())


def _replace(text: str, known: Mapping[str, str]) -> str:
    longest_first = sorted(known, key=len, reverse=True)
    pattern = _BEGINS + "(" + "|".join(map(re.escape, longest_first)) + ")" + _ENDS
    return re.sub(pattern, lambda match: known[match[1]], text)
