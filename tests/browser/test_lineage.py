"""A number of the report says where it comes from, to the pointer and to the keyboard."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

FILE = "raw/native/launch-01/unbounded/rep-01.json#/total_token_throughput"


@pytest.fixture(autouse=True)
def opened(page: Page, replayed: Path) -> None:
    page.goto(replayed.as_uri())


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.dataset.id || ''"))


def test_the_pointer_and_the_keyboard_get_the_same_words(page: Page) -> None:
    number, tip = page.locator("td .bound", has_text="5,512").first, page.locator("#tip")
    assert not tip.is_visible()
    number.hover()
    told = tip.inner_text()
    assert FILE in told
    assert "unit: tok/s; rounding: half to even, decimals: 0" in told
    page.mouse.move(0, 0)
    assert not tip.is_visible()
    number.focus()
    assert tip.inner_text() == told
    page.keyboard.press("Escape")
    assert not tip.is_visible()


def test_tab_goes_from_block_to_block_and_arrows_from_number_to_number(page: Page) -> None:
    stops = page.locator("main :is(span, img).bound[tabindex='0']").count()
    assert page.locator("main .bound").count() > 5 * stops
    first = page.locator("td .bound", has_text="5,512").first
    first.focus()
    begin = focused(page)
    page.keyboard.press("ArrowRight")
    after = focused(page)
    assert after not in ("", begin)
    assert page.evaluate("document.activeElement.closest('table')") is not None
    page.keyboard.press("ArrowLeft")
    assert focused(page) == begin
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    assert focused(page) == begin


def test_the_tip_stays_on_a_narrow_screen(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 640})
    for number in page.locator("table .bound").all()[:200:20]:
        number.focus()
        box = page.locator("#tip").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
        assert box["y"] >= 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_without_a_script_the_browser_itself_tells(browser: Browser, replayed: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(replayed.as_uri())
    number = page.locator("td .bound", has_text="5,512").first
    told = number.get_attribute("title") or ""
    assert FILE in told
    number.focus()
    assert number.evaluate("element => getComputedStyle(element, '::after').content") == f'"{told}"'
    context.close()


def test_the_list_at_the_end_has_every_bound_number(page: Page) -> None:
    listed = page.locator("#lineage details")
    listed.locator("summary").click()
    told = set(listed.locator("tbody th > code:only-child").all_inner_texts())
    shown = page.eval_on_selector_all("[data-id]", "all => all.map(one => one.dataset.id)")
    assert len(shown) > 300
    assert set(shown) <= told
