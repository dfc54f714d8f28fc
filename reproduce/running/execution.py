"""One notebook executed by papermill, and what the machine left in it taken out."""

import contextlib
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

import nbformat
import papermill
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from reproduce import errors
from reproduce.outside import privacy
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import write_atomic

# What papermill logs on standard error comes with the exception as well, which becomes one line.
logging.getLogger("papermill").addHandler(logging.NullHandler())


class NotebookError(errors.ReproduceError):
    """A notebook stopped; the message names it, the cell and the reason."""


def attempt(
    run: RunDir, source: Path, say: Callable[[str], None],
    manager: type[AsyncKernelManager] = AsyncKernelManager,
) -> errors.ReproduceError | None:  # fmt: skip
    """Announce and :func:`execute` a notebook; what went wrong is returned, not raised."""
    say(source.stem)
    try:
        execute(run, source, manager)
    except errors.ReproduceError as error:
        return error
    return None


def execute(
    run: RunDir, source: Path, manager: type[AsyncKernelManager] = AsyncKernelManager
) -> None:
    """Execute the notebook ``source`` into the run directory, which is its kernel's as well.

    Args:
        run: the run directory.
        source: the notebook, without outputs.
        manager: starts and ends the kernel.

    Raises:
        NotebookError: a cell failed, or the kernel died.
        StorageError: the run directory does not take the executed notebook.
    """
    target = run.derived("notebooks") / source.name
    parameters = {"profile": run.profile.name, "run": "."}
    try:
        with tempfile.TemporaryDirectory(prefix="kernel-") as sockets:
            # Local sockets: no port is taken, and nobody else can listen.
            kernel = {"transport": "ipc", "ip": f"{sockets}/kernel"}
            papermill.execute_notebook(
                source,
                target,
                parameters=parameters,
                kernel_name="python3",
                progress_bar=False,
                config=Config({"KernelManager": kernel}),
                kernel_manager_class=manager,
                shutdown_kernel="immediate",
            )
    except PapermillExecutionError as error:
        reason = " ".join(error.evalue.split())
        ours = isinstance(getattr(errors, error.ename, None), type)
        kind = "" if ours else f"{error.ename}: "
        raise NotebookError(
            f"notebooks/{source.name}, cell {error.cell_index}: {kind}{reason}"
        ) from error
    except (DeadKernelError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise NotebookError(f"notebooks/{source.name}: its kernel failed ({reason})") from error
    except OSError as error:
        raise errors.StorageError(target, error) from error
    finally:
        _forget_places(target)


def _forget_places(notebook: Path) -> None:
    """Take the machine's paths out of an executed notebook: its metadata, its tracebacks."""
    with contextlib.suppress(FileNotFoundError, nbformat.reader.NotJSONError):
        book = nbformat.read(notebook, as_version=4)
        about = book.metadata.get("papermill", {})
        for key in ("input_path", "output_path"):
            about[key] = notebook.name
        for output in (o for cell in book.cells for o in cell.get("outputs", [])):
            for key in output.keys() & {"text", "evalue"}:
                output[key] = privacy.scrub(output[key])
            if "traceback" in output:
                output["traceback"] = [privacy.scrub(line) for line in output["traceback"]]
        write_atomic(notebook, nbformat.writes(book).encode() + b"\n")
