"""Biases over the offsets of an array, against loops over its cells."""

from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.positions import on_a_line

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


@given(SHAPES)
def test_differences_on_the_line_number_the_offsets(shape: tuple[int, ...]) -> None:
    places = on_a_line(shape).tolist()
    cells = list(product(*map(range, shape)))
    numbers: dict[tuple[int, ...], set[int]] = {}
    for i, one in enumerate(cells):
        for j, other in enumerate(cells):
            offset = tuple(a - b for a, b in zip(one, other, strict=True))
            numbers.setdefault(offset, set()).add(places[i] - places[j])
    assert all(len(found) == 1 for found in numbers.values())
    half = len(numbers) // 2
    assert sorted(found.pop() for found in numbers.values()) == list(range(-half, half + 1))


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 2)], ids=str)
def test_entries(shape: tuple[int, ...]) -> None:
    table = torch.randn(2, *(2 * length - 1 for length in shape), dtype=torch.float64)
    matrix, cells = aq.GridToeplitz(table), list(product(*map(range, shape)))
    dense = matrix.dense(len(cells), len(cells))
    for i, one in enumerate(cells):
        for j, other in enumerate(cells):
            at = tuple(a - b + n - 1 for a, b, n in zip(one, other, shape, strict=True))
            assert dense[:, i, j].tolist() == table.movedim(0, -1)[at].tolist()
    assert torch.equal(matrix.dense(2, 4, first_row=1), dense[:, 1:3, :4])
    assert matrix.shape == shape
    if len(shape) == 1:
        assert torch.equal(aq.Toeplitz(table).dense(5, 5), dense)


def test_equal_ones_are_equal() -> None:
    assert aq.GridBias([4, 3]) == aq.GridBias((4, 3)) != aq.GridBias((3, 4))  # type: ignore[arg-type]
    assert aq.URPE(aq.GridBias((4, 3))).natural_length == aq.GridBias((4, 3)).natural_length == 12
    assert aq.RelativeBias().natural_length is None


@pytest.mark.parametrize("shape", [(), 4, (0, 3), (2.5, 1), "44", (True, 2), None])
def test_a_bad_shape_is_named(shape: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^shape=.*expected"):
        aq.GridBias(shape)  # type: ignore[arg-type]


def test_a_bad_table_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"^coefficients: list, expected a tensor"):
        aq.GridToeplitz([1.0])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"of shape \(2, 3, 4\): .*odd number of offsets"):
        aq.GridToeplitz(torch.zeros(2, 3, 4))
    with pytest.raises(InvalidArgument, match=r"of shape \(2, 3\) has 6 tokens.*sequence has 7"):
        aq.GridToeplitz(torch.zeros(2, 3, 5)).dense(3, 1, first_row=4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": 15}, r"^tokens=15, but position=.*GridBias.* is for 16 exactly"),
        ({"tokens": 16, "bos": True}, r"^bos=True with position=.*16 places.*none is left for BOS"),
        ({"tokens": 15, "bos": True}, r"^bos=True with position="),
    ],
)
def test_a_design_of_another_length_is_refused(arguments: dict[str, Any], message: str) -> None:
    grid = aq.GridBias((4, 4))
    for position in (grid, aq.URPE(grid)):
        with pytest.raises(InvalidArgument, match=message):
            aq.Design(position=position, **arguments)
        layers = [aq.Layer(), aq.Layer(position=position)]
        with pytest.raises(InvalidArgument, match=message):
            aq.Design(layers=layers, **arguments)


def test_a_design_round_trip() -> None:
    pattern = aq.ShiftedWindows((4, 4), 2, 1)
    design = aq.Design(16, pattern, position=aq.URPE(aq.GridBias((4, 4))))
    assert aq.Design.from_dict(design.to_dict()) == design
