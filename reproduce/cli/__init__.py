"""The command line: ``reproduce run``, ``profiles``, ``doctor``, ``report`` and what joins them."""

import contextlib
import os
import signal
import sys
from types import FrameType

import typer
import typer.exceptions

from reproduce.cli import archive as archive_commands
from reproduce.cli import article as article_commands
from reproduce.cli import commands as plan_commands
from reproduce.cli import memory as memory_commands
from reproduce.cli import run as run_commands
from reproduce.cli import verdict as verdict_commands
from reproduce.errors import ReproduceError
from reproduce.outside.terminal import say

app = typer.Typer(
    help="Does vLLM's Transformers modeling backend cost anything? Measure it, and see why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
run_commands.register(app)
memory_commands.register(app)
plan_commands.register(app)
verdict_commands.register(app)
archive_commands.register(app)
article_commands.register(app)

_INTERRUPTED = 130
_ASKED_TO_STOP = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Entry point: a user's mistake is one line and status 2, an interruption status 130."""
    for sign in _ASKED_TO_STOP:
        signal.signal(sign, _interrupt)
    try:
        status = app(standalone_mode=False)
    except ReproduceError as error:
        _fail(str(error))
        status = 2
    except typer.exceptions.TyperException as error:
        _fail(error.format_message())
        status = 2
    except (KeyboardInterrupt, typer.Abort):
        status = _INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone; Python would complain once more while flushing.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        status = 2
    sys.exit(status if isinstance(status, int) else 0)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """Stop at the first request; more of them would only tear the clearing up apart."""
    for sign in _ASKED_TO_STOP:
        signal.signal(sign, signal.SIG_IGN)
    raise KeyboardInterrupt


def _fail(message: str) -> None:
    say(f"error: {' '.join(message.split())}", err=True)
