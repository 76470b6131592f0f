"""What the page computes by itself is what the library says, on random designs."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch

import anyseq as aq
import anyseq.play
from anyseq.graph import Reach, reach, refine
from anyseq.patterns import FromMask, parse_pattern
from anyseq.positions import parse_position

POSITIONS = (
    "none", "absolute", "sinusoidal", "rope", "alibi", "t5", "relative", "shaw", "urpe",
    "urpe(none)", "urpe(absolute)", "urpe(rope)", "urpe(alibi)", "urpe(t5)", "urpe(shaw)",
)  # fmt: skip
PATTERNS = (
    "full", "causal", "window(0)", "window(1)", "window(3)", "dilated(1, 2)", "dilated(2, 3)",
    "logsparse", "residue(3)", "strided(2)", "strided(3)", "blocks(2)", "blocks(3)", "fixed(2)",
    "fixed(4)", "ring(1)", "ring(2)", "star(1)", "longformer(0)", "longformer(2)", "global(0)",
)  # fmt: skip

PAGE = Path(anyseq.play.__file__).parent / "page" / "index.html"

Mask = list[list[bool]]


@dataclass(frozen=True)
class Case:
    """A design, for the page and for the library."""

    tokens: int
    bos: bool
    masks: tuple[Mask, ...]
    position: str
    depth: int | None

    @property
    def for_page(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "bos": self.bos,
            "masks": list(self.masks),
            "position": self.position,
            "depth": self.depth,
        }

    @cached_property
    def design(self) -> aq.Design:
        return aq.Design(
            self.tokens,
            patterns=tuple(FromMask(torch.tensor(mask)) for mask in self.masks),
            position=parse_position(self.position),
            bos=self.bos,
            depth=self.depth,
        )


def a_mask(rng: random.Random, size: int) -> Mask:
    """A named pattern, one with some pairs changed, a random or a symmetric mask, perhaps cut to
    the past."""
    kind = rng.randrange(5)
    mask: Mask = parse_pattern(rng.choice(PATTERNS)).mask(size).tolist()
    if kind == 1:
        for _ in range(rng.randint(1, 3)):
            i, j = rng.randrange(size), rng.randrange(size)
            mask[i][j] = not mask[i][j]
    if kind == 2:
        share = rng.random()
        mask = [[rng.random() < share for _ in range(size)] for _ in range(size)]
    if kind == 3:  # rotations and reversals keep it
        offsets = [rng.random() < 0.4 for _ in range(size)]
        mask = [[offsets[(i - j) % size] for j in range(size)] for i in range(size)]
    if kind == 4:  # some permutation keeps it
        image = list(range(size))
        rng.shuffle(image)
        pairs = [(rng.randrange(size), rng.randrange(size)) for _ in range(size // 2 + 1)]
        mask = [[i == j for j in range(size)] for i in range(size)]
        for i, j in pairs:
            while not mask[i][j] or i == j:
                mask[i][j] = True
                i, j = image[i], image[j]
                if mask[i][j]:
                    break
    if rng.random() < 0.2:
        mask = [[mask[i][j] and j <= i for j in range(size)] for i in range(size)]
    return mask


def cases(count: int) -> list[Case]:
    rng = random.Random(0)
    made = []
    for _ in range(count):
        tokens, bos = rng.choice((1, 2, 3, 4, 5, 6, 6, 8, 10, 12)), rng.random() < 0.4
        masks = tuple(a_mask(rng, tokens + bos) for _ in range(rng.choice((1, 1, 1, 2))))
        depth = rng.choice((None, None, 1, 2, 3, 4, 6))
        made.append(Case(tokens, bos, masks, rng.choice(POSITIONS), depth))
    return made


CASES = cases(600)

ANSWER = """(designs) => designs.map((design) => {
  const { answers, reach, refinement } = Design.verdict.check(design);
  return { answers, reach, refinement };
})"""


@pytest.fixture(scope="module")
def answered(browser: Any) -> list[dict[str, Any]]:
    """What the page says of all cases, in one call."""
    page = browser.new_page()
    page.goto(PAGE.as_uri())
    said: list[dict[str, Any]] = page.evaluate(ANSWER, [case.for_page for case in CASES])
    page.close()
    return said


def library_reach(case: Case, target: str) -> Reach:
    return reach(case.design, target)


@pytest.mark.parametrize("target", ["all", "causal"])
@pytest.mark.parametrize("norm", ["sup", "lp"])
def test_verdicts(answered: list[dict[str, Any]], norm: str, target: str) -> None:
    for case, said in zip(CASES, answered, strict=True):
        verdict = aq.check(case.design, norm=norm, target=target)
        answer = said["answers"][f"{norm} {target}"]
        assert answer["universal"] == verdict.universal, (case, verdict, answer)
        if verdict.witness is not None:
            assert answer["witness"]["name"] == verdict.witness.name, (case, verdict, answer)


@pytest.mark.parametrize("target", ["all", "causal"])
def test_reach(answered: list[dict[str, Any]], target: str) -> None:
    for case, said in zip(CASES, answered, strict=True):
        known = library_reach(case, target)
        layers = known.layers_per_pair()
        mine = said["reach"][target]
        assert mine["layers"] == known.layers, case
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


def same_classes(one: list[int], other: list[int]) -> bool:
    return len(set(one)) == len(set(other)) == len(set(zip(one, other, strict=True)))


def test_colours(answered: list[dict[str, Any]]) -> None:
    for case, said in zip(CASES, answered, strict=True):
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
