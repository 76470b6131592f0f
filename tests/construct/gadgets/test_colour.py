"""Numbers become one-hot colours, exactly, wherever a layer is cut."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyseq.construct.gadgets import Units, into_colours
from anyseq.errors import ConstructionFault
from anyseq.nn import Layers
from construct.networks import run

GAP = 2.0**-20


def coloured(
    numbers: torch.Tensor, classes: list[tuple[float, float]], hidden: int
) -> torch.Tensor:
    """(tokens, classes) for numbers (tokens,); features: number, old colour, steps, colours."""
    count = len(classes)
    width = 2 + count + count
    z = torch.zeros(len(numbers), width, dtype=torch.float64)
    z[:, 0], z[:, 1] = numbers - 3.0, 1.0
    for units in into_colours(
        form={0: 1.0, 1: 3.0},
        numbers=classes,
        into=list(range(2 + count, 2 + 2 * count)),
        old=[1],
        number_at=0,
        steps_at=2,
    ):
        z = run(Layers(feedforward=units.layers(hidden, width)), z)
    assert (z[:, : 2 + count] == 0).all(), "number, old colour and steps are cleared"
    return z[:, 2 + count :]


@given(
    st.lists(st.integers(-(2**29), 2**29), min_size=1, max_size=8, unique=True),
    st.integers(1, 40),
    st.integers(0, 100),
)
def test_rounding_does_not_matter(values: list[int], hidden: int, seed: int) -> None:
    """Numbers off by up to an eighth of the least gap get the colour of their class, to the bit."""
    kept = sorted(value * GAP for value in values)
    least = min((b - a for a, b in pairwise(kept)), default=1.0)
    noise = torch.rand(50, len(kept), generator=torch.Generator().manual_seed(seed)).double()
    off = torch.tensor(kept, dtype=torch.float64) + (noise * 2 - 1) * least / 8
    found = coloured(off.flatten(), [(value, value) for value in kept], hidden)
    assert torch.equal(
        found.view(50, len(kept), -1), torch.eye(len(kept)).double().expand(50, -1, -1)
    )


def test_a_number_of_another_class_is_seen() -> None:
    found = coloured(torch.tensor([0.0, 0.1, 0.9, 1.0]).double(), [(0.0, 0.1), (0.9, 1.0)], 4)
    assert found.tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]


def test_gaps_near_rounding_are_refused() -> None:
    with pytest.raises(ConstructionFault, match="a gap of 1e-13 between numbers of 1"):
        coloured(torch.tensor([1.0]).double(), [(1.0 - 1e-13, 1.0 - 1e-13), (1.0, 1.0)], 4)


@given(st.integers(1, 9))
def test_a_layer_may_be_cut_anywhere(hidden: int) -> None:
    units = Units()
    units.add({0: 2.0}, {1: 1.0}, bias=-1.0)
    units.add({0: -1.0, 2: 1.0}, {1: -3.0})
    units.clear([0, 2], signed=True)
    z = torch.tensor([[0.7, 0.0, -0.3], [-0.2, 0.0, 5.0], [1 / 3, 0.0, 2 / 3]]).double()
    layers = units.layers(hidden, 3)
    assert len(layers.up_bias) == -(-6 // hidden)
    whole = run(Layers(feedforward=units.layers(6, 3)), z)
    assert torch.equal(run(Layers(feedforward=layers), z), whole)
    assert (whole[:, [0, 2]] == 0).all()
