"""A profile → a run directory, its notebooks executed in order, its report rendered."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from reproduce import errors
from reproduce.outside import crate, privacy, provenance
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import write_atomic
from reproduce.profile import Profile
from reproduce.running import kernels

NOTEBOOKS = REPO / "notebooks"
REPORT = "05_report"
_READERS = 4
_SAFE_PATH = "PYTHONSAFEPATH"


def create(profile: Profile, runs: Path) -> RunDir:
    """Make the run directory; a published profile's raw files are copied into it.

    The name sorts by time and differs between runs that start in the same second.
    """
    # A hub id is public; a path may name who keeps it.
    if Path(profile.model.id).expanduser().is_dir():
        model = profile.model.model_copy(update={"id": privacy.portable(profile.model.id)})
        profile = profile.model_copy(update={"model": model})
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
    root = runs / f"{stamp}-{profile.name}-{secrets.token_hex(2)}"
    if profile.source is None:
        return RunDir.create(root, profile, provenance.collect())
    kept = RunDir.open(REPO / profile.source)
    run = RunDir.create(
        root, profile, {**kept.manifest.provenance, "replayed": provenance.collect()}
    )
    shutil.copytree(kept.root / "raw", root / "raw")
    run.add_raw(*kept.manifest.files)
    return run


def execute(run: RunDir, say: Callable[[str], None], *, measuring: bool = True) -> Path:
    """Run the notebooks in order and render the report.

    A notebook that fails does not keep the later ones from showing what there is; the first
    failure is raised once the report is written.

    Args:
        run: the run directory; executed notebooks and the report go into it.
        say: gets one line per notebook.
        measuring: False to rebuild from what is on file.

    Raises:
        NotebookError: a notebook failed.
        StorageError: the run directory does not take what is written.
    """
    first, *others = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    # The kernels work inside the run directory, so that no path of the machine is a parameter.
    with contextlib.chdir(run.root), _importing_nothing_from_here():
        failures: list[errors.ReproduceError | None] = []
        if measuring and run.profile.kind == "measured":
            from reproduce.running import execution  # noqa: PLC0415

            failures.append(execution.attempt(run, first, say))
        elif measuring:
            others.insert(0, first)
        # The others only read: what the first one measured, or what was published.
        with kernels.forked() as manager, ThreadPoolExecutor(max_workers=_READERS) as pool:
            # Both take long to import: meanwhile the kernels' process imports what it needs.
            from reproduce.running import execution, report  # noqa: PLC0415

            failures += pool.map(lambda one: execution.attempt(run, one, say, manager), others)
    # A disk that takes no notebook takes no report.
    for failure in failures:
        if isinstance(failure, errors.StorageError):
            raise failure
    path = report.render(run, run.derived("notebooks") / f"{REPORT}.ipynb")
    describe(run)
    for failure in failures:
        if failure is not None:
            raise failure
    return path


@contextlib.contextmanager
def _importing_nothing_from_here() -> Iterator[None]:
    """Have kernels look for modules elsewhere than in their directory, which may be anybody's."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


def describe(run: RunDir) -> None:
    """Make the run directory an RO-Crate, as it is now."""
    now = RunDir.open(run.root)  # a kernel has measured since
    about = crate.metadata(now.root, now.manifest, now.profile.description)
    write_atomic(now.root / crate.NAME, about)
