"""What a profile may hand to a process: flags and variables, and which of them it may not.

A profile may come from elsewhere, inside a run directory for one. It decides what vLLM serves and
how; it does not decide what else runs on the machine, where files are written, or who is asked.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator

FlagValue = bool | int | float | str
REMOTE_CODE: Final = "trust-remote-code"
"""The one flag that lets code which is not vLLM's into an engine; a report names it."""

SECRET_NAME: Final = re.compile(
    r"(TOKEN|API_?KEY|[^A-Z]KEY|^KEY|KEY_ID|SECRET|PASSWORD|PASSWD|PASSPHRASE|[^A-Z]P(?:WD|AT)"
    r"|CREDENTIALS?)(_?\d+)?$"
)
"""Names of variables and flags, in capitals with underscores, whose values are secrets."""

_FLAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_NEGATIVE = re.compile(r"-\.?\d")

_CODE: Final = "would load code that is not vLLM's"
_BOTH: Final = {
    "api-key": "is made anew for each start",
    "config": "would hide flags from the report: write them here",
    "hf-token": "is a secret: export HF_TOKEN",
    "model": "is the profile's model.id",
}
_SERVE: Final = _BOTH | dict.fromkeys(
    ("io-processor-plugin", "log-config-file", "logging-config", "logits-processors", "middleware",
     "model-class-overrides", "reasoning-parser-plugin", "scheduler-cls", "tool-parser-plugin",
     "worker-cls", "worker-extension-cls"), _CODE,
)  # fmt: skip
_CLIENT: Final = _BOTH | dict.fromkeys(
    ("append-result", "base-url", "host", "port", "result-dir", "result-filename"),
    "is the harness's own: it says whom the client asks and where it writes",
)
_DECIDES_CODE = re.compile(
    r"LD_.*|DYLD_.*|PYTHON.*|BASH.*|GLIBC_.*|GCONV_.*|PERL.*|RUBY.*|GIT_.*|NODE_.*|SSH_.*"
    r"|SHELL.*|.*PATH|ENV|IFS|HOME|CC|CXX|EDITOR|PAGER"
)


def _flags(flags: dict[str, FlagValue], refused: Mapping[str, str]) -> dict[str, FlagValue]:
    for name, value in flags.items():
        if not _FLAG.fullmatch(name):
            raise ValueError(f"{name!r:.60} is not the name of a flag: write it without dashes")
        plain = canonical(name)
        if SECRET_NAME.search(plain.replace("-", "_").upper()):
            raise ValueError(f"{name}: {_NO_SECRETS}")
        # vLLM takes the beginning of a flag for the flag, and what follows a dot for a part of it.
        meant = plain.partition(".")[0].rstrip("+")
        for other, reason in {**refused, REMOTE_CODE: "write it out"}.items():
            if other.startswith(meant) and not (other == REMOTE_CODE == meant):
                raise ValueError(f"{name}: {other} {reason}")
        if isinstance(value, str):
            if value.startswith("-") and not _NEGATIVE.match(value):
                raise ValueError(f"{name}: {value!r:.40} would be read as a flag of its own")
            _refuse_control(name, value)
    return flags


def canonical(name: str) -> str:
    """A flag's name as vLLM reads it: ``trust_remote_code`` is ``trust-remote-code``."""
    return name.replace("_", "-")


def _serve(flags: dict[str, FlagValue]) -> dict[str, FlagValue]:
    return _flags(flags, _SERVE)


def _client(flags: dict[str, FlagValue]) -> dict[str, FlagValue]:
    return _flags(flags, _CLIENT)


_NO_SECRETS: Final = "a secret does not belong in a profile, which is kept with the run: export it"


def _environment(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name!r:.60} is not the name of a variable")
        if SECRET_NAME.search(name.upper()):
            raise ValueError(f"{name}: {_NO_SECRETS}")
        if _DECIDES_CODE.fullmatch(name.upper()):
            raise ValueError(f"{name}: decides what programs are run: export it, if you mean it")
        # Libraries, plug-ins, caches and hubs are all named by a path or an address.
        if "/" in value or value.startswith("~"):
            raise ValueError(f"{name}: a path or an address is the machine's matter: export it")
        _refuse_control(name, value)
    return env


def _refuse_control(name: str, value: str) -> None:
    if _CONTROL.search(value):
        raise ValueError(f"{name}: holds a control character")


ServeFlags = Annotated[dict[str, FlagValue], AfterValidator(_serve)]
ClientFlags = Annotated[dict[str, FlagValue], AfterValidator(_client)]
Environment = Annotated[dict[str, str], AfterValidator(_environment)]
