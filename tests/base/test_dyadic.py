import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyseq.base import ZERO_WEIGHT_GAP, power_of_two_at_least, power_of_two_at_most
from anyseq.errors import InvalidArgument


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_powers_of_two_enclose(value: float) -> None:
    low, high = power_of_two_at_most(value), power_of_two_at_least(value)
    assert low <= value <= high
    assert high <= 2 * low
    assert math.frexp(low)[0] == math.frexp(high)[0] == 0.5


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_no_power_of_two_for_these(value: float) -> None:
    with pytest.raises(InvalidArgument):
        power_of_two_at_least(value)


def test_a_loser_by_the_gap_weighs_exactly_nothing() -> None:
    assert np.exp(-ZERO_WEIGHT_GAP) == 0.0
    assert np.exp(-ZERO_WEIGHT_GAP / 2) > 0.0
