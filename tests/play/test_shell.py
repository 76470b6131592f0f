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
