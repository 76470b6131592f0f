import pytest
import torch

from anyseq.errors import InvalidArgument
from anyseq.patterns import Causal, Full, Pattern, pattern_from_dict


def test_masks() -> None:
    assert Full().mask(4).all()
    assert torch.equal(Causal().mask(4), torch.ones(4, 4, dtype=torch.bool).tril())


def test_edges_and_sparsity() -> None:
    assert Causal().edges(2).tolist() == [[0, 1, 1], [0, 0, 1]]
    assert Causal().sparsity(4) == 1 - 10 / 16
    assert Full().sparsity(4) == 0


def test_prefix_stable_means_rows_keep_their_edges() -> None:
    assert Causal().prefix_stable
    assert not Full().prefix_stable
    assert torch.equal(Causal().mask(7)[:5], torch.nn.functional.pad(Causal().mask(5), (0, 2)))


def test_compared_and_hashed_by_content() -> None:
    assert {Causal(), Causal() | Full(), Causal() | Full()} == {Causal(), Causal() | Full()}
    assert len({Causal(), Full()}) == 2


@pytest.mark.parametrize("pattern", [Full(), Causal(), ~Causal() | Full() & Causal()])
def test_dictionary_round_trip(pattern: Pattern) -> None:
    assert pattern_from_dict(pattern.to_dict()) == pattern


@pytest.mark.parametrize(
    "description", [{"kind": "Nope"}, {}, {"kind": "Causal", "radius": 3}, {"kind": "_Combination"}]
)
def test_unknown_descriptions_are_refused(description: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match="pattern"):
        pattern_from_dict(description)


def test_bad_length() -> None:
    with pytest.raises(InvalidArgument, match="n=0"):
        Causal().mask(0)
