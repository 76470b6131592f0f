"""What witnesses are made of, by itself."""

from math import lcm

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anyseq.verdicts.witnesses import _cycle_lengths, _of_small_order


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7))
def test_a_power_of_small_order(lengths: list[int]) -> None:
    """It is a power of σ, found by walking through all of them; not the identity unless σ is; and
    comes back after twice as many steps as there are tokens at most."""
    sigma, start = np.arange(sum(lengths)), 0
    for length in lengths:
        sigma[start : start + length] = np.roll(sigma[start : start + length], 1)
        start += length
    found = _of_small_order(sigma)
    powers, power = [], sigma
    for _ in range(lcm(*lengths)):
        powers.append(power.tobytes())
        power = sigma[power]
    assert found.tobytes() in powers
    identity = np.arange(len(sigma))
    assert np.array_equal(found, identity) == np.array_equal(sigma, identity)
    assert lcm(*_cycle_lengths(found)) <= 2 * len(sigma)
