"""The table of claims can be filtered, by pointer and keyboard, and is whole without a script."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from reproduce.outside.rundir import RunDir
from reproduce.reading import judgement
from reproduce.verdicts.claims import Judged, Standing

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def judged(long_report: Path) -> list[Judged]:
    return judgement.judged_claims(RunDir.open(long_report.parent))


@pytest.fixture(autouse=True)
def opened(page: Page, long_report: Path) -> None:
    page.goto(long_report.as_uri())


def shown(page: Page) -> Locator:
    return page.locator("form.filters + .table tbody tr:visible")


def test_filters_narrow_together_and_say_how_many_are_left(
    page: Page, judged: list[Judged]
) -> None:
    everything = page.inner_text("form.filters output")
    assert everything == f"all {len(judged)} claims"
    assert shown(page).count() == len(judged)

    wanted = [one for one in judged if one.answer.standing is Standing.REPRODUCED]
    page.locator("select[name='verdict']").select_option("reproduced")
    assert shown(page).count() == len(wanted) < len(judged)
    assert page.inner_text("form.filters output") == f"{len(wanted)} of {len(judged)} claims"

    wanted = [one for one in wanted if one.claim.section == "Reproduce"]
    page.locator("select[name='section']").select_option("Reproduce")
    assert shown(page).count() == len(wanted) > 0

    page.get_by_role("searchbox", name="text").fill("LONGEST REQUEST")
    assert shown(page).locator("th").all_inner_texts()[0].startswith("The model's own longest")
    page.get_by_role("searchbox", name="text").fill("no such words")
    assert shown(page).count() == 0
    assert page.inner_text("form.filters output") == f"0 of {len(judged)} claims"

    page.get_by_role("button", name="all claims").click()
    # A reset tells the form only afterwards; the page allows no script but its own to wait with.
    expect(page.locator("form.filters output")).to_have_text(everything)
    assert shown(page).count() == len(judged)


def test_by_the_article_s_own_data(page: Page, judged: list[Judged]) -> None:
    wanted = [one for one in judged if one.consistency.value == "no raw data"]
    page.locator("select[name='own']").select_option("no raw data")
    assert shown(page).count() == len(wanted) > 0


def test_the_keyboard_alone_filters_and_enter_keeps_the_page(page: Page) -> None:
    page.get_by_role("searchbox", name="text").focus()
    page.keyboard.type("cache")
    page.keyboard.press("Enter")
    assert 0 < shown(page).count() < 30
    assert page.url.endswith("report.html")
    visible = page.locator("form.filters + .table tr:visible .bound")
    assert visible.evaluate_all("all => all.filter(one => one.tabIndex === 0).length") == 1


def test_every_claim_is_there_without_a_script(
    browser: Browser, long_report: Path, judged: list[Judged]
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(long_report.as_uri())
    assert not page.is_visible("form.filters")
    assert shown(page).count() == len(judged)
    context.close()
