"""The shell of the page: tabs, theme."""

from __future__ import annotations

from typing import Any


def test_the_page_opens_from_a_file(open_page: Any) -> None:
    page = open_page()
    assert page.title() == "anyseq playground"
    assert page.get_by_role("tab", name="Design").get_attribute("aria-selected") == "true"


def test_the_theme_is_the_systems_until_the_reader_chooses(open_page: Any) -> None:
    page = open_page(theme="dark")

    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    assert background() == "rgb(19, 22, 29)"
    page.get_by_role("button", name="Light colours").click()
    assert background() == "rgb(252, 252, 253)"
    page.reload()
    assert background() == "rgb(252, 252, 253)"


def test_tabs_are_chosen_by_click_by_key_and_by_address(open_page: Any) -> None:
    page = open_page("attack")
    chosen = page.locator('[role=tab][aria-selected="true"]')
    assert chosen.inner_text() == "Attack"
    assert page.get_by_role("tabpanel").count() == 1  # the others are hidden
    page.get_by_role("tab", name="Design").click()
    assert page.url.endswith("#design")
    page.keyboard.press("ArrowRight")
    assert chosen.inner_text() == "Network"
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")  # round to the first
    assert chosen.inner_text() == "Design"
    page.evaluate("window.location.hash = 'network'")
    page.locator("#panel-network").wait_for()
    assert chosen.inner_text() == "Network"


def test_the_first_thing_skips_to_the_content(open_page: Any) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "panels"
    assert page.get_by_role("tab", name="Design").get_attribute("aria-selected") == "true"
