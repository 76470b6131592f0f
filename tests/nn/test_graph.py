from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

import anyseq as aq
from anyseq.errors import InvalidArgument
from nn.inputs import random, shaken
from versions import compiles


def graphs(batch: int, nodes: int, share: float = 0.3, seed: int = 0) -> torch.Tensor:
    """Undirected random graphs."""
    rng = torch.Generator().manual_seed(seed)
    upper = (torch.rand(batch, nodes, nodes, generator=rng) < share).triu(1)
    return upper | upper.transpose(1, 2)


def model(**options: Any) -> aq.nn.GraphTransformer:
    settings = {"features": 3, "furthest": 4, "degrees": 3} | options
    made = aq.nn.GraphTransformer(8, 2, heads=2, dtype=torch.float64, **settings)
    shaken(made)
    return made


@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 50))
def test_distances_are_those_of_a_walk(nodes: int, furthest: int, seed: int) -> None:
    adjacency = graphs(2, nodes, seed=seed)
    found = aq.nn.shortest_paths(adjacency, furthest)
    for graph, distance in zip(adjacency, found, strict=True):
        reached = torch.eye(nodes, dtype=torch.bool)
        expected = torch.where(reached, 0, furthest + 1)
        for step in range(1, nodes):
            further = (reached.double() @ graph.double() > 0) | reached
            expected[further & ~reached] = min(step, furthest)
            reached = further
        assert torch.equal(distance, expected)


def test_edges_have_a_direction() -> None:
    adjacency = torch.tensor([[[False, True], [False, False]]])
    assert aq.nn.shortest_paths(adjacency, 3).tolist() == [[[0, 1], [4, 0]]]


@pytest.mark.parametrize("gain", [False, True])
def test_permuted_nodes(gain: bool) -> None:
    net, x, adjacency = model(gain=gain), random(2, 7, 3), graphs(2, 7)
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    out = net(x, adjacency)
    moved = net(x[:, order], adjacency[:, order][:, :, order])
    torch.testing.assert_close(moved.graph, out.graph, rtol=0, atol=1e-12)
    torch.testing.assert_close(moved.nodes, out.nodes[:, order], rtol=0, atol=1e-12)
    other = net(x[:, order], adjacency)
    assert not torch.allclose(other.graph, out.graph), "the graph matters"


