"""Method "boltzmann": one softmax head as contextual mapping, after Kajitsuka and Sato (2024).

L^p. Feed-forward layers number the token's cell, one head of size 1 reads the sequence, and windows
look f up. Positions are optional: with them token j adds jM to its number, and every f is served;
without, those that commute with permutations. That is for dense softmax attention; other designs
have `anyseq.construct.methods.boltzmann.rounds`.

Let a_1, ..., a_n be the numbers of the tokens, integers in [0, A], and P a power of two above A.
The head has the constant query 1/P and the number as key and as value. So every token receives the
*Boltzmann mean*

    B = Σ_j a_j q^(a_j) / Σ_j q^(a_j),    q = e^(1/P).

It separates multisets {a_j}, equal numbers included: with p(x) = Σ_j x^(a_j), B = q p'(q)/p(q). If
two multisets had the same B then p' r - p r' = 0 at q. q is transcendental (Lindemann), and the
coefficients are integers, so p'r = pr' everywhere, r = c·p, and c = 1 since p(1) = r(1) = n. (The
paper takes a sharp query instead, for which gaps are as small as e^-A; here they are as small as
those of as many random numbers.)

The key B + P a_i encodes the token's own number too. The gap between keys is not guessed: all are
computed, in float64, and the windows are made from the smallest difference g that is found. Scores
a_j/P are exact. Weights of softmax err by a few units u = 2^-53 (64 are allowed for), so a computed
key by at most u(P² + 64(n+4)P), in the network as in the list. If twice that is at most g/8, keys
fall into their windows, which are g/4 wide on each side, and miss all others, which end g/2 from
their keys.

Off the ramps T is f at the centres of the cells, without any rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import torch

from anyseq.base import EXACT_BITS, Progress, power_of_two_at_least
from anyseq.construct.counting.lattice import lattice
from anyseq.construct.counting.multisets import count, first_equals, log2_count, multisets
from anyseq.construct.gadgets import Room, clear, windows
from anyseq.construct.gadgets.blank import blank_attention
from anyseq.construct.methods.boltzmann import rounds
from anyseq.construct.methods.grid import ByWindows, OneGrid
from anyseq.construct.methods.recipe import Construction
from anyseq.construct.request import needs
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import SUP, Term
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused_cells import Quantised
from anyseq.errors import CannotApproximate, ConstructionFault
from anyseq.nn import Layers, Stack, StackShape
from anyseq.positions import Absolute

NAME = "boltzmann"

_LOG2_MOST_KEYS = 22  # a plan computes all keys


def recipe(ask: Ask) -> BoltzmannRecipe | rounds.RoundsRecipe:
    """The coarsest grid that meets the tolerance."""
    needs.feed_forward(ask.design)
    needs.lipschitz(ask)
    if ask.norm == SUP:
        raise CannotApproximate("its guarantee is in L^p only; use norm='lp'")
    if not needs.plain_attention(ask.design):
        return rounds.recipe(ask)
    found = next(BoltzmannRecipe.fine_enough(ask, _LOG2_MOST_KEYS))
    tokens = ask.design.tokens
    if not found.positions and (
        log2_count(found.token_cells, tokens) + math.log2(tokens) > _LOG2_MOST_KEYS
    ):
        raise CannotApproximate(
            f"it needs δ <= 2^-{found.log_steps}: over 2^{_LOG2_MOST_KEYS} tokens in all multisets "
            "of cells together"
        )
    if found.id_bits > EXACT_BITS:
        raise CannotApproximate(
            f"it needs δ <= 2^-{found.log_steps}, where keys are only {found.gap:.2g} apart: "
            f"{found.id_bits} bits, and float64 holds {EXACT_BITS}"
        )
    return found


@dataclass(frozen=True)
class BoltzmannRecipe(OneGrid, ByWindows):
    """The network of one head for one grid."""

    method: str = NAME
    notes: tuple[str, ...] = ()

    @property
    def positions(self) -> bool:
        """Whether tokens carry their position."""
        return isinstance(self.ask.design.position, Absolute)

    @property
    def log2_keys(self) -> float:
        tokens, log2_cells = self.ask.design.tokens, self.log_steps * self.ask.features
        if self.positions or log2_cells > _LOG2_MOST_KEYS:
            return tokens * log2_cells + math.log2(tokens)
        return log2_cells + log2_count(self.token_cells, tokens - 1)

    @property
    def cells(self) -> int:
        tokens = self.ask.design.tokens
        return self.token_cells**tokens if self.positions else count(self.token_cells, tokens)

    @property
    def keys(self) -> int:
        """How many (own number, numbers of all) there are."""
        tokens = self.ask.design.tokens
        if self.positions:
            return int(tokens * self.token_cells**tokens)
        return self.token_cells * count(self.token_cells, tokens - 1)

    @property
    def scale(self) -> float:
        """P."""
        tokens = self.ask.design.tokens
        return scale_of(tokens, self.token_cells, self.positions)

    @cached_property
    def gap(self) -> float:
        """The smallest difference between two keys, computed."""
        return least_gap(self.ask.design.tokens, self.token_cells, self.positions)

    @property
    def id_bits(self) -> int:
        """log2 of the range of the keys, rounding errors counted in, in units of g/16."""
        reach = self.scale * (self.scale + 64 * (self.ask.design.tokens + 4))
        return math.ceil(math.log2(16 * reach / self.gap)) if self.gap > 0 else 2 * EXACT_BITS

    @property
    def pointwise(self) -> float:
        return self.off_centre

    @property
    def exceptional(self) -> float:
        return self.on_ramps

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.grid_terms

    # Features: input/output | number | key | nodes.
    def room_for(self, chunk: int) -> Room:
        nodes_at = self.number_at + 2
        hidden = max(2 * chunk, 2 * self.ask.features + 1)
        return Room(width=nodes_at + chunk, hidden=hidden, nodes_at=nodes_at, chunk=chunk)

    def shape_in(self, room: Room) -> StackShape:
        ask = self.ask
        layers = ask.features * room.layers(self.steps - 1) + 1 + room.layers(self.keys)
        return StackShape(
            tokens=ask.design.tokens,
            in_features=ask.features,
            out_features=ask.out_features,
            width=room.width,
            heads=1,
            head_dim=1,
            hidden=room.hidden,
            layers=ask.layers(layers),
            attention_layers=1,
            feedforward_layers=layers,
            positions=self.positions,
        )

    def build(self, target: Target, progress: Progress) -> Construction:
        ask = self.ask
        cells = _sequences(ask.design.tokens, self.token_cells, self.positions)
        values = target(self.centres(cells), progress, "evaluate f at the cells' centres")
        numbers, own = _numbers(cells, self.token_cells, self.positions)
        if not self.positions:  # equal tokens have equal outputs: those of the first
            values = values.gather(1, first_equals(cells)[:, :, None].expand_as(values))
        keys = contextual_keys(numbers, self.scale)[own]
        self._check(keys)
        return Construction(
            Quantised(self.steps, self.ramp, self.positions, values),
            lambda: self._model(keys, values[own]),
            float(values.abs().max()),
            {"smallest gap of keys": f"{self.gap:.3g}"},
        )

    def _check(self, keys: torch.Tensor) -> None:
        gap = float(keys.sort().values.diff().min())
        if len(keys) != self.keys or gap < self.gap:
            raise ConstructionFault(
                f"{len(keys)} keys, {gap:.3g} apart; expected {self.keys}, {self.gap:.3g} apart"
            )

    def _model(self, keys: torch.Tensor, values: torch.Tensor) -> Stack:
        ask, room, number_at = self.ask, self.room, self.number_at
        runs = self.numbering(room)
        runs.append(self._head())
        runs.append(
            windows(
                keys - self.gap / 4,
                keys + self.gap / 4,
                values,
                slope=power_of_two_at_least(4 / self.gap),
                at=number_at + 1,
                into=0,
                room=room,
            )
        )
        position = torch.zeros(ask.design.tokens, room.width, dtype=torch.float64)
        position[:, number_at] = torch.arange(ask.design.tokens) * float(self.token_cells)
        return Stack.of(
            ask.design,
            runs,
            in_features=ask.features,
            out_features=ask.out_features,
            position=position if self.positions else None,
        )

    def _head(self) -> Layers:
        """The key becomes B, then B + P·number; the inputs and the number are cleared."""
        room, number_at = self.room, self.number_at
        attention = blank_attention(1, heads=1, size=1, width=room.width)
        attention.q_bias[0, 0] = 1 / self.scale
        attention.k_weight[0, 0, number_at] = 1.0
        attention.v_weight[0, 0, number_at] = 1.0
        attention.o_weight[0, number_at + 1, 0] = 1.0
        feedforward = clear(self.ask.features, at=0, hidden=room.hidden, width=room.width)
        unit = 2 * self.ask.features
        feedforward.up_weight[0, unit, number_at] = 1.0
        feedforward.down_weight[0, number_at, unit] = -1.0
        feedforward.down_weight[0, number_at + 1, unit] = self.scale
        return Layers(attention=attention, feedforward=feedforward)


def scale_of(tokens: int, cells: int, positions: bool) -> float:
    """P, a power of two above every number."""
    return power_of_two_at_least(float(cells * tokens if positions else cells))


def contextual_keys(numbers: torch.Tensor, scale: float) -> torch.Tensor:
    """B + P a_i for every token of sequences of numbers (S, n)."""
    mean = (torch.softmax(numbers / scale, dim=1) * numbers).sum(1, keepdim=True)
    return mean + scale * numbers


@cache
def least_gap(tokens: int, cells: int, positions: bool) -> float:
    """The smallest difference between two keys, over all sequences of the grid."""
    numbers, own = _numbers(_sequences(tokens, cells, positions), cells, positions)
    keys = contextual_keys(numbers, scale_of(tokens, cells, positions))[own]
    return float(keys.sort().values.diff().min())


def _sequences(tokens: int, cells: int, positions: bool) -> torch.Tensor:
    """(S, n) int64: the cells of all sequences, up to order where there are no positions."""
    return lattice(cells, tokens) if positions else multisets(cells, tokens)


def _numbers(
    cells: torch.Tensor, token_cells: int, positions: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The tokens' numbers (S, n), and which tokens have a key of their own (S, n) bool."""
    if positions:
        start = torch.arange(cells.shape[1]) * token_cells
        return (cells + start).double(), torch.ones_like(cells, dtype=torch.bool)
    return cells.double(), cells.diff(dim=1, prepend=cells[:, :1] - 1) > 0  # first of its kind
