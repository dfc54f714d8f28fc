"""The report in a real browser: it asks nobody for anything, and reads well everywhere."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_it_asks_no_other_host(page: Page, replayed: Path) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(replayed.as_uri(), wait_until="networkidle")
    assert [url for url in asked if not url.startswith("data:")] == [replayed.as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_figure_follows_the_readers_theme(page: Page, replayed: Path, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(replayed.as_uri())
    source = page.evaluate("document.querySelector('figure img').currentSrc")
    listed = page.get_attribute("figure source", "srcset")
    assert (source == listed) is (scheme == "dark")


def test_every_figure_has_an_alt_text_with_numbers(page: Page, replayed: Path) -> None:
    page.goto(replayed.as_uri())
    for image in page.query_selector_all("img"):
        assert any(c.isdigit() for c in image.get_attribute("alt") or "")


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_scrolls_sideways_but_tables(page: Page, replayed: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(replayed.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_contents_lead_somewhere_and_code_is_folded(page: Page, replayed: Path) -> None:
    page.goto(replayed.as_uri())
    links = page.query_selector_all("nav a")
    assert len(links) >= 5
    for link in links:
        target = (link.get_attribute("href") or "").removeprefix("#")
        assert page.evaluate("id => document.getElementById(decodeURIComponent(id))", target)
    assert page.query_selector("details.code[open]") is None
    assert page.query_selector("h1 ~ * .verdict, .verdict") is not None
