"""The notebooks in a real JupyterLab: opened, run and turned by a real browser."""

import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, sync_playwright

from reproduce.engine.server import free_port
from reproduce.outside.provenance import REPO

pytestmark = pytest.mark.browser

START_LIMIT_S = 120
PATIENCE_MS = 120_000
BARS = 'svg[aria-label^="Memory of one GPU"]'


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with nobody's settings, on copies of the notebooks; its address with the token."""
    home = tmp_path_factory.mktemp("lab")
    shutil.copytree(REPO / "notebooks", home / "notebooks")
    port, token = free_port("127.0.0.1"), secrets.token_hex(16)
    places = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR",
              "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")  # fmt: skip
    env = {**os.environ, **{place: str(home / place.lower()) for place in places}}
    log = home / "lab.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1",
             f"--port={port}", "--ServerApp.port_retries=0", "--allow-root",
             f"--IdentityProvider.token={token}", f"--notebook-dir={home / 'notebooks'}"],
            stdout=output, stderr=output, env=env, cwd=home,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + START_LIMIT_S
        while not answers(f"{url}/api/status?token={token}"):
            assert server.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.3)
        yield f"{url}/lab/tree/{{notebook}}?token={token}&reset"
    finally:
        server.terminate()
        server.wait(30)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  our own server
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture
def page() -> Iterator[Page]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1400, "height": 1600})
        page.set_default_timeout(PATIENCE_MS)
        yield page
        browser.close()


def run_all(page: Page, lab: str, notebook: str) -> None:
    """Open a notebook and run every cell of it, through the menu."""
    page.goto(lab.format(notebook=notebook))
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    page.locator(".lm-MenuBar-item", has_text="Run").first.click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def scrolled_to(page: Page, what: str) -> Locator:
    """Something in the notebook; cells are drawn only once they come into view."""
    found = page.locator(f".jp-Notebook {what}").first
    panel = page.locator(".jp-Notebook .jp-WindowedPanel-outer").first
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not found.count():
        assert time.monotonic() < deadline, what
        panel.evaluate(
            "e => e.scrollTop + e.clientHeight < e.scrollHeight - 2"
            " ? e.scrollBy(0, 500) : e.scrollTo(0, 0)"
        )
        page.wait_for_timeout(300)
    found.scroll_into_view_if_needed()
    return found


def test_a_slider_of_the_planner_moves_the_bars(page: Page, lab: str) -> None:
    run_all(page, lab, "explore.ipynb")
    bars = scrolled_to(page, BARS)
    before = bars.get_attribute("aria-label") or ""
    assert "TP8 × PP2 × EP8 on h100-80gb" in before
    assert bars.locator("title", has_text="routed experts").count() == 2
    slider = page.locator(".widget-hslider", has_text="PP").locator('[role="slider"]')
    slider.focus()
    slider.press("ArrowRight")
    moved = page.locator(f'{BARS}[aria-label*="TP8 × PP4 × EP8"]')
    moved.wait_for()
    assert moved.locator("title", has_text="routed experts").count() == 4


def test_the_other_explorers_answer(page: Page, lab: str) -> None:
    run_all(page, lab, "explore.ipynb")
    metric = scrolled_to(page, ".widget-dropdown:has-text('metric') select")
    metric.select_option(label="Mean TPOT")
    page.locator(".rp b", has_text="Mean TPOT").wait_for()
    scrolled_to(page, "button:has-text('expected against found')").click()
    page.locator(".rp caption", has_text="must map").wait_for()


def test_the_verdict_runs_with_its_default_parameters(page: Page, lab: str) -> None:
    run_all(page, lab, "04_verdict.ipynb")
    verdict = scrolled_to(page, ".verdict")
    assert "The article's own numbers" in (verdict.text_content() or "")
    scrolled_to(page, "p:has-text('Kept data: tables and figures are shown')")
    assert page.locator('[data-mime-type="application/vnd.jupyter.stderr"]').count() == 0
