"""How tokens get their positions, and where features lie, when they gather in as few layers as
possible.

`forms` gives a place as a form in the features: p_v(z) is 1 at vertex v and 0 at all others. With
one-hot vectors of positions the forms are single features. Waves are vectors E_v, linearly
independent in enough features that nothing else is written to, so that forms with p_v(E_w) = [v=w]
are found there by least squares, right up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from anyseq.base import UNIT_ROUNDOFF
from anyseq.construct.gathering.heads import Heads, base_of
from anyseq.construct.gathering.schedule import schedule
from anyseq.design import Design
from anyseq.errors import CannotApproximate
from anyseq.positions import Absolute, Sinusoidal

WORST = 2.0**-20
"""Places that are further off are not told apart by more than rounding."""


@dataclass(frozen=True)
class Space:
    """Features: input/output | places | slots | stages, for each hop (or one for all) and pattern |
    spare ones: a number for each round in which places are found out."""

    tokens: int
    features: int
    places_at: int
    places: int
    hops: int
    period: int
    spare: int

    @property
    def slots_at(self) -> int:
        return self.places_at + self.places

    @property
    def numbers_at(self) -> int:
        return self.slots_at + self.tokens * self.features * (1 + self.hops * self.period)

    @property
    def width(self) -> int:
        return self.numbers_at + self.spare

    def slot(self, token: int, feature: int) -> int:
        return self.slots_at + token * self.features + feature

    def stage(self, hop: int, part: int, token: int, feature: int) -> int:
        """Where a slot arrives."""
        block = 1 + hop % self.hops * self.period + part
        return self.slot(token, feature) + block * self.tokens * self.features

    def stages(self, hop: int) -> range:
        first = self.stage(hop, 0, 0, 0)
        return range(first, first + self.period * self.tokens * self.features)

    def start(self, hop: int, token: int, feature: int) -> int:
        """Where a slot sets out from: in the first hop, from x itself."""
        return self.slot(token, feature) if hop else feature


@dataclass(frozen=True)
class Known:
    """forms: (vertices, width). waves: (vertices, width), what is there before anything is written,
    places aside. off: how far forms times waves, and what is read off waves, may be off. told:
    whether tokens have their positions from the start. vectors: what `Stack.of` is given."""

    heads: Heads
    space: Space
    forms: torch.Tensor
    waves: torch.Tensor
    off: float
    told: bool
    vectors: Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Reader:
    """How one token reads, after the last attention half: entry (j, f) of the sequence is
    weight·z[feature] + shift; None if it is not wanted. others: the form, (width,), that is 0 here
    and 1 at all others. before: (width,), what x, slots and stages held before."""

    slots: tuple[tuple[int, float, float] | None, ...]
    others: torch.Tensor
    before: torch.Tensor


def places(design: Design, features: int, first_free: int, wanted: str) -> Known:
    """Positions given from the start, or as they will be once they have been found."""
    base = base_of(design.position)
    told = isinstance(base, Absolute | Sinusoidal)
    tellers = 0 if told else max(8, 6 * design.size)  # a round is to tell all that it can
    heads = Heads.of(design, features, tellers)
    vertices = heads.vertices
    if isinstance(base, Sinusoidal):
        return _waves(base, heads, features, first_free, wanted)
    space = Space(
        tokens=design.tokens,
        features=features,
        places_at=first_free,
        places=vertices,
        hops=1,
        period=heads.period,
        spare=0 if told else vertices,
    )
    forms = torch.eye(vertices, space.width, dtype=torch.float64).roll(first_free, 1)
    vectors: dict[str, torch.Tensor] = {}
    if told:
        vectors["position"] = forms.clone()
        if design.bos:
            vectors["bos"] = torch.zeros(space.width, dtype=torch.float64)
    return Known(heads, space, forms, torch.zeros_like(forms), 0.0, told, vectors)


def _waves(base: Sinusoidal, heads: Heads, features: int, first_free: int, wanted: str) -> Known:
    design, vertices = heads.design, heads.vertices
    space = Space(
        tokens=design.tokens,
        features=features,
        places_at=first_free + first_free % 2,
        places=2 * vertices,
        hops=len(schedule(design, wanted, 0)),
        period=heads.period,
        spare=0,
    )
    waves = base.table(torch.arange(vertices, dtype=torch.float64), space.width)
    part = slice(space.places_at, space.slots_at)
    forms = torch.zeros_like(waves)
    forms[:, part] = torch.linalg.pinv(waves[:, part]).T
    one = torch.eye(vertices, dtype=torch.float64)
    apart = float((waves[:, part] @ forms[:, part].T - one).abs().max())
    # what float64 makes of a form, in any order of summation, besides
    rounds = (space.width + 4) * UNIT_ROUNDOFF * float(forms.abs().sum(1).max())
    off = (space.hops + 1) * (4 * vertices * (apart + rounds) + 16 * UNIT_ROUNDOFF)
    if off > WORST:
        raise CannotApproximate(
            f"the waves of {base} do not tell {vertices} positions apart by more than rounding"
        )
    bos = {"bos": torch.zeros(space.width, dtype=torch.float64)} if design.bos else {}
    return Known(heads, space, forms, waves, off, True, bos)
