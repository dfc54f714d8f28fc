"""A number of the report says where it comes from, to the pointer, the keyboard and the printer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from tests.conftest import command_line

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    runs = tmp_path_factory.mktemp("runs")
    done = command_line("run", "--profile", "published", "--runs", str(runs))
    assert done.returncode == 0, done.stderr
    (report,) = Path(runs).glob("*/report.html")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.goto(report.as_uri())
        yield page
        browser.close()


def test_the_pointer_and_the_keyboard_get_the_same_words(page: Page) -> None:
    number = page.locator(".bound", has_text="5,512").first
    told = number.get_attribute("title") or ""
    assert "raw/native/launch-01/unbounded/rep-01.json#/total_token_throughput" in told
    shown = "element => getComputedStyle(element, '::after').content"
    assert number.evaluate(shown) == "none"
    number.focus()
    assert number.evaluate(shown) == f'"{told}"'


def test_the_list_at_the_end_has_every_number_that_is_underlined(page: Page) -> None:
    listed = page.locator("details", has_text="numbers, each with its raw files")
    listed.locator("summary").click()
    told = set(listed.locator("tbody tr td:nth-child(3)").all_inner_texts())
    assert listed.locator("tbody tr").count() > 50
    numbers = page.locator(".bound").all()
    assert numbers
    assert {number.get_attribute("title") for number in numbers} <= told
