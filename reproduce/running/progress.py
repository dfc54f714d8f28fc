"""Follows a run's journal: a bar with the time left on a terminal, plain lines elsewhere."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from reproduce.outside.rundir import RunDir
from reproduce.text.printable import printable

PLAIN_EVERY_S = 5.0
_POLL_S = 0.5
_WORTH_SAYING_S = 60.0


class Follower:
    """Shows a run's progress while it is open.

    The measuring happens in a notebook's kernel, whose output papermill keeps for itself; the
    journal in the run directory is what both sides see.
    """

    def __init__(self, run: RunDir, console: Console) -> None:
        self._run, self._console = run, console
        self._seen = len(run.events())
        self._total = self._done = 0
        self._stop = threading.Event()
        self._last_line = -PLAIN_EVERY_S
        self._held: str | None = None
        self._end: float | None = None
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[left]}"),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=None, left="")
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> "Follower":
        if self._bar is not None:
            self._bar.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._stop.set()
        self._thread.join()
        if self._held is not None:
            self._print(self._held)
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Show a line now, or within a few seconds where output is not a terminal."""
        text = printable(text)
        if self._bar is not None:
            self._bar.update(self._task, description=text)
            return
        now = time.monotonic()
        if now - self._last_line < PLAIN_EVERY_S:
            self._held = text
            return
        self._print(text)
        self._last_line, self._held = now, None

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _follow(self) -> None:
        while not self._stop.wait(_POLL_S):
            events = self._run.events()
            for event in events[self._seen :]:
                self._show(event)
            self._seen = len(events)
            if self._bar is not None:
                self._bar.update(self._task, left=self._left())
            if self._held is not None and self._bar is None:
                self.say(self._held)

    def _show(self, event: dict[str, Any]) -> None:
        describe: dict[str, Callable[[dict[str, Any]], str]] = {
            "plan": lambda e: f"{e['missing']} of {e['total']} repeats to measure",
            "starting": lambda e: f"starting {e['arm']}, launch {e['launch']}",
            "ready": lambda e: f"servers ready, launch {e['launch']}",
            "failed": lambda e: f"launch {e['launch']} failed: {e['problem']}",
            "retry": lambda e: f"launch {e['launch']} is tried again in {e['wait_s']:.0f} s",
            "repeat": self._describe_repeat,
        }
        kind = str(event.get("event"))
        if kind == "plan":
            self._total = int(event["missing"])
            if self._bar is not None:
                self._bar.update(self._task, total=self._total)
        if kind == "left":
            self._end = time.monotonic() + event["seconds"]
        if kind == "repeat" and event["valid"]:
            self._done += 1
            if self._bar is not None:
                self._bar.update(self._task, completed=self._done)
        if kind in describe:
            self.say(describe[kind](event))

    def _describe_repeat(self, event: dict[str, Any]) -> str:
        what = f"{event['rung']} repeat {event['repeat']} {event['arm']}"
        if not event["valid"]:
            return f"{what}: does not count ({'; '.join(event['reasons'])})"
        text = f"{self._done}/{self._total} {what}: {event['total_tok_s']:,.0f} total tok/s"
        left = "" if self._bar is not None else self._left()
        return f"{text}, {left}" if left else text

    def _left(self) -> str:
        """How long the run still takes, by its own latest estimate; empty without one."""
        seconds = 0.0 if self._end is None else self._end - time.monotonic()
        if seconds < _WORTH_SAYING_S:
            return ""
        hours = seconds / 3600
        return f"about {hours:.1f} h left" if hours >= 1 else f"about {seconds / 60:.0f} min left"
