"""URPE: a learned gain after the probability map."""

from __future__ import annotations

from dataclasses import dataclass, field

from anyseq.errors import InvalidArgument
from anyseq.positions.position import Place, Position
from anyseq.positions.relative import RelativeBias


@dataclass(frozen=True)
class URPE(Position):
    """ρ(scores of `base`) ∘ C, with C_ij = c_{i-j} learned per head, of any sign, not renormalised.

    Rows of weights need not sum to 1, so identical tokens can become different. C starts at 1:
    training starts exactly at `base`.

    shared: one C for all layers, as published, or one per layer. What `base` learns is per layer,
        unless a Transformer shares it.
    """

    base: Position = field(default_factory=RelativeBias)
    shared: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.base, Position) or isinstance(self.base, URPE):
            raise InvalidArgument(f"base={self.base!r}: expected a Position other than URPE")
        if not isinstance(self.shared, bool):
            raise InvalidArgument(f"shared={self.shared!r}: expected True or False")

    @property
    def acts_in(self) -> frozenset[Place]:
        return self.base.acts_in | {Place.GAIN}

    @property
    def natural_length(self) -> int | None:
        return self.base.natural_length


def base_of(position: Position) -> Position:
    """What acts before the probability map: the encoding under URPE, or the position itself."""
    return position.base if isinstance(position, URPE) else position
