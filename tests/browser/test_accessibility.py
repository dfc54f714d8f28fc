"""The report of a long run: light enough, and readable by everybody."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

_SERIOUS = {"serious", "critical"}
SHORTEN = "document.querySelectorAll('#lineage tbody:nth-of-type(n+6)').forEach(e => e.remove())"
"""The table of lineage repeats itself; a few groups of rows show what can be wrong with all."""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    # The page allows no script but its own, and axe is one.
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
def test_axe_finds_nothing_serious(page: Page, long_report: Path, scheme: str, width: int) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(long_report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.evaluate(SHORTEN)
    assert complaints(page) == []


def test_axe_would_find_a_picture_without_words(page: Page, long_report: Path) -> None:
    page.goto(long_report.as_uri())
    page.evaluate("document.querySelector('figure img').removeAttribute('alt')")
    assert any(one.startswith("image-alt (critical)") for one in complaints(page))


def test_the_page_is_under_three_megabytes(long_report: Path) -> None:
    assert long_report.stat().st_size < 3_000_000


def test_a_keyboard_is_not_led_through_every_number(page: Page, long_report: Path) -> None:
    page.goto(long_report.as_uri())
    stops = "all => all.filter(one => one.tabIndex === 0 && one.checkVisibility()).length"
    assert page.locator("body *").count() < 12_000
    assert page.locator("body *").evaluate_all(stops) < 150


def test_the_script_is_done_before_the_page_is_loaded(page: Page, long_report: Path) -> None:
    """Interactive at once: what a reader can use does not wait for anything."""
    page.goto(long_report.as_uri(), wait_until="domcontentloaded")
    assert page.is_visible("form.filters")


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_scrolls_sideways_but_tables(page: Page, long_report: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(long_report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_figure_tells_its_numbers(page: Page, long_report: Path) -> None:
    page.goto(long_report.as_uri())
    alts = [image.get_attribute("alt") or "" for image in page.query_selector_all("img")]
    assert alts
    assert all(any(c.isdigit() for c in alt) for alt in alts)
    (ladder,) = [alt for alt in alts if "unbounded" in alt]
    shown = page.inner_text("body")
    for rung in ("c1", "c4", "c8", "c16", "unbounded", "long-context"):
        percent = ladder.split(f"{rung} ")[1].split(" %")[0]
        assert 98 < float(percent) < 100
        assert percent in shown


def test_the_page_needs_no_script(browser: Browser, long_report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(long_report.as_uri())
    assert "Verdict" in (page.get_attribute(".verdict", "aria-label") or "")
    assert page.is_visible("table")
    context.close()
