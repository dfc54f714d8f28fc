"""A page → a PDF, through whichever Chromium is present."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from reproduce.errors import ConfigError

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_TIMEOUT_S: Final = 180


def browser() -> str:
    """Path of the browser.

    Raises:
        ConfigError: there is none.
    """
    for name in _NAMES:
        if (path := shutil.which(name)) is not None:
            return path
    raise ConfigError(
        "--pdf: no Chromium or Chrome on PATH: install one, or print report.html from any browser"
    )


def render(page: Path) -> Path:
    """Print ``page`` beside itself and return the PDF's path; an older one is replaced.

    Raises:
        ConfigError: there is no browser, or it printed nothing.
    """
    program, target = browser(), page.with_suffix(".pdf")
    with tempfile.TemporaryDirectory(prefix="print-") as scratch:
        draft = Path(scratch) / target.name
        command = [
            program, "--headless", "--disable-gpu", "--no-pdf-header-footer",
            f"--user-data-dir={scratch}/profile", f"--print-to-pdf={draft}",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),  # its sandbox refuses root
            page.absolute().as_uri(),
        ]  # fmt: skip
        try:
            done = subprocess.run(  # noqa: S603  a browser, on a page of ours
                command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
            words = done.stderr.strip().splitlines()[-1:]
        except subprocess.TimeoutExpired:
            words = [f"nothing within {_TIMEOUT_S} s"]
        if not draft.is_file():
            raise ConfigError(f"--pdf: {program} printed nothing: {' '.join(words)[:200]}")
        # Beside it first: a copy over a link would write to where that leads.
        landed = shutil.copyfile(draft, target.with_name(f".{target.name}"))
        landed.replace(target)
    return target
