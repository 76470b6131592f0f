"""How tokens find their positions where these are not given: position refinement by heads.

Colours of positions are one-hot features: at the start one for all tokens, and another for BOS. In
each round heads read nothing but colours, with random scores, biases, gains and values, and add up
their outputs to one number. By Lemma 3 of docs/theorems.md almost every choice tells apart all
positions that the design can tell apart in that round. Since no content is read, the numbers are
known when the network is built: the very layer computes them, in float64. `into_colours` makes new
colours of them where they differ by _GAP or more. That a gap was found proves that it is there: for
every input the numbers are the same up to rounding, which is far below _GAP/8. (Weights are at most
1 and rounding moves them by some 2^-53 per key; by its square root where entmax15 takes the root of
a difference. For hardmax and top-k, scores that may tie are whole numbers, or whole multiples of
a slope that is a power of two, so that ties are exact; layers where others come near are not
taken: `Lead`.)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch

from anyseq.base import generator, power_of_two_at_least
from anyseq.construct.gadgets import into_colours
from anyseq.construct.gathering.blocks import Blocks
from anyseq.construct.gathering.heads import Heads, base_of
from anyseq.construct.gathering.lead import Lead
from anyseq.construct.gathering.room import Room
from anyseq.design import Design
from anyseq.errors import CannotApproximate
from anyseq.nn import AttentionLayers
from anyseq.patterns import Pattern
from anyseq.positions import ALiBi, Rotary
from anyseq.probability import Hardmax, TopK

_GAP = 2.0**-20
_TRIES = 12  # draws of a layer, of which the best is taken
_MOST_TRIES = 200  # if none of them brings anything new


@dataclass(frozen=True)
class Classes:
    """Positions by their numbers: classes lie _GAP or more apart.

    names: the class of each position, named after the first position in it.
    order: the names by ascending numbers; ends: the lowest and the highest number of each.
    """

    names: list[int]
    order: list[int]
    ends: list[tuple[float, float]]

    @classmethod
    def of(cls, numbers: torch.Tensor) -> Classes:
        value, ascending = (part.tolist() for part in numbers.sort())
        cuts = [k + 1 for k, (a, b) in enumerate(pairwise(value)) if b - a >= _GAP]
        spans = list(pairwise([0, *cuts, len(value)]))
        order = [min(ascending[low:high]) for low, high in spans]
        names = [0] * len(value)
        for name, (low, high) in zip(order, spans, strict=True):
            for position in ascending[low:high]:
                names[position] = name
        return cls(names, order, [(value[low], value[high - 1]) for low, high in spans])

    @property
    def quality(self) -> tuple[int, float]:
        """More classes are better, then wider gaps."""
        return len(self.order), min((b[0] - a[1] for a, b in pairwise(self.ends)), default=0.0)


def start_colours(design: Design) -> list[int]:
    """One colour for all tokens, another for BOS."""
    return [0] * design.bos + [int(design.bos)] * design.tokens


def find_places(heads: Heads, blocks: Blocks, room: Room, gain: torch.Tensor | None) -> None:
    """Rounds, until the colour of every position is its own: feature position_at + position."""
    rng = generator(0)
    colours = start_colours(heads.design)
    while len(set(colours)) < heads.vertices:
        found = next_round(heads, room, gain, colours, blocks, rng)
        steps, finer = into_colours(
            form=found.form,
            numbers=found.classes.ends,
            into=[room.position_at + name for name in found.classes.order],
            old=[room.position_at + name for name in sorted(set(colours))],
            number_at=room.number_at,
            steps_at=room.steps_at,
        )
        blocks.attend(found.layer, steps)
        blocks.think(finer)
        colours = found.classes.names


@dataclass(frozen=True)
class Round:
    """A layer that adds a number to `number_at`, the form that puts it beside the old colours, and
    the classes of the numbers."""

    layer: AttentionLayers
    form: dict[int, float]
    classes: Classes


def next_round(
    heads: Heads,
    room: Room,
    gain: torch.Tensor | None,
    colours: list[int],
    blocks: Blocks,
    rng: torch.Generator,
) -> Round:
    """A layer that tells more apart than the colours do, once one can: until then blocks wait."""
    cycle = heads.design.cycle
    for stuck in range(2 * len(cycle) + 1):
        pattern = cycle[len(blocks) % len(cycle)]
        found = _best_round(heads, room, gain, pattern, colours, rng, _TRIES)
        if found is None and stuck >= len(cycle):
            found = _best_round(heads, room, gain, pattern, colours, rng, _MOST_TRIES)
        if found is not None:
            return found
        blocks.wait()
    raise CannotApproximate(
        "no heads were found that tell all positions apart by more than rounding"
    )


def _best_round(
    heads: Heads,
    room: Room,
    gain: torch.Tensor | None,
    pattern: Pattern,
    colours: list[int],
    rng: torch.Generator,
    tries: int,
) -> Round | None:
    """The best of some random layers; None if they tell no more apart than the colours do."""
    known = sorted(set(colours))
    z = torch.zeros(heads.vertices, room.width, dtype=torch.float64)
    z[torch.arange(heads.vertices), room.position_at + torch.tensor(colours)] = 1.0
    rounds = []
    jumps = isinstance(heads.design.probability, Hardmax | TopK)
    for _ in range(tries):
        layer = _random_layer(heads, room, known, rng)
        lead = Lead(heads.design.probability)
        seen = heads.run(pattern, layer, gain, z, lead if jumps else None)[:, room.number_at]
        if not lead.safe:
            continue
        # far apart, so that old colours stay apart
        span = power_of_two_at_least(2 * float(seen.max() - seen.min()) + 1)
        form = {room.number_at: 1.0}
        form |= {room.position_at + name: span * rank for rank, name in enumerate(known)}
        rank = torch.tensor([known.index(name) for name in colours])
        rounds.append(Round(layer, form, Classes.of(seen + span * rank)))
    best = max(rounds, key=lambda found: found.classes.quality, default=None)
    return best if best is not None and len(best.classes.order) > len(known) else None


def _random_layer(
    heads: Heads, room: Room, known: list[int], rng: torch.Generator
) -> AttentionLayers:
    """Heads with random scores and values for the colours, and random tables."""
    design, layer = heads.design, heads.blank(room.width)
    base = base_of(design.position)
    jumps = isinstance(design.probability, Hardmax | TopK)
    whole = jumps and not isinstance(base, Rotary)  # turned scores never tie anyway

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    def draw_scores(*shape: int, ties: bool = whole) -> torch.Tensor:
        if ties:
            return torch.randint(-2, 3, shape, generator=rng).double()
        return draw(*shape)

    slopes = base.slopes(heads.count) if isinstance(base, ALiBi) else None
    features = [room.position_at + name for name in known]
    for head in range(heads.tellers):
        rows = heads.rows(head)
        layer.q_bias[0, rows.start] = 1.0
        if isinstance(base, Rotary):
            layer.q_bias[0, rows] = draw(heads.size)
        # close scores share the weight even in sparse maps, distant ones do not
        scale = 1.0 if whole else 2.0 ** -float(8 * torch.rand((), generator=rng))
        ties = whole
        if slopes is not None:  # contents that can make up for any distance
            far = int(torch.randint(1, heads.vertices + 1, (), generator=rng))
            scale = slopes[head] * far
            ties = whole and slopes[head] == power_of_two_at_least(slopes[head])  # exact ones
        for feature in features:
            layer.k_weight[0, rows, feature] = scale * draw_scores(heads.size, ties=ties)
            layer.v_weight[0, rows, feature] = draw(heads.size)
        layer.o_weight[0, room.number_at, rows] = draw(heads.size)
        if layer.sink is not None:
            layer.sink[0, head] = scale * float(draw(1))
            if ties:  # with a key at some distance
                unit, most = (1.0, 2) if slopes is None else (slopes[head], heads.vertices)
                layer.sink[0, head] = unit * int(torch.randint(-most, most + 1, (), generator=rng))
    for name, table in layer.inside.items():
        scores = name.endswith(("base.table", "keys")) or name == "table"
        table.copy_(draw_scores(*table.shape) if scores else draw(*table.shape))
    return layer
