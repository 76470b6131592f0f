"""The largest and the smallest of D numbers at once, by ReLUs in ⌈log2 D⌉ layers.

With s = ReLU(b - a): max(a, b) = a + s and min(a, b) = b - s. So the first round of a knock-out
tournament needs one ReLU a pair for both, later rounds two (one among the highs, one among the
lows). Only ReLU outputs are kept, in *scratch* features; highest and lowest are linear forms in the
numbers and the scratch. Since scratch is never negative, s - ReLU(s) = 0 clears it exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

_Form = dict[int, float]  # index of a number (0..D-1) or of a scratch feature (D..) -> coefficient


@dataclass(frozen=True)
class Tournament:
    """Linear forms over (numbers, scratch), each a vector of length D + scratch.

    rounds: per round the forms (units, D + scratch) whose ReLUs fill the next scratch features.
    """

    rounds: tuple[torch.Tensor, ...]
    highest: torch.Tensor
    lowest: torch.Tensor
    scratch: int


@cache
def tournament(axes: int) -> Tournament:
    """The tournament among `axes` numbers."""
    players: list[tuple[_Form, _Form]] = [({axis: 1.0}, {axis: 1.0}) for axis in range(axes)]
    rounds: list[list[_Form]] = []
    free = axes
    while len(players) > 1:
        forms: list[_Form] = []
        winners = []
        for (high, low), (other_high, other_low) in zip(players[::2], players[1::2], strict=False):
            forms.append(_minus(other_high, high))
            best, worst = _minus(high, {free: -1.0}), _minus(other_low, {free: 1.0})
            free += 1
            if high != low or other_high != other_low:
                forms.append(_minus(low, other_low))
                worst = _minus(low, {free: 1.0})
                free += 1
            winners.append((best, worst))
        rounds.append(forms)
        players = winners + players[len(players) // 2 * 2 :]
    highest, lowest = players[0]
    return Tournament(
        rounds=tuple(_dense(forms, free) for forms in rounds),
        highest=_dense([highest], free)[0],
        lowest=_dense([lowest], free)[0],
        scratch=free - axes,
    )


def _minus(a: _Form, b: _Form) -> _Form:
    return {key: a.get(key, 0.0) - b.get(key, 0.0) for key in a.keys() | b.keys()}


def _dense(forms: list[_Form], length: int) -> torch.Tensor:
    dense = torch.zeros(len(forms), length, dtype=torch.float64)
    for row, form in enumerate(forms):
        for index, value in form.items():
            dense[row, index] = value
    return dense
