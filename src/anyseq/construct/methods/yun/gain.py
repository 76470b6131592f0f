"""Method "yun" with URPE: the positions of Theorem 3 come from the gain.

The gain of one head makes E_i of a constant channel (`gadgets.gains`), from there on everything is
as with absolute positions. Where all layers share one table of gains, as published, that head is
one of its own, a third: the two heads of the shifts need gains of 1. Otherwise the first head of
the first layer has it, and blocks have 2 heads. Whatever the base learns is set to 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import pad

from anyseq.construct.contextual.mapping import ShiftLayers
from anyseq.construct.gadgets import gains_for, idle, positions_from_gain, settle, settle_layers
from anyseq.design import Design
from anyseq.errors import CannotApproximate
from anyseq.nn import AttentionLayers, Layers, attention_position
from anyseq.positions import URPE, Absolute, NoPosition, RelativeBias, Shaw, T5Bias

_GAIN = "own_gain.table"  # in the module of a position with a gain of its own
_MUTE = (NoPosition, RelativeBias, T5Bias, Shaw)  # positions that do nothing where tables are 0


@dataclass(frozen=True, eq=False)
class GainPositions:
    """The layer that makes positions: layer `turn`, with these gains for the offsets 1-n, ...,
    n-1."""

    design: Design
    turn: int
    gains: torch.Tensor

    @classmethod
    def giving(cls, design: Design, masks: torch.Tensor, offsets: Sequence[int]) -> GainPositions:
        """The first pattern of the cycle in which the gain can give every token its offset."""
        for turn, mask in enumerate(masks):
            gains = gains_for(mask, offsets)
            if gains is not None:
                table = torch.tensor([float(gain) for gain in gains], dtype=torch.float64)
                return cls(design, turn, table)
        raise CannotApproximate(
            "its positions come from the gain of one layer, which in these patterns cannot give "
            "every token its number: tokens that attend to the same offsets are alike"
        )

    @property
    def size(self) -> ShiftLayers:
        """The layers before the quantiser."""
        settled = settle_layers(self.design.tokens)
        return ShiftLayers(self.turn + 1 + settled, 1, self.turn + settled)

    def layers(self, *, features: int, width: int, at: int) -> list[Layers]:
        """Every token's offset, from the constant channel `at` into the features before it."""
        shared, heads = shares_gain(self.design), heads_of(self.design)
        head = heads - 1 if shared else 0
        attention = positions_from_gain(heads=heads, head=head, width=width, at=at)
        (first,) = muted([Layers(attention=attention)], self.design)
        if not shared:
            assert first.attention is not None
            first.attention.inside[_GAIN][0, head] = self.gains
        return [
            *idle(self.turn, width),
            first,
            *settle(tokens=self.design.tokens, features=features, width=width, at=at),
        ]

    @property
    def table(self) -> torch.Tensor:
        """The gains that all layers share."""
        table = shared_ones(self.design)
        table[-1] = self.gains
        return table


def uses_gain(design: Design) -> bool:
    """Whether positions must come from a gain; a base of absolute positions has its own."""
    position = design.position
    return isinstance(position, URPE) and not isinstance(position.base, Absolute)


def shares_gain(design: Design) -> bool:
    """Whether all layers share one table of gains."""
    return isinstance(design.position, URPE) and design.position.shared


def heads_of(design: Design) -> int:
    """2, and one more for positions if the gains of the others must stay 1."""
    return 3 if uses_gain(design) and shares_gain(design) else 2


def shared_ones(design: Design) -> torch.Tensor:
    """(heads, 2n-1): gains that change nothing."""
    return torch.ones(heads_of(design), 2 * design.tokens - 1, dtype=torch.float64)


def check_base(position: URPE) -> None:
    """The base must be one that can be switched off, or absolute positions."""
    if not isinstance(position.base, (Absolute, *_MUTE)):
        raise CannotApproximate(
            f"what URPE's base {type(position.base).__name__} does cannot be switched off; it is "
            f"built for {', '.join(kind.__name__ for kind in (Absolute, *_MUTE))}"
        )


def muted(runs: Sequence[Layers], design: Design) -> list[Layers]:
    """The runs in a network of this design: as many heads as it has, the further ones idle, and
    positions inside attention that change nothing: biases 0, gains 1."""
    if not isinstance(design.position, URPE):
        return list(runs)
    return [
        replace(run, attention=_muted(run.attention, design)) if run.attention else run
        for run in runs
    ]


def inside_shapes(design: Design) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """What positions learn inside each attention layer: names and shapes."""
    position = design.position
    if not isinstance(position, URPE):
        return ()
    learned = attention_position(
        position.base if position.shared else position,
        heads=heads_of(design),
        head_dim=1,
        tokens=design.tokens,
    )
    return tuple((name, tuple(table.shape)) for name, table in learned.named_parameters())


def _muted(attention: AttentionLayers, design: Design) -> AttentionLayers:
    heads, layers = heads_of(design), len(attention.q_bias)
    extra = heads - attention.heads
    return AttentionLayers(
        heads=heads,
        q_weight=pad(attention.q_weight, (0, 0, 0, extra)),
        q_bias=pad(attention.q_bias, (0, extra)),
        k_weight=pad(attention.k_weight, (0, 0, 0, extra)),
        v_weight=pad(attention.v_weight, (0, 0, 0, extra)),
        o_weight=pad(attention.o_weight, (0, extra)),
        inside={
            name: torch.full((layers, *shape), float(name == _GAIN), dtype=torch.float64)
            for name, shape in inside_shapes(design)
        },
    )
