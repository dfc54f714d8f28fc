"""The report of a long run: light enough, and readable by everybody."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from reproduce import profile_store
from tests.conftest import command_line
from tests.synthetic import make_run

pytestmark = pytest.mark.browser

_SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six rungs, three arms, thirty repeats."""
    cpu = profile_store.load("cpu").model_dump()
    arms = {**cpu["arms"], "twin": cpu["arms"]["native"]}
    profile = profile_store.load("cpu", {"arms": arms, "repeats": 30})
    run = make_run(tmp_path_factory.mktemp("long") / "run", profile, {"transformers": 0.99})
    assert len(run.records()) == 6 * 3 * 30
    done = command_line("report", str(run.root))
    assert done.returncode == 0, done.stderr
    return run.root / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        launched = driver.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    # The page allows no script of its own, and axe is one.
    context = browser.new_context(bypass_csp=True)
    yield context.new_page()
    context.close()


def complaints(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {one['nodes'][0]['html'][:150]}"
        for one in found
        if one["impact"] in _SERIOUS
    ]


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page: Page, report: Path, scheme: str, width: int) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert complaints(page) == []


def test_axe_would_find_a_picture_without_words(page: Page, report: Path) -> None:
    page.goto(report.as_uri())
    page.evaluate("document.querySelector('figure img').removeAttribute('alt')")
    assert any(one.startswith("image-alt (critical)") for one in complaints(page))


def test_the_page_is_under_three_megabytes(report: Path) -> None:
    assert report.stat().st_size < 3_000_000


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_scrolls_sideways_but_tables(page: Page, report: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_figure_tells_its_numbers(page: Page, report: Path) -> None:
    page.goto(report.as_uri())
    alts = [image.get_attribute("alt") or "" for image in page.query_selector_all("img")]
    assert alts
    assert all(any(c.isdigit() for c in alt) for alt in alts)
    (ladder,) = [alt for alt in alts if "unbounded" in alt]
    shown = page.inner_text("body")
    for rung in ("c1", "c4", "c8", "c16", "unbounded", "long-context"):
        percent = ladder.split(f"{rung} ")[1].split(" %")[0]
        assert 98 < float(percent) < 100
        assert percent in shown


def test_the_page_needs_no_script(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert "Verdict" in (page.get_attribute(".verdict", "aria-label") or "")
    assert page.is_visible("table")
    context.close()
