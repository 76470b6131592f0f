"""Sets as bits, against Python's own integers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anyseq.graph.bits import members, unpack

WORDS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5)


@given(st.lists(WORDS, min_size=1, max_size=4).filter(lambda rows: len({*map(len, rows)}) == 1))
def test_bits_are_those_of_the_integers(rows: list[list[int]]) -> None:
    words = np.array(rows, dtype=np.uint64)
    expected = [[word >> bit & 1 for word in row for bit in range(64)] for row in rows]
    assert unpack(words).tolist() == expected
    assert members(words).tolist() == [sum(row) for row in expected]
