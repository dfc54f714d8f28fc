"""Shared fixtures, and the skips for what a machine lacks."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from reproduce.outside import provenance
from reproduce.outside.rundir import RunDir
from reproduce.plan import ladder
from reproduce.schemas import RepeatRecord, Slot

REPO = provenance.REPO
PUBLISHED = REPO / "data" / "published"

# Two shared cores: how long an example takes says nothing.
settings.register_profile("here", deadline=None)
settings.load_profile("here")

_NEEDS = {
    "engine": (
        lambda: importlib.util.find_spec("vllm") is not None,
        "vLLM is not installed (make test installs it)",
    ),
    "browser": (
        lambda: shutil.which("chromium") is not None,
        "chromium is not installed (.ci/run installs it)",
    ),
    "cluster": (
        lambda: shutil.which("sinfo") is not None,
        "Slurm is not installed (.ci/run installs it)",
    ),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what the machine cannot run; in CI nothing may be skipped for that reason."""
    for marker, (present, reason) in _NEEDS.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        if marked and not present():
            if os.environ.get("CI"):
                raise pytest.UsageError(f"CI lacks what {marker} tests need: {reason}")
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=reason))
    # The engine needs the cores for itself, and the quick tests should fail first.
    items.sort(key=lambda item: any(item.get_closest_marker(m) for m in ("engine", "cluster")))


@pytest.fixture(scope="session")
def published() -> RunDir:
    """The article's data as a run directory."""
    return RunDir.open(PUBLISHED)


def command_line(*arguments: str, cwd: Path = REPO, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the installed ``reproduce`` command."""
    return subprocess.run(
        [shutil.which("reproduce", path=str(Path(sys.executable).parent)) or "", *arguments],
        cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=900,
        check=False,
    )  # fmt: skip


def unmeasured(run: RunDir) -> list[Slot]:
    """Planned repeats that do not count, for another reason than a disturbed machine.

    A slice that meets a disturbance is measured again a bounded number of times; on a machine
    that is never quiet some repeats stay without one that counts, and the run goes on.
    """
    noise = ("disturbed machine", ladder.WITH_PARTNER)
    attempts: dict[Slot, list[RepeatRecord]] = {}
    for record in run.records():
        attempts.setdefault(record.slot, []).append(record)
    return [
        slot
        for slot in ladder.slots(run.profile)
        if not run.is_measured(slot)
        and not (
            attempts.get(slot)
            and all(reason.startswith(noise) for r in attempts[slot] for reason in r.reasons)
        )
    ]