@pytest.mark.parametrize("gain", [False, True])
def test_padding_changes_nothing(gain: bool) -> None:
    """Whatever features and edges the padding has."""
    net, x, adjacency = model(gain=gain), random(2, 7, 3), graphs(2, 7, share=0.6)
    mask = torch.arange(7) < torch.tensor([[5], [7]])
    out = net(x, adjacency, mask)
    alone = net(x[:1, :5], adjacency[:1, :5, :5])
    torch.testing.assert_close(out.graph[0], alone.graph[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(out.nodes[0, :5], alone.nodes[0], rtol=0, atol=1e-12)


def test_a_layer_by_hand() -> None:
    """One head: bias by distance and pair, gain by distance, degree at the input, virtual node
    first."""
    net = aq.nn.GraphTransformer(
        4, 1, 1, types=3, furthest=2, degrees=1, gain=True, norm="none", dtype=torch.float64
    )
    shaken(net)
    path = torch.tensor([[[0, 1, 0], [1, 0, 1], [0, 1, 0]]], dtype=torch.bool)
    kinds = torch.tensor([[2, 0, 1]])
    degree = [1, 1, 1]  # 2 is clipped to 1
    x = torch.cat([net.virtual[None], net.node[kinds[0]] + net.degree[degree]])
    label = torch.tensor([[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 1, 2], [0, 3, 2, 1]])
    mixer = net.get_submodule("blocks.0.mixer")
    feedforward = net.get_submodule("blocks.0.feedforward")
    assert isinstance(mixer, aq.nn.Attention)
    assert net.gain is not None
    known = random(1, 1, 3, 3)
    scores = mixer.q_proj(x) @ mixer.k_proj(x).T / 2 + net.bias[0][label]
    scores[1:, 1:] += known[0, 0]
    mixed = (scores.softmax(-1) * net.gain[0][label]) @ mixer.v_proj(x)
    x = x + mixed @ mixer.o_proj.weight.T
    x = x + feedforward(x)
    out = net(kinds, path, pair_bias=known)
    torch.testing.assert_close(out.graph[0], x[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(out.nodes[0], x[1:], rtol=0, atol=1e-12)


def test_the_gain_starts_at_one() -> None:
    torch.manual_seed(0)
    with_gain = aq.nn.GraphTransformer(8, 2, 2, features=3, gain=True, dtype=torch.float64)
    without = aq.nn.GraphTransformer(8, 2, 2, features=3, dtype=torch.float64)
    state = {name: value for name, value in with_gain.state_dict().items() if name != "gain"}
    without.load_state_dict(state)
    x, adjacency = random(2, 5, 3), graphs(2, 5)
    expected = without(x, adjacency).graph
    torch.testing.assert_close(with_gain(x, adjacency).graph, expected, rtol=0, atol=1e-12)


def test_numbers_that_are_no_distances_are_refused() -> None:
    net, x, adjacency = model(), random(2, 6, 3), graphs(2, 6)
    for wrong in (adjacency.long(), torch.full((2, 6, 6), 99), torch.full((2, 6, 6), -1)):
        with pytest.raises(InvalidArgument, match="an adjacency must be bool"):
            net(x, wrong)
    with pytest.raises(InvalidArgument, match="expected bool of shape"):
        aq.nn.shortest_paths(adjacency[:, :4])


def test_distances_found_before_are_the_same() -> None:
    net, x, adjacency = model(gain=True), random(2, 6, 3), graphs(2, 6)
    distances = aq.nn.shortest_paths(adjacency, net.furthest)
    assert torch.equal(net(x, distances).graph, net(x, adjacency).graph)


@compiles
def test_it_compiles_whole_with_distances_found_before() -> None:
    net, x = model(gain=True), random(2, 6, 3)
    distances = aq.nn.shortest_paths(graphs(2, 6), net.furthest)
    torch.compiler.reset()
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, distances).graph, net(x, distances).graph)


def test_distances_of_another_range_are_no_silent_answer() -> None:
    with pytest.raises(InvalidArgument, match="expected distances"):
        model()(random(1, 2, 3), torch.tensor([[[0, 6], [6, 0]]]))


def test_it_learns() -> None:
    """How many edges a graph has."""
    torch.manual_seed(0)
    net = aq.nn.GraphTransformer(16, 1, heads=2, types=1, gain=True)
    adjacency = graphs(64, 6)
    distances = aq.nn.shortest_paths(adjacency)
    target = adjacency.float().mean((1, 2))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        out = net(torch.zeros(64, 6, dtype=torch.int64), distances).graph[:, 0]
        loss = functional.mse_loss(out, target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: aq.nn.GraphTransformer(8, 1), "features=None, types=None: expected one"),
        (lambda: aq.nn.GraphTransformer(8, 1, features=2, types=2), "features=2, types=2"),
        (lambda: aq.nn.GraphTransformer(8, 0, types=2), "depth=0"),
        (lambda: aq.nn.GraphTransformer(8, 1, types=2, hidden=0), "hidden=0"),
        (lambda: model()(random(1, 4, 2), graphs(1, 4)), r"expected \(batch, nodes, features=3\)"),
        (lambda: model()(random(1, 4, 3), graphs(1, 5)), r"graph of dtype .*\(1, 4, 4\)"),
        (lambda: model()(random(1, 4, 3), graphs(1, 4).double()), "a bool adjacency or distances"),
        (
            lambda: model(features=None, types=2)(random(1, 4), graphs(1, 4)),
            "expected types, whole numbers",
        ),
        (
            lambda: model()(random(1, 4, 3), graphs(1, 4), torch.ones(1, 3).bool()),
            r"node_mask of dtype .*\(1, 4\)",
        ),
        (lambda: aq.nn.shortest_paths(torch.zeros(1, 2, 2)), "adjacency of dtype torch.float32"),
        (lambda: aq.nn.shortest_paths(graphs(1, 2), 0), "furthest=0"),
    ],
)
def test_bad_arguments_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()
