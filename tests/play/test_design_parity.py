"""What the page computes by itself is what the library says, on random designs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import anyseq as aq
from anyseq.graph import reach, refine
from anyseq.patterns import parse_pattern
from anyseq.positions import parse_position
from play.designs import PAGE, PATTERNS, POSITIONS, Case, cases

Answered = list[tuple[Case, dict[str, Any]]]

ANSWER = """(designs) => designs.map((design) => {
  const { answers, reach, refinement } = Design.verdict.check(design);
  return { answers, reach, refinement };
})"""


@pytest.fixture(scope="module")
def answered(browser: Any, request: pytest.FixtureRequest) -> Answered:
    """600 designs (times --soak), and what the page says of them, in one call."""
    made = cases(600 * int(request.config.getoption("soak")))
    page = browser.new_page()
    page.goto(PAGE.as_uri())
    said = page.evaluate(ANSWER, [case.for_page for case in made])
    page.close()
    return list(zip(made, said, strict=True))


@pytest.mark.parametrize("target", ["all", "causal"])
@pytest.mark.parametrize("norm", ["sup", "lp"])
def test_verdicts(answered: Answered, norm: str, target: str) -> None:
    for case, said in answered:
        verdict = aq.check(case.design, norm=norm, target=target)
        answer = said["answers"][f"{norm} {target}"]
        assert answer["universal"] == verdict.universal, (case, verdict, answer)
        if verdict.witness is not None:
            assert answer["witness"]["name"] == verdict.witness.name, (case, verdict, answer)


@pytest.mark.parametrize("target", ["all", "causal"])
def test_reach(answered: Answered, target: str) -> None:
    for case, said in answered:
        known = reach(case.design, target)
        layers = known.layers_per_pair()
        mine = said["reach"][target]
        assert mine["layers"] == known.layers, case
        assert len(mine["history"]) > layers.max(), case
        for layer, sets in enumerate(mine["history"]):
            held = (layers >= 0) & (layers <= layer)
            for k in range(case.tokens):
                for j in range(case.tokens):
                    assert bool(sets[k + case.bos] >> (j + case.bos) & 1) == held[k, j], case
        if target == "all" and known.layers is None:
            k, j = mine["pair"]
            assert layers[k, j] < 0, case
        elif target == "all" and known.layers:
            k, j = mine["pair"]
            assert layers[k, j] == known.layers, case


REPAIRS = {
    "Prepend a BOS token": "prepend a BOS token",
    "Add URPE gains": "add URPE gains",
    "Use absolute positions": "absolute positions",
}


@pytest.mark.parametrize("norm", ["sup", "lp"])
def test_repairs_stand_in_the_order_of_the_library(open_page: Any, norm: str) -> None:
    page = open_page()
    offered = """([name, position, tokens, norm]) => {
      const state = { ...Design.state.begin(), tokens, position };
      const design = Design.state.withPattern(state, 0, Design.patterns.named(name));
      return Design.repairs.repairs(design, { norm, target: "all" }).map(([text]) => text);
    }"""
    compared = 0
    for name, text in (("window", "window(1)"), ("logsparse", "logsparse"), ("full", "full")):
        for position in ("none", "alibi", "rope", "shaw"):
            for tokens in (4, 8):
                design = aq.Design(
                    tokens, patterns=parse_pattern(text), position=parse_position(position)
                )
                verdict = aq.check(design, norm=norm)
                if verdict.universal:
                    continue
                theirs = [fix.change.removesuffix(" instead") for fix in verdict.fixes]
                said = page.evaluate(offered, [name, position, tokens, norm])
                ours = [REPAIRS[one] for one in said if one in REPAIRS]
                case = (name, position, tokens)
                assert ours == [one for one in theirs if one in REPAIRS.values()], case
                compared += len(ours) > 1
    assert compared >= 4


def same_classes(one: list[int], other: list[int]) -> bool:
    return len(set(one)) == len(set(other)) == len(set(zip(one, other, strict=True)))


def test_colours(answered: Answered) -> None:
    for case, said in answered:
        mine = said["refinement"]
        known = refine(case.design)
        assert mine["rounds"] == known.rounds, case
        for layer, colours in enumerate(mine["history"]):
            so_far = known
            if layer and layer < known.rounds:
                so_far = refine(replace(case.design, depth=layer))
            if layer:
                assert same_classes(colours[case.bos :], so_far.classes.tolist()), (case, layer)
        assert mine["discrete"] == known.discrete


def test_named_patterns(open_page: Any) -> None:
    page = open_page()
    for text in PATTERNS:
        name, _, numbers = text.rstrip(")").partition("(")
        given = [int(one) for one in numbers.split(",") if one] if name != "global" else []
        for size in range(1, 14):
            mask = page.evaluate(
                "([pattern, size]) => [Design.patterns.mask(pattern, size), "
                "Design.patterns.text(pattern)]",
                [{"name": name, "numbers": given, "causal": False}, size],
            )
            assert mask == [parse_pattern(text).mask(size).tolist(), text], (text, size)


def test_named_positions_are_those_of_the_library(open_page: Any) -> None:
    page = open_page()
    assert page.evaluate("Object.keys(Design.positions.NAMED)") == [
        name for name in page.evaluate("Object.keys(Design.positions.NAMED)") if name in POSITIONS
    ]
    assert set(page.evaluate("Object.keys(Design.positions.NAMED)")) == set(POSITIONS)
