"""The contextual mapping of Yun et al. in exact integers: what the attention layers compute.

Units and notation as in `anyseq.construct.contextual.mapping`.

- With positions, token j (from 0) carries E_j = j·(1, ..., 1), so the ids of different tokens lie
  in disjoint intervals: base_j + {0, ..., δ^-d - 1} units.
- Selective shifts sweep all possible ids upward; a token whose id is g moves by c(max - min), where
  max and min run over the sequence. In a sequence with ids l_1 < ... < l_n the first moves above
  all, then the second above that, and so on:
      l'_j = l_j + c (l'_{j-1} - l_j),   l'_0 = l_n,   c = δ^-w.
  (l_1, ..., l_n) -> l'_n is one-to-one.
- The global shift adds S max to everyone, S = δ^-(n+1)w, so that equal l' in different sequences
  part: the final id l'_j + S l'_n names the token *and* its whole sequence.

Two constants differ from the paper, because its own collide in small cases (found exhaustively):
with positions S = 2n'δ^-(n+1)w, n' = n rounded up to a power of two; and for n = 2, w = 1 with
positions c = 2δ^-1 (and S four times as large), since there a shifted id could meet a window of the
second token.
Whatever the constants, `Contextual.check` looks at every sequence of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from anyseq.construct.contextual.mapping import ContextualMapping, ShiftLayers
from anyseq.errors import ConstructionFault


@dataclass(frozen=True)
class Contextual(ContextualMapping):
    """The constants of the mapping for one grid, with dense attention."""

    positions: bool

    @property
    def offsets(self) -> tuple[int, ...]:
        return tuple(range(self.tokens)) if self.positions else (0,) * self.tokens

    @property
    def size(self) -> ShiftLayers:
        swept = len(self.windows)
        return ShiftLayers(swept + 1, swept + 1, 1)

    @property
    def windows(self) -> list[int]:
        """The ids that the selective shifts sweep, upward."""
        bases = self.bases if self.positions else [0]
        return [base + cell for base in bases for cell in range(self.token_cells)]

    @property
    def selective_shift(self) -> int:
        """c."""
        return int(self.steps**self.width) * (2 if self._tight else 1)

    @property
    def global_shift(self) -> int:
        """S."""
        plain = int(self.steps ** ((self.tokens + 1) * self.width))
        if not self.positions:
            return plain
        # l'_2 grows with c²
        return plain * (2 << (self.tokens - 1).bit_length()) * (4 if self._tight else 1)

    @property
    def _tight(self) -> bool:
        return self.positions and self.tokens == 2 and self.width == 1

    @cached_property
    def largest(self) -> int:
        # l'_n grows with l_n and falls with the others
        lows = [base + (0 if self.positions else j) for j, base in enumerate(self.bases[:-1])]
        return self._last([*lows, self.bases[-1] + self.token_cells - 1]) * (1 + self.global_shift)

    @cached_property
    def lowest(self) -> int:
        """With positions max >= l_n >= base_n. Without, l'_n is smallest for the n closest ids
        0, ..., n-1 (moving all ids by a moves l'_n by a)."""
        if self.positions:
            return self.global_shift * self.bases[-1]
        return self.global_shift * self._last(list(range(self.tokens)))

    @cached_property
    def least_gap(self) -> int:
        """Within a sequence l'_j - l'_{j-1} = (c-1)(l'_{j-1} - l_j), which is smallest for j = 2:
        l'_1 - l_2 = l_1 + c(l_n - l_1) - l_2. In two sequences l'_n differs by 1 or more, and the
        l' lie in [0, max l'_n]; so ids differ by at least S - max l'_n.
        """
        shift, cells, tokens = self.selective_shift, self.token_cells, self.tokens
        if tokens == 1:
            return 1 + self.global_shift
        if self.positions:
            first, last = cells - 1, self.bases[-1]
            second = last if tokens == 2 else self.bases[1] + cells - 1
        else:
            # l_n - l_1 = m >= n-1 and l_2 - l_1 <= m-(n-2): smallest for the closest ids
            first, second, last = 0, 1, tokens - 1
        within = (shift - 1) * (first + shift * (last - first) - second)
        across = self.global_shift - self.largest // (1 + self.global_shift)
        return max(1, min(within, across))

    def _last(self, ids: list[int]) -> int:
        """l'_n of a sequence with increasing ids."""
        moved = ids[-1]
        for own in ids:
            moved = own + self.selective_shift * (moved - own)
        return moved

    def sequences(self) -> torch.Tensor:
        """Without positions a sequence stands for all its orders: only the non-decreasing ones."""
        cells = super().sequences()
        return cells if self.positions else cells[(cells.diff(dim=1) >= 0).all(1)]

    def final_ids(self, sequences: torch.Tensor) -> torch.Tensor:
        """A window without tokens does nothing, so each step goes straight to the next window that
        holds a token, in each sequence: also one that was shifted into a later window."""
        ids = sequences + torch.tensor(self.bases)
        never = torch.iinfo(torch.int64).max
        window = torch.full((len(ids), 1), -1)
        while True:
            due = torch.where((ids > window) & self._swept(ids), ids, never)
            window = due.amin(1, keepdim=True)
            if (window == never).all():
                return ids + self.global_shift * ids.amax(1, keepdim=True)
            spread = ids.amax(1, keepdim=True) - ids.amin(1, keepdim=True)
            ids = torch.where(ids == window, ids + self.selective_shift * spread, ids)

    def ids_by_layer(self, sequences: torch.Tensor) -> list[torch.Tensor]:
        """(B, n) the ids before the first layer, after each selective shift, and after the global
        shift: `final_ids`."""
        found = [sequences + torch.tensor(self.bases)]
        for window in self.windows:
            ids = found[-1]
            spread = ids.amax(1, keepdim=True) - ids.amin(1, keepdim=True)
            found.append(torch.where(ids == window, ids + self.selective_shift * spread, ids))
        return [*found, found[-1] + self.global_shift * found[-1].amax(1, keepdim=True)]

    def _swept(self, ids: torch.Tensor) -> torch.Tensor:
        """Whether an id is one of `windows`."""
        if not self.positions or self.tokens == 1:
            return ids < self.token_cells
        apart = self.bases[1]
        return (ids % apart < self.token_cells) & (ids < apart * self.tokens)

    def check(self, sequences: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, int]:
        """With positions all sequences have values. Without, those whose tokens are all different:
        one with equal tokens must end below all others, where it is told apart and erased."""
        if self.positions:
            return super().check(sequences, ids)
        distinct = (sequences.diff(dim=1) > 0).all(1)
        good = ids[distinct]
        self._check_good(good)
        if (ids[~distinct] >= good.min()).any():
            raise ConstructionFault(f"contextual mapping: equal tokens got a good id in {self}")
        return distinct, self._gap(good)
