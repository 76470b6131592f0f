import math

import pytest

from anyseq.base import at_least_one, finite, non_negative, one_of, positive
from anyseq.errors import InvalidArgument


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "3", None])
def test_at_least_one_refuses(value: object) -> None:
    with pytest.raises(InvalidArgument, match=r"tokens=.*expected a whole number, 1 or more"):
        at_least_one("tokens", value)


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None, True])
def test_finite_refuses(value: object) -> None:
    with pytest.raises(InvalidArgument, match=r"scale=.*finite"):
        finite("scale", value)


def test_positive_and_non_negative_differ_at_zero() -> None:
    assert non_negative("lipschitz", 0) == 0.0
    with pytest.raises(InvalidArgument, match="tol=0: expected a number above 0"):
        positive("tol", 0)
    with pytest.raises(InvalidArgument, match="lipschitz=-1"):
        non_negative("lipschitz", -1)


def test_one_of_lists_the_choices() -> None:
    assert one_of("norm", "sup", ("sup", "lp")) == "sup"
    with pytest.raises(InvalidArgument, match=r"norm='l2': expected one of 'sup', 'lp'"):
        one_of("norm", "l2", ("sup", "lp"))
