"""The tabs Network and Attack in Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from anyseq.play import PlayServer
from anyseq.play.shipped import SHIPPED

NAMES = [one.name for one in SHIPPED]


def number(text: str) -> float:
    found = re.search(r"-?\d[\d.]*(e[-+]?\d+)?", text)
    assert found is not None, text
    return float(found[0])


@pytest.fixture
def network(open_page: Any) -> Any:
    return open_page("network")


@pytest.fixture
def attack(open_page: Any) -> Any:
    return open_page("attack")


def outputs(page: Any) -> list[float]:
    cells = page.locator(".network-numbers tbody tr td:nth-child(4)").all_text_contents()
    return [number(cell) for cell in cells]


def test_sliders_move_the_output(network: Any) -> None:
    assert outputs(network) == [0.2, 0.5, 0.7]
    network.get_by_label("Token 0").fill("0.1")
    assert outputs(network) == [0.1, 0.2, 0.5]
    assert network.locator(".network-plot circle").count() == 3
    network.get_by_role("button", name="Equal tokens").click()
    assert outputs(network) == [0.6, 0.6, 0.6]
    assert "is proved" in network.locator(".network-error").text_content()


def test_sliders_and_steps_obey_the_keyboard(network: Any) -> None:
    slider = network.get_by_label("Token 0")
    slider.focus()
    network.keyboard.press("ArrowRight")
    assert outputs(network)[2] == pytest.approx(0.701)
    network.keyboard.press("Home")
    assert outputs(network)[0] == 0
    network.get_by_role("slider", name="Step").focus()
    network.keyboard.press("ArrowRight")
    assert network.locator("output", has_text="layer 1: attention").is_visible()


def test_the_stages_show_what_they_are_about(network: Any) -> None:
    network.get_by_role("button", name="gather").click()
    network.get_by_text("Every token gets its position").wait_for()
    cells = network.locator(".network-stream tbody tr").first.locator("td").all_text_contents()
    assert cells[4:7] == ["0.7", "0.2", "0.5"]
    assert "slots" in network.locator(".network-stream thead").text_content()
    network.get_by_role("button", name="select").click()
    column = network.locator(".network-stream tbody td:nth-child(2)").all_text_contents()
    assert [number(cell) for cell in column] == outputs(network)
    assert network.locator("[aria-current=step]").text_content().startswith("select")


def test_attention_is_a_matrix_for_each_head(network: Any) -> None:
    network.get_by_role("button", name="Step: one step on").click()
    heads = network.locator(".network-heads table")
    assert heads.count() == 3
    for head in range(3):
        for row in heads.nth(head).locator("tbody tr").all():
            assert sum(map(number, row.locator("td").all_text_contents())) == pytest.approx(1)
    network.locator(".network select").first.select_option("running max, causal")
    while not heads.count():
        network.get_by_role("button", name="Step: one step on").click()
    masked = [row.locator("td.masked").count() for row in heads.first.locator("tbody tr").all()]
    assert masked == [2, 1, 0]


def test_play_walks_through_the_steps(network: Any) -> None:
    network.get_by_role("button", name="Step: play").click()
    network.locator("output", has_text="layer 1: feed-forward").wait_for()
    network.get_by_role("button", name="Step: pause").click()


@pytest.mark.parametrize("name", NAMES)
def test_every_network_can_be_walked_through(network: Any, name: str) -> None:
    network.locator(".network select").first.select_option(name)
    for stage in network.locator(".network-stages button").all():
        stage.click()
    assert network.locator(".network-stream td.changed").count() > 0
    last = network.locator(".network-stream tbody td:nth-child(2)").all_text_contents()
    assert [number(cell) for cell in last] == outputs(network)


@pytest.mark.parametrize("name", ["wave", "times the max, window", "sort", "sort, URPE"])
def test_the_computers_attack_stays_below_the_bound(attack: Any, name: str) -> None:
    attack.locator(".attack select").first.select_option(name)
    attack.get_by_role("button", name="Let the computer try").click()
    said = attack.get_by_text("Done after 6,000 inputs")
    said.wait_for()
    assert "No input can pass it: that is proved." in said.text_content()
    assert ("Only rounding is left" in said.text_content()) == name.startswith("sort")
    here, best, bound = map(number, attack.locator(".attack-score dd").all_text_contents())
    assert 0 < here <= best <= bound
    data = attack.evaluate("(name) => Blocks.named(name).data", name)
    x = [number(text) for text in attack.locator(".attack output").all_text_contents()]
    error = attack.evaluate("([name, x]) => Blocks.named(name).error(x)", [name, x])
    assert error <= data["upper"]
    if data["lower"] > 1e-6:
        assert best >= 0.95 * data["lower"]


def test_nothing_is_said_of_an_attack_before_one(attack: Any) -> None:
    verdict = attack.locator(".attack .network-error")
    none = "No attack yet: drag the input, or let the computer try."
    assert verdict.text_content() == none
    attack.locator(".attack select").first.select_option("sort")
    assert verdict.text_content() == f"{none} Only rounding is left to attack here; try wave."
    attack.locator(".attack select").first.select_option("wave")
    attack.get_by_role("button", name="Go to the best").click()
    assert verdict.text_content() == none
    attack.get_by_role("slider", name="Token 0").fill("0.656")
    said = re.fullmatch(
        r"The best attack so far reaches ([\d.]+) % of the bound\. "
        r"No input can pass it: that is proved\.",
        verdict.text_content(),
    )
    assert said is not None
    _, best, bound = map(number, attack.locator(".attack-score dd").all_text_contents())
    assert float(said[1]) == pytest.approx(100 * best / bound, abs=0.15)
    attack.get_by_role("button", name="Reset").click()
    assert verdict.text_content() == none


def test_the_bound_stands_under_its_mark(attack: Any) -> None:
    mark = attack.locator(".attack-gauge .bound").get_attribute("x1")
    name = attack.locator(".attack-gauge text", has_text="proven bound")
    assert (name.get_attribute("x"), name.get_attribute("text-anchor")) == (mark, "middle")
    box = name.evaluate("(text) => { const { x, width } = text.getBBox(); return x + width; }")
    assert box <= 380


WATCHED = """() => {
  window.places = new Set();
  window.progress = 0;
  const watch = () => {
    places.add(document.querySelector(".attack .network-inputs").textContent);
    progress = Math.max(progress, document.querySelector(".attack progress").value);
    requestAnimationFrame(watch);
  };
  watch();
}"""


@pytest.mark.parametrize("calm", [False, True])
def test_the_input_moves_to_better_points_unless_motion_is_unwanted(
    open_page: Any, calm: bool
) -> None:
    page = open_page("attack", calm=calm)
    page.evaluate(WATCHED)
    page.get_by_role("button", name="Let the computer try").click()
    page.get_by_text("Done after 6,000 inputs").wait_for()
    assert page.get_by_role("progressbar").count() == 0
    assert page.evaluate("progress") > 0
    places = page.evaluate("places.size")
    assert places <= 2 if calm else places > 10


def test_a_drag_ends_the_computers_attack(attack: Any) -> None:
    attack.get_by_role("button", name="Let the computer try").click()
    attack.get_by_role("slider", name="Token 0").fill("0.01")
    attack.get_by_text("Stopped after").wait_for()
    assert attack.locator(".attack output").first.text_content() == "0.010"


def test_the_same_seed_is_the_same_search(attack: Any) -> None:
    search = """(seed) => {
      const error = Blocks.named("wave").error;
      const found = AttackSearch.search({ error, tokens: 2, seed, start: [0.5, 0.5] });
      for (let k = 0; k < 300; k++) found.step();
      return [found.best, ...found.x];
    }"""
    first, second, other = (attack.evaluate(search, seed) for seed in (1, 1, 2))
    assert first == second != other


def test_an_attack_can_be_stopped_and_begun_anew(attack: Any) -> None:
    attack.get_by_role("button", name="Let the computer try").click()
    attack.get_by_role("button", name="Stop").click()
    attack.get_by_text("Stopped after").wait_for()
    attack.get_by_role("slider", name="Token 0").fill("0.01")
    _, best, _ = map(number, attack.locator(".attack-score dd").all_text_contents())
    attack.get_by_role("button", name="Reset").click()
    assert attack.locator(".attack output").all_text_contents() == ["0.500", "0.500"]
    here, after, _ = map(number, attack.locator(".attack-score dd").all_text_contents())
    assert here == after <= best
    attack.get_by_role("slider", name="Token 0").fill("0.656")
    attack.get_by_role("slider", name="Token 1").fill("0.594")
    there, top, _ = map(number, attack.locator(".attack-score dd").all_text_contents())
    assert there == top > 0.07
    attack.get_by_role("slider", name="Token 0").fill("0.5")
    attack.get_by_role("button", name="Go to the best").click()
    assert number(attack.locator(".attack-score dd").first.text_content()) == top


@pytest.mark.parametrize("tab", ["network", "attack"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_page(open_page: Any, tab: str, width: int) -> None:
    page = open_page(tab, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_number_stays_on_one_line(open_page: Any) -> None:
    page = open_page("network", width=390)
    for width in range(320, 400, 8):
        page.set_viewport_size({"width": width, "height": 900})
        lines = page.locator(".network-error .network-number").evaluate_all(
            "(numbers) => numbers.map((number) => number.getClientRects().length)"
        )
        assert lines
        assert set(lines) == {1}


def test_a_wide_table_says_that_it_scrolls(open_page: Any) -> None:
    page = open_page("network", width=390)
    page.get_by_text("scroll →").wait_for()
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_text("scroll →").wait_for(state="hidden")


@pytest.mark.parametrize("tab", ["network", "attack"])
def test_every_control_has_a_name(open_page: Any, tab: str) -> None:
    page = open_page(tab)
    nameless = """() => [...document.querySelectorAll("button, input, select")].filter((one) =>
      one.checkVisibility() && !(one.labels?.length || one.textContent.trim()
        || one.getAttribute("aria-label"))).length"""
    assert page.evaluate(nameless) == 0
    assert page.locator("svg:visible:not([role=img])").count() == 0


@pytest.fixture
def address() -> Iterator[str]:
    with PlayServer() as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running.url
        running.shutdown()
        thread.join()


def test_a_formula_typed_in_becomes_a_network(open_page: Any, address: str) -> None:
    served = open_page("network", address=address)
    formula = "min(x[0], x[1]) + 0.25*cos(3*x[i])"
    served.get_by_label("Formula").fill(formula)
    served.get_by_role("button", name="Build the network").click()
    served.get_by_text("Built:").wait_for()
    assert "proved" in served.get_by_text("Built:").text_content()
    assert served.locator(".network-facts code").text_content() == formula
    served.get_by_label("Token 0").fill("0.9")
    served.get_by_label("Token 1").fill("0.4")
    data = served.evaluate("Blocks.all().at(-1)")
    error = served.evaluate(
        "([name, x]) => Blocks.named(name).error(x)", [data["name"], [0.9, 0.4]]
    )
    assert error <= data["upper"] <= 0.1
    assert outputs(served)[0] == pytest.approx(0.4 + 0.25 * -0.904, abs=0.1)
    served.get_by_role("tab", name="Attack").click()
    assert data["name"] in served.locator(".attack select").first.text_content()


def test_what_is_wrong_or_refused_is_said(open_page: Any, address: str) -> None:
    served = open_page("network", address=address, refused=True)
    build = served.get_by_role("button", name="Build the network")
    served.get_by_label("Formula").fill("x[i] + y")
    build.click()
    served.get_by_text("column 8: the name 'y'").wait_for()
    served.get_by_label("Formula").fill("x[0]")
    served.get_by_label("Positions").last.select_option("none")
    build.click()
    served.get_by_text("Refused:").wait_for()
    assert served.locator(".network-said li").count() > 0
