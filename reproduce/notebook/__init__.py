"""What the notebooks call: one function per cell, each returning something to look at.

One module per subject, so that a notebook imports only what it shows.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython

from reproduce.errors import ConfigError
from reproduce.outside import profile_store
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from reproduce.profile import Profile

RUNS = REPO / "runs"
_PLAIN = (str, int, float, bool, list, dict, type(None))


@dataclass(frozen=True)
class View:
    """Something a notebook cell ends with."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def open_run(namespace: dict[str, Any]) -> RunDir:
    """Open the run that a notebook's parameters name; validate every one of them.

    Args:
        namespace: the notebook's globals. ``run`` is a run directory; when it is empty,
            ``profile`` decides: its latest run, or the kept data of a published one. Any further
            parameter is a key of the profile, so a misspelt one fails here instead of passing
            unnoticed.

    Raises:
        ConfigError: a parameter that is neither, or of the wrong type, or a run of another profile.
    """
    given = _parameters(namespace)
    name, where = given.pop("profile", "published"), given.pop("run", "")
    for key, value in (("profile", name), ("run", where)):
        if not isinstance(value, str):
            raise ConfigError(f"parameter {key}: must be text, found {value!r:.60}")
    if where:
        run = RunDir.open(Path(where).expanduser())
    else:
        run = _run_of(profile_store.load(name, given))
    if profile_store.changed(run.profile, given) != run.profile:
        raise ConfigError(f"{run.root}: was made with other values of {', '.join(given)}")
    return run


def _run_of(profile: Profile) -> RunDir:
    """The kept data of a published profile, the latest run of any other."""
    if profile.source is not None:
        return RunDir.open(REPO / profile.source)
    for manifest in sorted(RUNS.glob("*/manifest.json"), reverse=True):
        run = RunDir.open(manifest.parent)
        if run.profile.name == profile.name:
            return run
    raise ConfigError(f"no run of {profile.name} yet: `reproduce run --profile {profile.name}`")


def _parameters(namespace: dict[str, Any]) -> dict[str, Any]:
    """Parameters among a notebook's globals: what was set before this package was first asked."""
    shell = get_ipython()
    hidden = set(shell.user_ns_hidden) if shell is not None else set()
    names = namespace.setdefault(
        "_reproduce_parameters",
        [
            key
            for key, value in namespace.items()
            if not key.startswith("_") and key not in hidden and isinstance(value, _PLAIN)
        ],
    )
    return {key: namespace[key] for key in names}
