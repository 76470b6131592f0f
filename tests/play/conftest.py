"""The page in a real Chromium, opened from its file; an error in its console fails the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

import anyseq.play

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

PAGE = Path(anyseq.play.__file__).parent / "page" / "index.html"

OpenPage = Callable[..., "Page"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a worker."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if not CHROMIUM.exists():
        pytest.skip(f"needs Chromium ({CHROMIUM})")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """open_page(tab="design", address=file of the page, width=1280, theme="light", calm=False,
    refused=False): a page of its own. After the test nothing may stand in its console as an error,
    unless the server is to refuse a question, and nothing may have been asked of another place."""
    problems: list[str] = []
    contexts = []

    def note(kind: str, text: str, refused: bool) -> None:
        if kind in ("error", "warning") and not (refused and "status of 400" in text):
            problems.append(f"console {kind}: {text}")

    def note_request(url: str, address: str) -> None:
        place = address.rpartition("/")[0]
        if not url.startswith((place, "data:", "blob:")):
            problems.append(f"request to {url}")

    def opened(
        tab: str = "design",
        *,
        address: str = PAGE.as_uri(),
        width: int = 1280,
        theme: Literal["light", "dark"] = "light",
        calm: bool = False,
        refused: bool = False,
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=theme,
            reduced_motion="reduce" if calm else "no-preference",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("console", lambda said: note(said.type, said.text, refused))
        page.on("request", lambda asked: note_request(asked.url, address))
        page.goto(f"{address}#{tab}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems, problems
