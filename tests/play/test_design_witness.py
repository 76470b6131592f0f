"""The witnesses of the page, run on real networks: the two outputs are one number, and the bound is
the library's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import anyseq as aq
from play.designs import PAGE, Case, cases

ANSWER = """(designs) => designs.map((design) => {
  const { answers } = Design.verdict.check(design);
  return Object.entries(answers).map(([name, answer]) => {
    const witness = Design.witness.of(design, answer);
    if (witness === null) return null;
    const values = witness.free.map(({ least, most }, at) => (at % 2 ? least : most));
    const claims = witness.claims(values);
    const [low, high] = witness.range;
    const steps = Array.from({ length: 21 }, (_, step) => low + (high - low) * step / 20);
    return {
      name, claims, bound: witness.bound, least: witness.least(claims),
      inputs: witness.inputs(values).map(({ tokens }) => tokens),
      errors: steps.map((y) => witness.error(y, claims)),
      best: witness.error((claims[0].wanted + claims[1].wanted) / 2, claims),
    };
  });
})"""

CASES = [case for case in cases(240) if case.tokens > 1]


@pytest.fixture(scope="module")
def witnesses(browser: Any) -> list[list[dict[str, Any] | None]]:
    page = browser.new_page()
    page.goto(PAGE.as_uri())
    found: list[list[dict[str, Any] | None]] = page.evaluate(
        ANSWER, [case.for_page for case in CASES]
    )
    page.close()
    return found


def network(case: Case, seed: int) -> aq.nn.Transformer:
    """A network of the design, with random weights everywhere, gains and biases among them."""
    model = aq.nn.Transformer(
        case.design, dim=8, depth=case.depth or 3, heads=2, norm="none", dtype=torch.float64
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(0.4 * noise)
    return model.eval()


def test_no_network_tells_the_two_outputs_apart(
    witnesses: list[list[dict[str, Any] | None]],
) -> None:
    kinds = set()
    for seed, (case, found) in enumerate(zip(CASES, witnesses, strict=True)):
        model = network(case, seed) if any(found) else None
        for witness in filter(None, found):
            assert model is not None
            inputs = torch.tensor(witness["inputs"], dtype=torch.float64)[..., None].expand(
                -1, -1, 8
            )
            with torch.no_grad():
                outputs = model(inputs)
            one, other = (outputs[claim["input"], claim["place"]] for claim in witness["claims"])
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
            kinds.add((len(inputs), witness["name"]))
    assert len(kinds) == 6  # one input in sup norm, two in either norm, for both targets


def test_the_error_is_never_below_the_least(
    witnesses: list[list[dict[str, Any] | None]],
) -> None:
    for found in witnesses:
        for witness in filter(None, found):
            assert witness["least"] > 0
            assert min(witness["errors"]) >= witness["least"] - 1e-12
            assert witness["best"] == pytest.approx(witness["least"], abs=1e-12)


def test_bounds_are_those_of_the_library(
    witnesses: list[list[dict[str, Any] | None]],
) -> None:
    compared = set()
    for case, found in zip(CASES, witnesses, strict=True):
        for witness in filter(None, found):
            norm, target = witness["name"].split()
            theirs = aq.check(case.design, norm=norm, target=target).witness
            assert theirs is not None
            if theirs.name == "W2":
                continue  # of many symmetries each finds another
            assert witness["bound"] == pytest.approx(theirs.bound, abs=1e-12), case
            compared.add(theirs.name)
    assert compared == {"W1", "W3", "W4", "W5", "W6", "W8"}


def test_a_network_that_is_told_positions_tells_them_apart() -> None:
    """What the first test would see if the page were wrong."""
    full = [[True] * 4 for _ in range(4)]
    model = network(Case(4, False, (full,), "absolute", None), 0)
    with torch.no_grad():
        outputs = model(torch.full((1, 4, 8), 0.5, dtype=torch.float64))
    assert (outputs[0, 0] - outputs[0, 3]).abs().max() > 1e-3
