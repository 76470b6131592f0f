"""One layer of a design that is no attention, with weights to be set by hand."""

from __future__ import annotations

import torch
from torch.nn.functional import pad

import anyseq as aq
from anyseq.base import generator
from anyseq.nn.of_layer import MixerMaker

SUMS = (aq.Average, aq.Bilinear)
"""These add up all that a token sees, with weights that do not depend on what it is."""

_SHARP = 80.0  # by how much a wanted key leads
_ROUNDING = 1e-9  # of what the decays of a recurrence are solved for


class Mixing:
    """The module of aq.nn that serves the layer, over copies of the features (B, size, features),
    one for each sum that it makes of them: (B, size, sums, features)."""

    def __init__(self, design: aq.Design, layer: int, features: int, sums: int) -> None:
        self.layer = design.layer_cycle[layer % len(design.layer_cycle)]
        self.size, self.features, self.sums = design.size, features, sums
        make = MixerMaker(
            sums * features, sums, features, self.size, False, {}, torch.float64, None
        )
        self.module = make(self.layer, aq.NoPosition())
        for name, weight in self.weights().items():
            weight.requires_grad_(False).zero_()
            if name.startswith(("o_proj", "v_proj")):
                weight.copy_(torch.eye(sums * features))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            out: torch.Tensor = self.module(x.repeat(1, 1, self.sums))
        return out.view(*x.shape[:2], self.sums, self.features)

    def weights(self) -> dict[str, torch.Tensor]:
        assert isinstance(self.module, torch.nn.Module)
        return dict(self.module.named_parameters())

    @property
    def sees(self) -> torch.Tensor:
        """(size, sums, size) bool: what is in each sum."""
        parts = [part.mask(self.size) for part in self.layer.sees.heads()]
        return torch.stack([parts[one % len(parts)] for one in range(self.sums)], dim=1)


class ByOffset:
    """A convolution or a recurrence that delivers every token by itself: (B, size, features) ->
    (B, size, 2 size - 1, features), at i the token i - r for r = 1 - size, ..., size - 1, and 0
    where it does not see that or there is none."""

    def __init__(self, design: aq.Design, layer: int, features: int) -> None:
        self.size = design.size
        mixer = design.layer_cycle[layer % len(design.layer_cycle)].mixer
        if isinstance(mixer, aq.Recurrence):
            # each decay a has sums Σ_r a^r (1 - a) x_(i-r): as many equations as tokens
            mixing = Mixing(design, layer, features, self.size)
            steps = torch.arange(self.size, dtype=torch.float64)
            decay = (1 - torch.cos(torch.pi * (steps + 0.5) / self.size)) / 2
            mixing.weights()["gate_proj.bias"].copy_(decay.logit().repeat_interleave(features))
            self.solve = torch.linalg.inv((1 - decay)[:, None] * decay[:, None] ** steps)
            self.first = 0
        else:
            assert isinstance(mixer, aq.Convolution)
            mixing = Mixing(design, layer, features, mixer.width)
            self.solve = torch.eye(mixer.width, dtype=torch.float64).flip(0)
            tap = mixing.weights()["token_weight"]
            tap.copy_(torch.eye(mixer.width).repeat_interleave(features, 0))
            self.first = 0 if mixer.causal else -(mixer.width // 2)
        self.mixing = mixing

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.einsum("rs,bisf->birf", self.solve, self.mixing(x))
        found = found.where(found.abs() > _ROUNDING, 0.0)
        before = self.size - 1 + self.first
        after = 2 * self.size - 1 - before - found.shape[2]  # a window may be wider than all
        return pad(found, (0, 0, before, after))

    @property
    def sees(self) -> torch.Tensor:
        """(size, 2 size - 1, size) bool: which token stands at each offset."""
        parts = [part.mask(self.size) for part in self.mixing.layer.sees.heads()]
        index, offset = torch.arange(self.size), torch.arange(1 - self.size, self.size)
        there = index[:, None, None] - index == offset[:, None]
        return there & parts[0][:, None, :]


def telling(design: aq.Design, layer: int, code: int) -> Mixing | ByOffset:
    """What tells all that a layer can tell of the code."""
    own = design.layer_cycle[layer % len(design.layer_cycle)]
    if isinstance(own.mixer, aq.Convolution | aq.Recurrence):
        return ByOffset(design, layer, code)
    mixing = Mixing(design, layer, code, len(own.sees.heads()))
    if isinstance(own.mixer, aq.Bilinear):
        mixing.weights()["token_weight"].normal_(generator=generator(layer))
    return mixing


class Singling:
    """Linear attention whose keys are all but 0 at every place but one, for each place and each
    pattern: (B, size, size + code) -> (B, size, sums, size). places: (size, code)."""

    def __init__(self, design: aq.Design, layer: int, places: torch.Tensor) -> None:
        self.size, parts = len(places), len(design.cycle[layer % len(design.cycle)].heads())
        features = self.size + places.shape[1] + 1
        self.mixing = Mixing(design, layer, features, self.size * parts)
        alike = places @ places.T
        lead = (alike.diagonal()[:, None] - alike).masked_fill(
            torch.eye(self.size).bool(), torch.inf
        )
        factor = _SHARP / lead.amin(1, keepdim=True)
        affine = torch.cat([places, -alike.diagonal()[:, None]], dim=1) * factor
        key = self.mixing.weights()["k_proj.weight"].view(self.size, parts, features, -1)
        key[..., self.size : features] = affine[:, None, None]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.mixing(pad(x, (0, 1), value=1.0))[..., : self.size]


class Summing:
    """Averages, or a bilinear map of ones: (B, size, size + code) -> (B, size, 1, size)."""

    def __init__(self, design: aq.Design, layer: int, code: int) -> None:
        assert layer, "no feed-forward half has put contents into slots"
        self.size = design.size
        self.mixing = Mixing(design, layer, self.size + code, 1)
        self.sees = self.mixing.sees
        if isinstance(self.mixing.layer.mixer, aq.Bilinear):
            self.mixing.weights()["token_weight"].fill_(1.0)
            self.weight = torch.ones(self.size, 1, 1, dtype=torch.float64)
        else:
            self.weight = 1 / self.sees.sum(-1, keepdim=True).clamp(min=1).double()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.mixing(x)[..., : self.size]

    def taken(self, held: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(size, 1, size) what to multiply each slot of the sum with, 0 where it is held already or
        nobody has it; and (size, size) what is held then."""
        many = (self.sees.double() @ held.double()) * self.weight
        new = (many > 0) & ~held[:, None, :]
        return torch.where(new, 1 / many, 0.0), held | new.any(1)
