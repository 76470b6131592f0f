"""The contextual mapping of sparse attention (Yun et al. 2020b) in exact integers.

Units and notation as in `anyseq.construct.contextual.mapping`; γ as in
`anyseq.construct.contextual.route`.

- E_γ(1) = (n-1)(1, ..., 1) and E_γ(i) = (i-2)(1, ..., 1): ids lie in disjoint intervals, that of
  γ(1) is the highest, the others ascend along γ. C = δ^-d is the length of an interval.
- Selective shifts sweep the ids of γ(2), ..., γ(n), upward, each in a layer in which γ(i) sees
  γ(i-1). Where a token has the id g it moves by c(max - min) over the tokens that it sees. When it
  is the turn of γ(i) it has the smallest id of all and sees itself; γ(i-1) has the largest. So
      l'_i = l_i + c (l'_{i-1} - l_i),   l'_1 = l_1,   c = δ^-w,
  and l'_1 < ... < l'_n. (l_1, ..., l_n) -> l'_n is one-to-one: modulo c >= C it is l_n, from which
  l'_{n-1} follows, and so on. No moved id meets a later window, all of which lie below l_1.
- Then the largest id, L = l'_n, must come to everybody. It sits at γ(n), in every sequence, so s
  layers are enough, where s is what γ(n) needs to reach all (at most the paper's s).

All-max-shift: t_k + a·max_{j in A_k} t_j, s times. Everybody ends between a^s L and (1+a)^s L, so
sequences with different L part if a^s > (T-1)((1+a)^s - a^s), T = max L. Within a sequence ids
stay different modulo a > T. The paper's a = 2snδ^-nd-1 is more than is needed; here a is the
smallest power of two that leaves as much room between sequences as there is within one, and so
more cases fit 53 bits.

Carried maximum (one extra feature): ids need not grow with s. γ(n) alone gets M = L - θ > 0 into a
feature of its own, θ = max l'_{n-1} over all sequences, everybody else 0. In each of s layers the
tokens that hold 0 and see a holder take M. The final id is t_k + S M, S > T a power of two. For
n = 2, w = 1 this asks for c = 2δ^-1, since with c = δ^-1 the smallest L is θ itself.

Whatever the constants, `check` looks at every sequence of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from anyseq.construct.contextual.mapping import ContextualMapping, ShiftLayers
from anyseq.construct.contextual.route import Route


@dataclass(frozen=True)
class SparseContextual(ContextualMapping):
    """The constants of the mapping for one grid and one route.

    first: the layer of the network in which the sweep may begin.
    carried: the maximum travels in a feature of its own.
    """

    route: Route
    first: int
    carried: bool

    @property
    def offsets(self) -> tuple[int, ...]:
        return self.route.offsets

    @property
    def spare_bits(self) -> int:
        return 3 if self.carried else 0  # final ids are keys: see `gadgets.decide`

    @property
    def windows(self) -> list[int]:
        """The ids that the selective shifts sweep: those of γ(2), ..., γ(n), upward."""
        return [
            place * self.apart + cell
            for place in range(self.tokens - 1)
            for cell in range(self.token_cells)
        ]

    @cached_property
    def turns(self) -> tuple[tuple[int, ...], ...]:
        """The layer of each window: turns[i][g] for cell g of γ(i+2)."""
        turns, layer = [], self.first
        for place in range(1, self.tokens):
            row = []
            for _ in range(self.token_cells):
                row.append(self.route.next_turn(place, layer))
                layer = row[-1] + 1
            turns.append(tuple(row))
        return tuple(turns)

    @cached_property
    def spread(self) -> tuple[int, int]:
        """(first layer, s): where the largest id goes to every token."""
        return self.route.best_spread(self.turns[-1][-1] + 1 if self.turns else self.first)

    @property
    def size(self) -> ShiftLayers:
        start, spread = self.spread
        layers = start + spread - self.first
        attention = (self.tokens - 1) * self.token_cells + spread
        idle = layers - attention
        return ShiftLayers(layers, attention, idle + 1 + self.carried)

    @property
    def selective_shift(self) -> int:
        """c."""
        return int(self.steps**self.width) * (2 if self._tight else 1)

    @property
    def _tight(self) -> bool:
        return self.carried and self.tokens == 2 and self.width == 1

    @cached_property
    def _ranges(self) -> list[tuple[int, int]]:
        """The smallest and the largest l'_i over all sequences: l'_i grows with l'_{i-1}, and falls
        with l_i."""
        shift, above = self.selective_shift, self.token_cells - 1
        ranges = [(base := (self.tokens - 1) * self.apart, base + above)]
        for place in range(1, self.tokens):
            own, (low, high) = (place - 1) * self.apart, ranges[-1]
            ranges.append((own + above + shift * (low - own - above), own + shift * (high - own)))
        return ranges

    @property
    def threshold(self) -> int:
        """θ."""
        return self._ranges[-2][1] if self.tokens > 1 else -1

    @property
    def _within(self) -> int:
        """The ids of a sequence differ at least so much before the maximum comes: l'_i - l'_{i-1}
        = (c-1)(l'_{i-1} - l_i), both of which take their extreme values."""
        above = self.token_cells - 1
        gaps = [
            (self.selective_shift - 1) * (low - (place * self.apart + above))
            for place, (low, _) in enumerate(self._ranges[:-1])
        ]
        return min(gaps, default=1)

    @cached_property
    def max_shift(self) -> int:
        """a, or S if the maximum is carried."""
        top = self._ranges[-1][1]
        shift = 1 << top.bit_length()  # above T
        while self._across(shift) < self._within:
            shift *= 2
        return shift

    def _across(self, shift: int) -> int:
        """Ids of two sequences differ at least so much."""
        bottom, top = self._ranges[0][0], self._ranges[-1][1]
        if self.carried:
            return shift - (top - bottom)
        spread = self.spread[1]
        power = int(shift**spread)
        return power - (top - 1) * (int((1 + shift) ** spread) - power)

    @cached_property
    def largest(self) -> int:
        top = self._ranges[-1][1]
        if self.carried:
            return top + self.max_shift * (top - self.threshold)
        return top * int((1 + self.max_shift) ** self.spread[1])

    @cached_property
    def lowest(self) -> int:
        low = self._ranges[-1][0]
        if self.carried:
            return self.max_shift * (low - self.threshold)
        return low * int(self.max_shift ** self.spread[1])

    @cached_property
    def least_gap(self) -> int:
        # modulo a (or S) two ids of a sequence differ as before, or by what is left of a
        bottom, top = self._ranges[0][0], self._ranges[-1][1]
        around = self.max_shift - (top - bottom)
        return max(1, min(self._within, around, self._across(self.max_shift)))

    def final_ids(self, sequences: torch.Tensor) -> torch.Tensor:
        """A window without tokens does nothing, so each step goes straight to the next window that
        holds a token, in each sequence."""
        ids = sequences + torch.tensor(self.bases)
        for place in range(1, self.tokens):
            ids = self._swept(ids, place)
        start, spread = self.spread
        masks = [
            self.route.masks[late % self.route.period] for late in range(start, start + spread)
        ]
        if not self.carried:
            for mask in masks:
                ids = ids + self.max_shift * _seen(ids, mask).amax(2)
            return ids
        held = (ids - self.threshold).clamp(min=0)
        for mask in masks:
            held = torch.where(held > 0, held, _seen(held, mask).amax(2))
        return ids + self.max_shift * held

    def _swept(self, ids: torch.Tensor, place: int) -> torch.Tensor:
        """The ids after the windows of γ(place+1)."""
        base, never = (place - 1) * self.apart, torch.iinfo(torch.int64).max
        turns = torch.tensor(self.turns[place - 1]) % self.route.period
        window = torch.full((len(ids), 1), base - 1)
        while True:
            due = torch.where((ids > window) & (ids < base + self.token_cells), ids, never)
            window = due.amin(1, keepdim=True)
            late = window == never
            if late.all():
                return ids
            mask = self.route.masks[turns[torch.where(late, 0, window - base).flatten()]]
            visible = _seen(ids, mask)
            least = torch.where(mask, ids[:, None], never).amin(2)
            moved = ids + self.selective_shift * (visible.amax(2) - least)
            ids = torch.where((ids == window) & ~late, moved, ids)


def _seen(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(S, n, n): the ids that each token attends to, -1 where there is none."""
    return torch.where(mask, ids[:, None], -1)
