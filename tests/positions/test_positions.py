import pytest
import torch

from anyseq.errors import InvalidArgument
from anyseq.positions import Absolute, NoPosition, Place, Toeplitz, position_from_dict


def test_each_says_where_it_acts() -> None:
    assert Absolute().acts_in == {Place.INPUT}
    assert NoPosition().acts_in == frozenset()


@pytest.mark.parametrize("position", [Absolute(), NoPosition()])
def test_dictionary_round_trip(position: Absolute | NoPosition) -> None:
    assert position_from_dict(position.to_dict()) == position


@pytest.mark.parametrize("description", [{"kind": "Rotated"}, {"kind": "Absolute", "base": 3}])
def test_unknown_descriptions_are_refused(description: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match="position"):
        position_from_dict(description)


def test_toeplitz_entries_and_offset() -> None:
    table = Toeplitz(torch.arange(7.0)[None])  # n = 4: offset 0 is 3
    assert table.dense(rows=2, columns=4, first_row=2).tolist() == [[[5, 4, 3, 2], [6, 5, 4, 3]]]


def test_toeplitz_refuses_what_it_does_not_cover() -> None:
    with pytest.raises(InvalidArgument, match="odd number of offsets"):
        Toeplitz(torch.zeros(1, 4))
    with pytest.raises(InvalidArgument, match="offsets up to 1, but the sequence has offset 2"):
        Toeplitz(torch.zeros(1, 3)).dense(3, 3)
