"""The heads of a gathering network, and attention layers of zeros for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm

import torch

from anyseq.construct.gadgets.blank import blank_attention, blank_feed_forward
from anyseq.design import Design
from anyseq.nn import AttentionLayers, Layers, Stack, attention_position, inside_attention
from anyseq.patterns import Pattern
from anyseq.positions import URPE, Position, Rotary
from anyseq.probability import ProbMap

GAIN = "own_gain.table"
"""The gains of one layer among what URPE learns, where layers do not share them."""


@dataclass(frozen=True)
class Heads:
    """Heads 0, ..., tellers-1 tell positions apart, the others move slots.

    period: head h of a layer uses the pattern h mod k, where k divides the period; so heads come in
    groups of `period`, and `tellers` is a multiple of it.
    """

    design: Design
    period: int
    tellers: int
    count: int
    size: int

    @classmethod
    def of(cls, design: Design, features: int, tellers: int) -> Heads:
        """tellers: how many heads tell positions apart, for each pattern of a layer; 0 if positions
        need not be found."""
        period = lcm(*(len(pattern.heads()) for pattern in design.cycle))
        tellers *= period
        size = max(2, features)
        if isinstance(base_of(design.position), Rotary):
            size += size % 2
        return cls(design, period, tellers, tellers + design.tokens * period, size)

    @property
    def vertices(self) -> int:
        """Positions in attention: the tokens, and BOS before them."""
        return self.design.tokens + self.design.bos

    def mover(self, slot: int, part: int) -> int:
        """The head that moves a slot by pattern `part` of a layer."""
        return self.tellers + slot * self.period + part

    def rows(self, head: int) -> slice:
        """The rows of a head in the weights."""
        return slice(head * self.size, (head + 1) * self.size)

    @cached_property
    def tables(self) -> dict[str, tuple[int, ...]]:
        """What the position learns inside one layer: names and shapes."""
        module = attention_position(
            inside_attention(self.design.position)[0],
            heads=self.count,
            head_dim=self.size,
            tokens=self.vertices,
            device="meta",
        )
        return {name: tuple(table.shape) for name, table in module.named_parameters()}

    def blank(self, width: int) -> AttentionLayers:
        """One layer that adds nothing: no biases, gains of 1, sinks at score 0."""
        plain = blank_attention(1, self.count, self.size, width)
        inside = {
            name: (torch.ones if name == GAIN else torch.zeros)(1, *shape, dtype=torch.float64)
            for name, shape in self.tables.items()
        }
        sink = torch.zeros(1, self.count, dtype=torch.float64) if self.design.sinks else None
        return AttentionLayers(
            heads=self.count,
            q_weight=plain.q_weight,
            q_bias=plain.q_bias,
            k_weight=plain.k_weight,
            v_weight=plain.v_weight,
            o_weight=plain.o_weight,
            inside=inside,
            sink=sink,
        )

    def shared_gain(self, rng: torch.Generator) -> torch.Tensor | None:
        """The table of gains that all layers share, if the design has one: random for the heads
        that tell positions apart, 1 for those that move slots."""
        if not inside_attention(self.design.position)[1]:
            return None
        table = torch.ones(self.count, 2 * self.vertices - 1, dtype=torch.float64)
        size = table[: self.tellers].shape
        table[: self.tellers] = torch.randn(size, generator=rng, dtype=torch.float64)
        return table

    def run(
        self,
        pattern: Pattern,
        layer: AttentionLayers,
        gain: torch.Tensor | None,
        z: torch.Tensor,
        prob_map: ProbMap | None = None,
    ) -> torch.Tensor:
        """z (..., vertices, width) after one layer that uses this pattern, BOS among the
        vertices. prob_map: instead of the design's."""
        width = z.shape[-1]
        design = replace(
            self.design,
            tokens=self.vertices,
            patterns=(pattern,),
            prob_map=prob_map or self.design.prob_map,
            bos=False,
            depth=None,
        )
        run = Layers(attention=layer, feedforward=blank_feed_forward(1, 1, width))
        model = Stack.of(design, [run], in_features=width, out_features=width, gain=gain)
        with torch.no_grad():
            out: torch.Tensor = model(z.reshape(-1, self.vertices, width))
        return out.view_as(z)


def base_of(position: Position) -> Position:
    """The encoding under URPE, or itself."""
    return position.base if isinstance(position, URPE) else position
