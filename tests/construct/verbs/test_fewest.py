"""Lower bounds for the number of weights: the tents exist, and no network of ours is smaller."""

from __future__ import annotations

from itertools import product

import pytest
import torch

import anyseq as aq
from anyseq.construct.request.ask import Ask
from anyseq.construct.verbs.fewest import fewest_text, tents


def asked(design: aq.Design, tol: float, lipschitz: float, features: int = 1) -> Ask:
    return aq.plan(design, features, tol, lipschitz=lipschitz).ask


@pytest.mark.parametrize(("tol", "lipschitz"), [(0.1, 1.0), (0.05, 1.0), (0.3, 2.0), (0.125, 1.0)])
def test_the_tents_are_there(tol: float, lipschitz: float) -> None:
    """Two tokens: as many tents as are counted for one output entry, each of the class and higher
    than the tolerance, with disjoint supports; none more would be higher."""
    ask = asked(aq.Design(2), tol, lipschitz)
    cells = round((tents(ask, "all") // 2) ** 0.5)
    assert tents(ask, "all") == 2 * cells**2
    height = lipschitz / (2 * cells)
    assert height > tol >= lipschitz / (2 * (cells + 1))
    line = (torch.arange(cells) + 0.5) / cells
    x = torch.cartesian_prod(torch.linspace(0, 1, 241), torch.linspace(0, 1, 241))
    supports = torch.zeros(len(x))
    for tip in product(line.tolist(), repeat=2):
        apart = (x - torch.tensor(tip)).abs().amax(1)
        tent = (height - lipschitz * apart).clamp(min=0)
        assert tent.max() <= height + 1e-6
        supports += (tent > 1e-6).float()
    assert supports.max() == 1


def test_kinds_of_functions_have_their_own_numbers() -> None:
    ask = asked(aq.Design(3), 0.1, 1.0)
    assert tents(ask, "all") == 3 * 4**3
    assert tents(ask, "causal") == 4 + 4**2 + 4**3
    assert tents(ask, "equivariant") == 3 * 4  # four sets of three different cells, three values


def test_nothing_is_said_where_nothing_is_known() -> None:
    design = aq.Design(3)
    for plan in (
        aq.plan(design, 1, 0.1, lipschitz=1.0, norm="lp"),
        aq.plan(design, 1, 0.1, lipschitz=1.0, curvature=1.0),
        aq.plan(design, 1, 0.6, lipschitz=1.0),
        aq.plan(design, 1, 0.1, lipschitz=1.0, bound=0.05),
    ):
        assert tents(plan.ask, "all") == 0
        assert "lower bound" not in str(plan)


@pytest.mark.parametrize("tokens", [1, 2, 3])
@pytest.mark.parametrize("tol", [0.2, 0.1, 0.05])
def test_what_is_built_is_larger(tokens: int, tol: float) -> None:
    plan = aq.plan(aq.Design(tokens), 1, tol, lipschitz=1.0)
    proved = [recipe for recipe in plan.recipes if recipe.terms]
    assert proved
    assert all(recipe.shape.parameters >= tents(plan.ask, "all") for recipe in proved)


def test_large_numbers_are_written_short() -> None:
    text = fewest_text(asked(aq.Design(4000), 0.01, 1.0), "all")
    assert text is not None
    assert "·10^" in text
    assert len(text) < 220
