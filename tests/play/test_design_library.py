"""The Design tab with the library behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from anyseq.play.server import PlayServer

pytest.importorskip("playwright.sync_api", reason="needs playwright")
from playwright.sync_api import Page, expect


@pytest.fixture
def url() -> Iterator[str]:
    server = PlayServer()
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server.url
    server.shutdown()
    thread.join()
    server.server_close()


def ask(page: Page, **fields: str) -> None:
    card = page.get_by_label("The library", exact=True)
    for label, value in fields.items():
        card.get_by_label(label.replace("_", " ")).fill(value)
    card.get_by_role("button", name="Check").click()


def test_a_design_that_the_page_does_not_decide(open_page: Any, url: str) -> None:
    page = open_page(address=url)
    said = page.get_by_label("The library", exact=True).get_by_role("status")
    ask(page, Pattern="causal & window(4)", Tokens="40", Probability_map="topk(2)")
    expect(said).to_contain_text("After 10 layers 780 pairs have not met.", timeout=20000)
    expect(said.get_by_role("heading")).to_have_count(6)  # two norms, three classes of functions
    expect(said).to_contain_text(re.compile("Every function on every input .sup norm.: No"))


def test_a_wrong_pattern_is_named(open_page: Any, url: str) -> None:
    page = open_page(address=url, refused=True)
    ask(page, Pattern="windw(4)")
    said = page.get_by_label("The library", exact=True).get_by_role("status")
    expect(said).to_contain_text("pattern 'windw(4)': windw is unknown")


def test_without_a_server_the_page_names_the_command(open_page: Any) -> None:
    page = open_page()
    assert page.get_by_label("The library", exact=True).count() == 0
    expect(page.get_by_label("Words")).to_contain_text("anyseq play")
