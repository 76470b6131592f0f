import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyseq.errors import InvalidArgument
from anyseq.patterns import Causal, Complement, Full, Pattern, Union

patterns = st.recursive(
    st.sampled_from([Full(), Causal()]),
    lambda part: st.one_of(
        st.builds(lambda a, b: a | b, part, part),
        st.builds(lambda a, b: a & b, part, part),
        st.builds(lambda a: ~a, part),
    ),
    max_leaves=5,
)


@given(patterns, patterns, st.integers(1, 6))
def test_algebra_is_that_of_masks(a: Pattern, b: Pattern, n: int) -> None:
    assert torch.equal((a | b).mask(n), a.mask(n) | b.mask(n))
    assert torch.equal((a & b).mask(n), a.mask(n) & b.mask(n))
    assert torch.equal((~a).mask(n), ~a.mask(n))


def test_prefix_stability_needs_every_part() -> None:
    assert (Causal() | Causal()).prefix_stable
    assert not (Causal() | Full()).prefix_stable


def test_a_function_or_a_mask_combines_with_a_pattern() -> None:
    after = Causal() & (lambda b, h, i, j: j >= 2)
    assert after.mask(4).tolist() == (Causal().mask(4) & (torch.arange(4) >= 2)).tolist()
    assert (Causal() | ~Causal().mask(4)).mask(4).all()
    with pytest.raises(InvalidArgument, match="pattern=3: expected a Pattern, its text"):
        Causal() | 3


def test_only_patterns_combine() -> None:
    with pytest.raises(InvalidArgument, match="one or more Patterns"):
        Union(())
    with pytest.raises(InvalidArgument, match="expected a Pattern"):
        Complement("x")  # type: ignore[arg-type]
