"""Method "boltzmann" for every other design: rounds of attention and look-up, in L^p.

Feed-forward layers number the token's cell (with learned positions token j adds jM, BOS has a
number of its own). Then come rounds (`anyseq.construct.methods.boltzmann.refining`): a layer of
random heads brings every token one number, together with its own number a key; windows around the
keys of each class give the class a new number. The windows of the last round hold values of f
instead.

Only what the design can tell apart is separated: a dense design with relative biases, say, gives
identical tokens one key. That a design is universal in L^p (docs/theorems.md, Theorem 2) means
that such sequences are few on a fine grid. They are counted, not estimated. All sequences of
cells are run when the network is planned, and a share λ of the pairs (sequence, token) is
*lost*: their class also has pairs for which f may have another value, and took that value. So

    ‖f - T‖_p <= (cells^p + λ n d_out (2 max|f|)^p + ramps^p)^(1/p),

where cells and ramps are those of one grid. Off the ramps nothing rounds: a key, run again, is
within gap/16 of its class, whose window begins gap/4 from it and ends, ramps included, gap/2 from
it, short of the next. So T is a value of f, to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from anyseq.base import Progress, generator
from anyseq.construct.counting.lattice import lattice
from anyseq.construct.gadgets import Room, clear, widened, windows
from anyseq.construct.gathering import Heads, base_of
from anyseq.construct.methods.boltzmann.refining import (
    Choice,
    Round,
    Wires,
    cases,
    choose,
    refine,
    refining_heads,
)
from anyseq.construct.methods.grid import ByWindows, OneGrid
from anyseq.construct.methods.recipe import Construction
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import LP, Term, combine
from anyseq.construct.request.kind import kind_of_function
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused_cells import Quantised
from anyseq.errors import CannotApproximate
from anyseq.nn import Layers, Stack, StackShape
from anyseq.positions import Absolute, Sinusoidal
from anyseq.probability import Entmax15, Softmax, Sparsemax, TopK

_LOG2_MOST_KEYS = 18  # a plan runs all sequences, in every round several times


def recipe(ask: Ask) -> RoundsRecipe:
    """The coarsest grid, and on it the fewest rounds, that meet the tolerance."""
    kind = _check(ask)
    for grid in RefinedGrid.fine_enough(ask, _LOG2_MOST_KEYS):
        for found in grid.recipes(kind):
            if combine(found.terms, ask.norm, ask.p) <= ask.tol:
                return found
    raise AssertionError("there is always a finer grid, or an error")


def _check(ask: Ask) -> str:
    """Raise an error where rounds do not apply; otherwise the kind of f that is covered."""
    design, name = ask.design, ask.design.probability.name
    keeps_all = isinstance(design.probability, TopK) and design.probability.k >= design.size
    if not (isinstance(design.probability, Softmax | Sparsemax | Entmax15) or keeps_all):
        raise CannotApproximate(
            f"it needs a continuous probability map: softmax, sparsemax or entmax15, not {name}"
        )
    if isinstance(base_of(design.position), Sinusoidal):
        raise CannotApproximate("it needs an input to which only learned vectors are added")
    kind = kind_of_function(design, LP, ask.verdicts)
    verdict = ask.verdicts.of(design, LP, kind)
    if verdict.universal is False:
        raise CannotApproximate(f"in L^p, {verdict.reason}")
    return kind


@dataclass(frozen=True)
class RefinedGrid(OneGrid):
    """All sequences of cells of one grid, as numbers in the design."""

    @property
    def log2_keys(self) -> float:
        """Keys are pairs (sequence, position)."""
        tokens = self.ask.design.tokens
        return tokens * self.log_steps * self.ask.features + math.log2(self.ask.design.size)

    @property
    def wires(self) -> Wires:
        """Features: input/output | number | 1 | key | nodes of the windows."""
        return Wires(self.number_at, self.number_at + 1, self.number_at + 2)

    @property
    def nodes_at(self) -> int:
        return self.number_at + 3

    @property
    def numbers_start(self) -> torch.Tensor:
        """(positions,) what is added to the numbers of the cells, BOS first."""
        design = self.ask.design
        told = isinstance(base_of(design.position), Absolute)
        tokens = [self.token_cells * token * told for token in range(design.tokens)]
        bos = [self.token_cells * (design.tokens if told else 1)] * design.bos
        return torch.tensor(bos + tokens)

    @cached_property
    def heads(self) -> Heads:
        return refining_heads(self.ask.design)

    @cached_property
    def gain(self) -> torch.Tensor | None:
        """The table of gains that all layers share, if the design has one."""
        return self.heads.shared_gain(generator(0))

    def cells_of_sequences(self) -> torch.Tensor:
        """(S, n) the numbers of the cells."""
        return lattice(self.token_cells, self.ask.design.tokens)

    def recipes(self, kind: str) -> Iterator[RoundsRecipe]:
        """With one round, two, ..., until nothing is lost or no further pairs are told apart."""
        bos = int(self.ask.design.bos)
        cells = self.cells_of_sequences()
        case = cases(cells, self.token_cells, kind)
        start = torch.nn.functional.pad(cells, (bos, 0)) + self.numbers_start
        rounds: list[Round] = []
        for found in refine(self.heads, self.wires, self.nodes_at, self.gain, start):
            rounds.append(found)
            choice = choose(found.classes[:, bos:], case)
            yield RoundsRecipe(self.ask, self.log_steps, tuple(rounds), choice)
            if not bool(choice.lost.any()):
                return


@dataclass(frozen=True)
class RoundsRecipe(RefinedGrid, ByWindows):
    """The network of some rounds; `choice` says which value each pair gets."""

    rounds: tuple[Round, ...]
    choice: Choice
    method: str = "boltzmann"

    @cached_property
    def shares(self) -> tuple[float, float]:
        """The lost pairs among all, and the sequences with lost pairs among all."""
        lost = self.choice.lost
        return float(lost.double().mean()), float(lost.any(1).double().mean())

    @property
    def notes(self) -> tuple[str, ...]:
        if self.shares[0] == 0:
            return ()
        return (
            f"a share of {self.shares[1]:.2g} of all sequences has tokens that this design cannot "
            "tell from others, or not in float64",
        )

    @property
    def cells(self) -> int:
        return int(self.token_cells**self.ask.design.tokens)

    @property
    def keys(self) -> int:
        """The windows of the last round."""
        return len(self._look_up[0])

    @property
    def id_bits(self) -> int:
        return max(found.id_bits for found in self.rounds)

    @property
    def pointwise(self) -> float:
        worst = 2 * self.ask.bound if self.shares[0] else 0.0
        return max(worst, self.off_centre)

    @property
    def exceptional(self) -> float:
        return min(1.0, self.on_ramps + self.shares[1])

    @property
    def terms(self) -> tuple[Term, ...]:
        ask = self.ask
        cells, ramps = self.grid_terms
        lost = Term(
            "alike",
            self.shares[0] ** (1 / ask.p) * ask.spread * 2 * ask.bound,
            "alike",
            f"{self.shares[0]:.2g} of all (sequence of cells, token) cannot be told from others "
            "of another value, all of them counted; |f - T| <= 2 max|f| there",
        )
        return (cells, lost, ramps) if self.shares[0] else (cells, ramps)

    @cached_property
    def _look_up(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The last round's classes of tokens, and the pair whose value each takes."""
        classes = self.rounds[-1].classes[:, int(self.ask.design.bos) :].flatten()
        source = torch.full((len(self.rounds[-1].low),), -1)
        source[classes] = self.choice.source.flatten()
        (taken,) = (source >= 0).nonzero(as_tuple=True)
        return taken, source[taken]

    def room_for(self, chunk: int) -> Room:
        hidden = max(2 * chunk, 2 * self.ask.features + 1)
        return Room(self.nodes_at + chunk, hidden, self.nodes_at, chunk)

    def shape_in(self, room: Room) -> StackShape:
        ask, design = self.ask, self.ask.design
        layers = ask.features * room.layers(self.steps - 1)
        waits = 0
        for found in self.rounds:
            wait = self.wait(found.turn, layers)
            last = found is self.rounds[-1]
            look_up = room.layers(self.keys) if last else room.layers(len(found.low)) + 1
            layers, waits = layers + wait + 1 + look_up, waits + wait
        return StackShape(
            tokens=design.tokens,
            in_features=ask.features,
            out_features=ask.out_features,
            width=room.width,
            heads=self.heads.count,
            head_dim=self.heads.size,
            hidden=room.hidden,
            layers=ask.layers(layers),
            attention_layers=len(self.rounds),
            feedforward_layers=layers - waits,
            positions="position" in self._vectors(room.width),
            constant=True,
            bos=design.bos,
            sinks=bool(design.sinks),
            gains=0 if self.gain is None else self.gain.shape[1],
            inside=tuple(self.heads.tables.items()),
        )

    def build(self, target: Target, progress: Progress) -> Construction:
        points = self.centres(self.cells_of_sequences())
        found = target(points, progress, "evaluate f at the cells' centres")
        flat = found.flatten(0, 1)
        return Construction(
            Quantised(self.steps, self.ramp, True, flat[self.choice.source]),
            lambda: self._model(flat),
            float(found.abs().max()),
            {
                "classes told apart": " -> ".join(f"{len(one.low):,}" for one in self.rounds),
                "pairs lost": f"{int(self.choice.lost.sum()):,} of {self.choice.lost.numel():,}",
            },
        )

    def _model(self, values: torch.Tensor) -> Stack:
        ask, room = self.ask, self.room
        runs = self.numbering(room)
        for found in self.rounds:
            runs.append(Layers(idle=self.wait(found.turn, sum(map(len, runs)))))
            runs.append(self._listen(found))
            if found is self.rounds[-1]:
                taken, source = self._look_up
                runs.append(self._windows(found, taken, values[source], into=0))
            else:
                every = torch.arange(len(found.low))
                numbers = found.numbers.double()[:, None]
                runs.append(self._windows(found, every, numbers, into=self.number_at))
                key = self.wires.mixed_at
                runs.append(
                    Layers(feedforward=clear(1, at=key, hidden=room.hidden, width=room.width))
                )
        return Stack.of(
            ask.design,
            runs,
            in_features=ask.features,
            out_features=ask.out_features,
            gain=self.gain,
            **self._vectors(room.width),
        )

    def _listen(self, found: Round) -> Layers:
        """The key becomes the output of the heads plus 2^e·number; inputs and number are
        cleared."""
        room, features, wires = self.room, self.ask.features, self.wires
        feedforward = clear(features, at=0, hidden=room.hidden, width=room.width)
        unit = 2 * features
        feedforward.up_weight[0, unit, wires.number_at] = 1.0
        feedforward.down_weight[0, wires.number_at, unit] = -1.0
        feedforward.down_weight[0, wires.mixed_at, unit] = found.shift
        return Layers(attention=widened(found.layer, room.width), feedforward=feedforward)

    def _windows(
        self, found: Round, classes: torch.Tensor, values: torch.Tensor, into: int
    ) -> Layers:
        return windows(
            found.low[classes] - found.gap / 4,
            found.high[classes] + found.gap / 4,
            values,
            slope=4 / found.gap,
            at=self.wires.mixed_at,
            into=into,
            room=self.room,
        )

    def _vectors(self, width: int) -> dict[str, Any]:
        """What `Stack.of` adds to tokens and BOS."""
        design, start = self.ask.design, self.numbers_start.double()
        vectors = {"constant": torch.zeros(width, dtype=torch.float64)}
        vectors["constant"][self.wires.one_at] = 1.0
        if design.bos:
            vectors["bos"] = vectors["constant"].clone()
            vectors["bos"][self.number_at] = start[0]
        if isinstance(base_of(design.position), Absolute):
            vectors["position"] = torch.zeros(design.size, width, dtype=torch.float64)
            vectors["position"][design.bos :, self.number_at] = start[design.bos :]
        return vectors
