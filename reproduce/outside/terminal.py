"""The terminal: what is printed is shown as it is, whatever file it comes from."""

from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from reproduce.text.printable import printable


class PlainConsole(Console):
    """A console for tables of text that may come from anywhere: no markup, no control codes."""

    def __init__(self) -> None:
        super().__init__(markup=False, highlight=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """See the base class; every string that is printed comes by here, cells included."""
        return super().render_str(printable(text), **options)


def say(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print a line."""
    typer.echo(printable(str(text)), err=err, nl=nl)
