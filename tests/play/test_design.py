"""The tab "Design" as a reader uses it: pointer, keyboard, screen reader, small screens."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="needs playwright")
from playwright.sync_api import Locator, Page, expect


def cell(page: Page, i: int, j: int) -> Locator:
    return page.locator(f'.design-cell[data-i="{i}"][data-j="{j}"]').first


def is_on(page: Page, i: int, j: int) -> bool:
    return cell(page, i, j).get_attribute("aria-selected") == "true"


def control(page: Page, label: str) -> Locator:
    """The input, or the select, of that label."""
    return page.locator("input, select").and_(page.get_by_label(label, exact=True))


def answer(page: Page) -> str:
    return page.locator(".design-word").inner_text()


def slide(page: Page, label: str, value: float) -> None:
    """A slider, moved as a reader moves it."""
    control(page, label).evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", value
    )


def test_a_click_toggles_a_cell_and_the_pattern_is_then_painted(open_page: Any) -> None:
    page = open_page()
    assert not is_on(page, 0, 7)
    cell(page, 0, 7).click()
    assert is_on(page, 0, 7)
    assert control(page, "Mask: pattern").input_value() == "painted"
    expect(cell(page, 0, 7)).to_have_accessible_name("token 0 attends to token 7")
    cell(page, 0, 7).click()
    assert not is_on(page, 0, 7)
    expect(cell(page, 0, 7)).to_have_accessible_name("token 0 does not attend to token 7")


def test_a_drag_paints_all_that_it_crosses_with_one_value(open_page: Any) -> None:
    page = open_page()
    boxes = [cell(page, 0, j).bounding_box() for j in (3, 7)]
    start, end = ((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
                  for box in boxes if box is not None)  # fmt: skip
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=20)
    page.mouse.up()
    assert [is_on(page, 0, j) for j in range(8)] == [True, True, False] + [True] * 5
    page.mouse.move(start[0], start[1] + 40)  # the brush is up again
    assert not is_on(page, 1, 3)


def test_the_grid_is_painted_by_keyboard(open_page: Any) -> None:
    page = open_page()
    assert page.locator('.design-cell[tabindex="0"]').count() == 1
    cell(page, 0, 0).focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "Space"):
        page.keyboard.press(key)
    assert is_on(page, 1, 3)
    page.keyboard.press("Space")
    assert not is_on(page, 1, 3)
    page.keyboard.press("End")
    page.keyboard.press("Space")
    assert is_on(page, 1, 7)
    page.keyboard.press("ArrowRight")  # there is nothing further
    expect(cell(page, 1, 7)).to_be_focused()


def test_patterns_and_their_numbers(open_page: Any) -> None:
    page = open_page()
    control(page, "Mask: pattern").select_option("dilated")
    assert [is_on(page, 0, j) for j in range(8)] == [True, False, True] + [False] * 5
    slide(page, "Mask: step", 3)
    assert [is_on(page, 0, j) for j in range(8)] == [True, False, False, True] + [False] * 4
    control(page, "Mask: earlier tokens only (causal)").check()
    assert not is_on(page, 0, 3)
    assert is_on(page, 3, 0)


def test_bos_and_tokens_keep_what_was_painted(open_page: Any) -> None:
    page = open_page()
    cell(page, 0, 7).click()
    control(page, "BOS token first").check()
    assert page.get_by_role("rowheader").first.inner_text() == "BOS"
    assert is_on(page, 1, 8)  # the same pair of tokens, one further
    assert all(is_on(page, i, 0) for i in range(9))
    control(page, "BOS token first").uncheck()
    slide(page, "Tokens", 9)
    assert is_on(page, 0, 7)
    assert is_on(page, 8, 8)
    assert page.get_by_role("gridcell").count() == 81


def test_layers_may_take_two_masks_in_turn(open_page: Any) -> None:
    page = open_page()
    control(page, "Positions").select_option("absolute")
    control(page, "Mask: pattern").select_option("blocks")
    assert answer(page) == "No"
    page.get_by_label("Every other layer has a mask of its own").check()
    control(page, "Second mask: pattern").select_option("residue")
    assert answer(page) == "Yes"
    assert "in 3 layers" in page.locator(".design-verdict").inner_text()


def test_the_four_answers_and_a_repair(open_page: Any) -> None:
    page = open_page()
    assert answer(page) == "No"
    page.get_by_role("button", name="Yes: every function on almost every input (Lᵖ)").click()
    assert answer(page) == "Yes"
    assert page.get_by_label("Witness").is_hidden()
    page.get_by_role("button", name="No: every function on every input (sup norm)").click()
    page.get_by_role("button", name="Prepend a BOS token").click()
    assert answer(page) == "Yes"
    assert control(page, "BOS token first").is_checked()
    expect(page.locator("#announcer")).to_have_text(
        re.compile("Yes. Every token has its position after")
    )


def test_a_screen_reader_is_told_the_verdict_and_nothing_of_another_tab(open_page: Any) -> None:
    page = open_page()
    said = page.locator("#announcer")
    expect(said).to_be_empty()
    cell(page, 0, 7).click()
    expect(said).to_have_text("No. Identical tokens stay identical at all 8 positions.")
    page.get_by_role("tab", name="Network").click()
    expect(said).to_have_text(re.compile("The error is"))
    page.get_by_label("Token 0").last.fill("0.1")  # said in a moment, but not in another tab
    page.get_by_role("tab", name="Design").click()
    page.wait_for_timeout(700)
    expect(said).to_be_empty()
    cell(page, 0, 7).focus()
    page.keyboard.press("Space")
    expect(said).to_have_text("No. Identical tokens stay identical at all 8 positions.")
    control(page, "Positions").select_option("urpe")
    expect(said).to_have_text(re.compile("Yes. "))


def test_new_tokens_of_a_painted_mask_are_pointed_out(open_page: Any) -> None:
    page = open_page()
    note = page.get_by_text("paint on")
    slide(page, "Tokens", 9)
    expect(note).to_be_hidden()  # a pattern goes on by itself
    slide(page, "Tokens", 8)
    cell(page, 0, 7).click()
    expect(note).to_be_hidden()
    slide(page, "Tokens", 9)
    expect(note).to_have_text("Token 8 attends to itself only: paint on.")
    slide(page, "Tokens", 10)
    expect(note).to_have_text("Tokens 8, 9 attend to themselves only: paint on.")
    cell(page, 8, 9).click()
    expect(note).to_be_hidden()


def test_repairs_name_the_hub_that_they_make(open_page: Any) -> None:
    page = open_page()
    control(page, "Positions").select_option("absolute")
    control(page, "Mask: pattern").select_option("blocks")
    page.get_by_role(
        "button", name="Let all tokens attend to token 0, and token 0 to all"
    ).wait_for()
    control(page, "BOS token first").check()
    page.get_by_role("button", name="Let all tokens attend to BOS, and BOS to all").wait_for()


def test_every_repair_that_is_offered_is_one(open_page: Any) -> None:
    page = open_page()
    offered = """() => {
      const wrong = [];
      const cases = (lists) => lists.reduce(
        (all, list) => all.flatMap((one) => list.map((value) => [...one, value])), [[]]);
      const questions = [["sup", "all"], ["lp", "all"], ["sup", "causal"]];
      const names = ["window", "causal", "blocks", "global"];
      for (const [name, position, depth, question] of
           cases([names, ["none", "alibi", "shaw"], [null, 1, 2], questions])) {
        const [norm, target] = question;
        const design = { ...Design.state.begin(), tokens: 5, position, depth };
        const state = Design.state.withPattern(design, 0, Design.patterns.named(name));
        const universal = (now) =>
          Design.verdict.check(Design.state.design(now)).answers[`${norm} ${target}`].universal;
        if (universal(state)) continue;
        const repairs = Design.repairs.repairs(state, { norm, target });
        if (repairs.length === 0) wrong.push([name, position, depth, question]);
        wrong.push(...repairs.filter(([, repaired]) => universal(repaired) !== true));
      }
      return wrong;
    }"""
    assert page.evaluate(offered) == []


def test_reach_is_stepped_and_played(open_page: Any) -> None:
    page = open_page()
    slide(page, "Tokens", 3)
    card = page.get_by_label("Reach", exact=True)
    picture = card.get_by_role("img")
    expect(picture).to_have_accessible_name(re.compile("After 2 layers every token has reached"))
    card.get_by_role("button", name="one step back").click()
    expect(picture).to_have_accessible_name(re.compile("After 1 layer, 7 of 9 pairs have met"))
    slide(page, "Reach, layer by layer", 0)
    expect(picture).to_have_accessible_name(re.compile("After 0 layers, 3 of 9 pairs"))
    card.get_by_role("button", name="Reach, layer by layer: play").click()
    expect(card.get_by_role("button", name="pause")).to_be_visible()
    expect(picture).to_have_accessible_name(re.compile("After 2 layers every"), timeout=4000)
    expect(card.get_by_role("button", name="Reach, layer by layer: play")).to_be_visible()


def test_who_prefers_reduced_motion_steps(open_page: Any) -> None:
    page = open_page(calm=True)
    card = page.get_by_label("Reach", exact=True)
    expect(card.get_by_text("Play", exact=True)).to_be_hidden()
    expect(card.get_by_role("button", name="one step back")).to_be_visible()


def test_classes_grow_round_by_round(open_page: Any) -> None:
    page = open_page()
    control(page, "BOS token first").check()
    control(page, "Mask: pattern").select_option("window")
    picture = page.get_by_role("img", name=re.compile("Position classes"))
    expect(picture).to_have_accessible_name(re.compile("All 8 positions differ"))
    slide(page, "Position classes, round by round", 1)
    expect(picture).to_have_accessible_name(re.compile("3 classes|2 classes"))


def test_the_witness_cannot_be_beaten(open_page: Any) -> None:
    page = open_page()
    stage = page.get_by_label("Witness")
    expect(stage).to_contain_text("Then every network of this design gives positions 0 and 7")
    for y in (0, 1.4, 3.5, 6.3, 7):
        slide(page, "What the network gives for both", y)
        said = stage.locator("dd").last.inner_text()
        error, least = re.fullmatch(r"([\d.]+), never below ([\d.]+)", said).groups()  # type: ignore[union-attr]
        assert float(least) == 3.5
        assert float(error) >= 3.5
    page.get_by_role("button", name="Play the witness").click()
    expect(stage).to_be_focused()


def test_every_control_has_a_name(open_page: Any) -> None:
    page = open_page()
    page.get_by_label("Every other layer has a mask of its own").check()
    controls = page.locator("button, select, input, [role=grid], [role=img], [role=tab], section")
    assert controls.count() > 30
    for control in controls.all():
        if control.is_visible():
            expect(control).to_have_accessible_name(re.compile(r"\S"))


def test_the_tab_key_goes_through_the_page_in_its_order(open_page: Any) -> None:
    page = open_page()
    places: list[int] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        place = page.evaluate(
            "() => [...document.querySelectorAll('*')].indexOf(document.activeElement)"
        )
        if places and place <= places[-1]:
            break
        places.append(place)
        expect(page.locator(":focus")).to_be_visible()
    focusable = page.locator(
        "a[href], button, select, input, summary, [role=gridcell][tabindex='0']"
    ).locator("visible=true")
    tabs = page.locator('[role=tab][tabindex="-1"]').count()
    assert len(places) == focusable.count() - tabs


CONTRAST = """() => {
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
    .getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (color) => {
    const [r, g, b] = rgba(color).slice(0, 3).map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node, x, y) => {
    for (const below of document.elementsFromPoint(x, y)) {
      if (below instanceof SVGTextElement) continue;
      const style = getComputedStyle(below);
      const isShape = below instanceof SVGElement && !(below instanceof SVGSVGElement);
      const color = isShape ? style.fill : style.backgroundColor;
      if (color !== "none" && rgba(color)[3] === 255) return color;
    }
    return getComputedStyle(document.body).backgroundColor;
  };
  const poor = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let many = 0;
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !node.checkVisibility()) continue;
    if (node.closest(".visually-hidden, .skip, noscript, option, script")) continue;
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    const box = range.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const style = getComputedStyle(node);
    const [one, other] = [node instanceof SVGElement ? style.fill : style.color, behind(node, x, y)]
      .map(luminance).sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    many += 1;
    if (ratio < 4.5) poor.push(`${texts.currentNode.data.trim()}: ${ratio.toFixed(2)}`);
  }
  return [many, poor];
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast(open_page: Any, theme: str) -> None:
    """At least 4.5 : 1, as WCAG AA asks of text."""
    page = open_page(theme=theme)
    page.set_viewport_size({"width": 1280, "height": 2600})
    page.locator("summary").first.click()

    def check(said: str) -> None:
        assert answer(page) == said
        many, poor = page.evaluate(CONTRAST)
        assert many > 100
        assert poor == []

    check("No")
    control(page, "Positions").select_option("urpe")
    check("Yes")
    control(page, "Positions").select_option("rope")
    control(page, "BOS token first").check()
    control(page, "Depth").select_option("8")
    check("Not known")
    control(page, "Depth").select_option("any")
    control(page, "Mask: pattern").select_option("causal")
    check("No")


@pytest.mark.parametrize("width", [390, 320])
def test_nothing_is_wider_than_a_phone(open_page: Any, width: int) -> None:
    page = open_page(width=width)
    page.get_by_label("Every other layer has a mask of its own").check()
    control(page, "BOS token first").check()
    slide(page, "Tokens", 12)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
