"""Reports made once for all browser tests, and a browser to read them with."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.conftest import command_line
from tests.synthetic import make_long_run


@pytest.fixture(scope="session")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on the article's own data."""
    runs = tmp_path_factory.mktemp("runs")
    done = command_line("run", "--profile", "published", "--runs", str(runs))
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip().splitlines()[-1])


@pytest.fixture(scope="session")
def long_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on six rungs, three arms, thirty repeats."""
    run = make_long_run(tmp_path_factory.mktemp("long") / "run")
    assert len(run.records()) == 6 * 3 * 30
    done = command_line("report", str(run.root))
    assert done.returncode == 0, done.stderr
    return run.root / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        launched = driver.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page; what a page complains of on its console fails the test."""
    context = browser.new_context()
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    yield page
    assert said == []
    context.close()
