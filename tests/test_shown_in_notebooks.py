"""What a notebook shows of results: escaped, and legible in light and dark."""

from html.parser import HTMLParser
from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.base import table_html, text_html

VOID = {"br", "img", "meta"}


class Tags(HTMLParser):
    """The text, and whether every tag is closed in its turn."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.open, self.seen = "", list[str](), set[str]()
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def named(name: str) -> Any:
    def mask_mod(
        b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        return (i - j).abs() <= 1

    mask_mod.__name__ = name
    return mask_mod


def things() -> dict[str, tuple[Any, list[str]]]:
    design = aq.Design(3)
    reverse = aq.functions["reverse"]
    result = aq.approximate(reverse, design, features=1, tol=0.1)
    model = aq.nn.Transformer(aq.Design(8, aq.Window(1)), dim=8, depth=2, heads=2)
    return {
        "yes": (aq.check(aq.Design(8)), ["Yes at some width", "proof", "equivariant"]),
        "no": (
            aq.check(aq.Design(8, aq.Window(1), position=aq.Rotary())),
            ["No: it cannot tell", "witness", "repair"],
        ),
        "own": (aq.check(named("<b>&"), tokens=8), ["<b>&"]),
        "plan": (aq.plan(design, 1, 0.1, f=reverse), ["3 tokens x 1", "gather", "780", "id bits"]),
        "comparison": (
            aq.compare("full", "window(1), rope", tokens=8, names=["<i>", "B"]),
            ["8 tokens", "<i>", "window(1), rope", "all pairs meet", "Diluted"],
        ),
        "approximation": (result, ['method "gather", certified', "tolerance 0.1", "780"]),
        "explanation": (result.explain([0.1, 0.7, 0.3]), ["1. gather", "token 0"]),
        "audit": (aq.audit(model), ["no fault found", "declared", "checked"]),
        "fault": (aq.audit(model, "causal"), ["found", "This shows the first fault", "future"]),
    }


@pytest.fixture(scope="module")
def shown() -> dict[str, tuple[Any, list[str]]]:
    return things()


@pytest.mark.parametrize(
    "name",
    ["yes", "no", "own", "plan", "comparison", "approximation", "explanation", "audit", "fault"],
)
def test_results_are_shown_in_notebooks(name: str, shown: dict[str, tuple[Any, list[str]]]) -> None:
    thing, words = shown[name]
    html = thing._repr_html_()
    found = Tags(html)
    text = " ".join(found.text.split())
    for word in words:
        assert word in text
    assert found.seen <= {"p", "strong", "table", "thead", "tbody", "tr", "th", "td", "br", "pre"}
    assert "color" not in html, "the notebook's own colours, light or dark"
    assert "background" not in html


def test_everything_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    html = table_html((evil, "b"), [(evil, "1,000")], title=evil, notes=[evil]) + text_html(evil)
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 5
    assert Tags(html).text.count(evil) == 5


def test_numbers_stand_to_the_right() -> None:
    html = table_html(("name", "count"), [("a", "1,000"), ("b", "-")])
    assert html.count("text-align:right") == 3
    assert html.count("text-align:left") == 3
