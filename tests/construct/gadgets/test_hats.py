"""Hats of several reaches at any nodes, against their formula."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyseq.construct.gadgets import Hats, HatWiring, tournament
from anyseq.construct.lattice import strides
from anyseq.nn import FeedForwardLayers

STEPS = 8


def some_hats(axes: int, count: int, seed: int) -> Hats:
    """Nodes at random, each with a reach that divides nothing in particular."""
    rng = torch.Generator().manual_seed(seed)
    numbers = torch.randperm((STEPS + 1) ** axes, generator=rng)[:count].sort().values
    nodes = numbers[:, None] // torch.tensor(strides(STEPS + 1, axes)) % (STEPS + 1)
    return Hats(nodes, 2 ** torch.randint(0, 4, (len(nodes),), generator=rng))


def wiring(hats: Hats, chunk: int, outputs: int) -> HatWiring:
    axes = hats.nodes.shape[1]
    plan = tournament(axes)
    hidden = max(4 * chunk, *map(len, plan.rounds), 1)
    at = axes + outputs
    return HatWiring(
        axes=axes, steps=STEPS, chunk=chunk, layers=hats.layers(chunk, hidden), hidden=hidden,
        width=at + plan.scratch + chunk, slots_at=0, values_at=axes, scratch_at=at,
        nodes_at=at + plan.scratch,
    )  # fmt: skip


def run(layers: FeedForwardLayers, z: torch.Tensor) -> torch.Tensor:
    for layer in range(len(layers.up_bias)):
        inside = torch.relu(z @ layers.up_weight[layer].T + layers.up_bias[layer])
        z = z + inside @ layers.down_weight[layer].T + layers.down_bias[layer]
    return z


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 30), st.sampled_from([1, 2, 4]), st.integers(0, 2**32 - 1))
def test_the_layers_add_the_hats_and_clear_the_rest(
    axes: int, count: int, chunk: int, seed: int
) -> None:
    hats = some_hats(axes, count, seed)
    plan = wiring(hats, chunk, 2)
    rng = torch.Generator().manual_seed(seed)
    values = torch.randn(len(hats.nodes), 2, generator=rng, dtype=torch.float64)
    x = torch.rand(50, axes, generator=rng, dtype=torch.float64)
    x[:20] = (x[:20] * STEPS).round() / STEPS
    z = torch.zeros(50, plan.width, dtype=torch.float64)
    z[:, :axes] = x
    added = hats.add(values, plan).feedforward
    assert added is not None
    assert len(added.up_bias) == plan.layers
    found = run(added, z)
    off = STEPS * x[:, None] - hats.nodes
    spread = off.amax(2).clamp(min=0) - off.amin(2).clamp(max=0)
    wanted = (1 - spread / hats.reach).clamp(min=0) @ values
    assert torch.allclose(found[:, axes : axes + 2], wanted, rtol=0, atol=1e-12)
    assert torch.equal(found[:, :axes], x)
    assert not found[:, axes + 2 :].any()


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_nodes_of_one_diagonal_share_its_tournament(axes: int) -> None:
    """Whatever their reach: one tournament, and a layer a node."""
    nodes = torch.arange(STEPS + 1)[:, None].expand(-1, axes)
    hats = Hats(nodes, 2 ** (torch.arange(STEPS + 1) % 3))
    plan = wiring(hats, 1, 1)
    rounds, scratch = len(tournament(axes).rounds), tournament(axes).scratch
    assert hats.longest == STEPS + 1
    assert plan.layers == rounds + STEPS + 1 - (-(2 + scratch) // plan.hidden)
