"""Hats of several reaches at any nodes, against their formula."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyseq.construct.counting.lattice import lattice, strides
from anyseq.construct.gadgets import Hats, HatWiring
from anyseq.nn import FeedForwardLayers

STEPS = 8
SPARE = 2


def some_hats(axes: int, count: int, seed: int) -> Hats:
    """Nodes at random, each with a reach that divides it."""
    rng = torch.Generator().manual_seed(seed)
    numbers = torch.randperm((STEPS + 1) ** axes, generator=rng)[:count].sort().values
    nodes = numbers[:, None] // torch.tensor(strides(STEPS + 1, axes)) % (STEPS + 1)
    reach = 2 ** torch.randint(0, 4, (len(nodes),), generator=rng)
    while (off := (nodes % reach[:, None]).any(1)).any():
        reach[off] //= 2
    return Hats(nodes, reach, STEPS)


def wiring(hats: Hats, hidden: int, outputs: int) -> HatWiring:
    at, leave = hats.axes + outputs, min(hats.axes - 1, 2)
    return HatWiring(
        layers=hats.layers(hidden, SPARE, leave), hidden=hidden, width=at + hats.axes - 1,
        slots_at=0, values_at=hats.axes, scratch=tuple(range(at, at + hats.axes - 1)),
        leave=leave, spare=SPARE,
    )  # fmt: skip


def run(layers: FeedForwardLayers, z: torch.Tensor) -> torch.Tensor:
    for layer in range(len(layers.up_bias)):
        inside = torch.relu(z @ layers.up_weight[layer].T + layers.up_bias[layer])
        z = z + inside @ layers.down_weight[layer].T + layers.down_bias[layer]
    return z


def by_formula(hats: Hats, x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    off = hats.steps * x[:, None] - hats.nodes
    spread = off.amax(2).clamp(min=0) - off.amin(2).clamp(max=0)
    return (1 - spread / hats.reach).clamp(min=0) @ values


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 40), st.integers(0, 9), st.integers(0, 2**32 - 1))
def test_the_layers_add_the_hats_and_clear_the_rest(
    axes: int, count: int, more: int, seed: int
) -> None:
    hats = some_hats(axes, count, seed)
    plan = wiring(hats, max(axes + 1, SPARE) + more, 2)
    rng = torch.Generator().manual_seed(seed)
    values = torch.randn(len(hats.nodes), 2, generator=rng, dtype=torch.float64)
    x = torch.rand(50, axes, generator=rng, dtype=torch.float64)
    x[:20] = (x[:20] * STEPS).round() / STEPS
    z = torch.zeros(50, plan.width, dtype=torch.float64)
    z[:, :axes] = x
    added = hats.add(values, plan).feedforward
    assert added is not None
    assert len(added.up_bias) == plan.layers
    assert not added.up_weight[0, :SPARE].any()
    found = run(added, z)
    assert torch.allclose(found[:, axes : axes + 2], by_formula(hats, x, values), atol=1e-11)
    assert torch.equal(found[:, :axes], x)
    assert not found[:, list(plan.scratch[: plan.leave])].any()


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_an_even_grid_takes_a_relu_a_node(axes: int) -> None:
    """But for those without scratch, which all fibres share."""
    nodes = lattice(STEPS + 1, axes)
    hats = Hats(nodes, torch.ones(len(nodes), dtype=torch.int64), STEPS)
    assert hats.longest == (STEPS if axes == 1 else STEPS + 1)
    plan = wiring(hats, STEPS + 1 + axes + 1, 1)
    assert plan.layers == (STEPS + 1) ** (axes - 1)


def test_at_nodes_nothing_rounds() -> None:
    hats = some_hats(3, 200, 1)
    plan = wiring(hats, 8, 1)
    values = torch.randint(-(2**20), 2**20, (200, 1)).double()
    z = torch.zeros((STEPS + 1) ** 3, plan.width, dtype=torch.float64)
    z[:, :3] = lattice(STEPS + 1, 3).double() / STEPS
    added = hats.add(values, plan).feedforward
    assert added is not None
    assert torch.equal(run(added, z)[:, 3:4], by_formula(hats, z[:, :3], values))


def test_many_levels_in_many_dimensions() -> None:
    """Their nodes cannot be numbered together in 64 bits."""
    steps, axes = 2**15, 4
    reach = 2 ** torch.arange(14, -1, -1)
    nodes = reach[:, None] * torch.tensor([1, 1, 0, 1])
    hats = Hats(nodes, reach, steps)
    plan = replace(wiring(hats, 8, 1), layers=hats.layers(8, SPARE, 2))
    values = torch.arange(1.0, 16.0)[:, None].double()
    rng = torch.Generator().manual_seed(0)
    z = torch.zeros(200, plan.width, dtype=torch.float64)
    size = 2.0 ** -torch.randint(16, (200, 1), generator=rng)
    z[:, :axes] = size * torch.rand(200, axes, generator=rng, dtype=torch.float64)
    added = hats.add(values, plan).feedforward
    assert added is not None
    found = run(added, z)[:, axes : axes + 1]
    assert torch.allclose(found, by_formula(hats, z[:, :axes], values), atol=1e-6)
    assert found.abs().max() > 1
