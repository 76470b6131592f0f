"""Decide: numbers that are known up to rounding become one-hot colours, exactly.

Each token has a number, and its class is known: classes are intervals of numbers, with a gap g_k
between class k and class k+1 whose middle is m_k. First, for every gap, a step

    S_k = ReLU(t_k) - ReLU(t_k - 1),   t_k = s_k (number - m_k) + 1/2,   s_k = 2^j >= 4/g_k:

a number that rounding has moved by less than g_k/8 has t_k <= -1 or t_k >= 2. In the first case S_k
is exactly 0, both ReLUs being off; in the second it is 1 up to the rounding of t_k. A further layer
gives class r, with y = S_(r-1) - S_r (1 for S_(-1), 0 for the last S),

    ReLU(2y - 1/2) - ReLU(2y - 3/2).

For the own class S_r is exactly 0, so y is S_(r-1) = 1 + ε and nothing rounds: multiples of 2^-52
below 2. The difference is exactly 1. For classes above y = 0, for classes below y = ε - ε': both
ReLUs are off while |ε| < 1/8. All classes are exact then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyseq.base import UNIT_ROUNDOFF, power_of_two_at_least
from anyseq.construct.gadgets.units import Units
from anyseq.errors import ConstructionFault


def into_colours(
    *,
    form: Mapping[int, float],
    numbers: Sequence[tuple[float, float]],
    into: Sequence[int],
    old: Sequence[int],
    number_at: int,
    steps_at: int,
) -> tuple[Units, Units]:
    """Two layers: steps, then colours.

    form: the number, as a form in the features; numbers: the lowest and highest of each class,
    ascending; into: the feature that each class gets; old: features with the colours so far, which
    are cleared, as are the feature `number_at` and the steps, from `steps_at` on.
    """
    largest = max(abs(end) for ends in numbers for end in ends)
    steps, colours = Units(), Units()
    count = len(numbers) - 1
    for k in range(count):
        low, high = numbers[k][1], numbers[k + 1][0]
        slope = power_of_two_at_least(4 / (high - low))
        # a form of len(form)+1 terms, none above twice the largest number
        if 16 * (len(form) + 2) * largest * slope * UNIT_ROUNDOFF > 1 / 8:
            raise ConstructionFault(f"a gap of {high - low:.3g} between numbers of {largest:.3g}")
        read = {feature: slope * weight for feature, weight in form.items()}
        offset = 0.5 - slope * (low + high) / 2
        steps.add(read, {steps_at + k: 1.0}, offset)
        steps.add(read, {steps_at + k: -1.0}, offset - 1.0)
    steps.clear([number_at], signed=True)
    colours.clear(old)
    for rank, feature in enumerate(into):
        read = {steps_at + rank - 1: 2.0} if rank else {}
        read |= {steps_at + rank: -2.0} if rank < count else {}
        first = 0.0 if rank else 2.0
        colours.add(read, {feature: 1.0}, first - 0.5)
        colours.add(read, {feature: -1.0}, first - 1.5)
    colours.clear(range(steps_at, steps_at + count))
    return steps, colours
