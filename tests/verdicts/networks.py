"""Random networks of a design, several side by side, and their training on a witness."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import layer_norm, rms_norm

import anyseq as aq
from anyseq.base import generator

SHAPES = ((1, 64, 2), (3, 16, 4), (6, 8, 6), (12, 4, 8))
"""(depth, width, how many): 20 networks, shallow and wide to deep and narrow."""


_MATRICES = ("_proj.weight", "head.weight")


def random_network(
    design: aq.Design, seed: int, *, depth: int, dim: int, heads: int, beside: int = 1
) -> aq.nn.Transformer:
    """Blocks with the norms of the design and normal weights, biases, tables and all, in float64;
    a design for ids gets one for the vectors that stand for them.

    beside: so many networks in one, each with its own dim features and heads; a norm would join
    them.
    """
    assert beside == 1 or design.block_norm is None
    design = replace(design, domain="cube")
    model = aq.nn.Transformer(
        design,
        beside * dim,
        design.depth or depth,
        beside * heads,
        norm="none" if design.block_norm is None else None,
        norms=("layernorm", "rmsnorm")[seed % 2],
        hidden=2 * beside * dim,
        dtype=torch.float64,
    )
    rng = generator(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.normal_(generator=rng)
            value.mul_((2 * dim) ** -0.5 if value.ndim > 1 else 0.5)
            if "gain" in name:
                value.add_(1.0)
            if name.endswith("norm.weight"):
                value.add_(1.0)
            if name.endswith(_MATRICES):
                value.mul_(_apart(value, beside))
    return model.eval()


def _apart(weight: torch.Tensor, beside: int) -> torch.Tensor:
    """1 where a weight stays inside its network, 0 where it would join two."""
    out, into = weight.shape
    return (
        torch.eye(beside).repeat_interleave(out // beside, 0).repeat_interleave(into // beside, 1)
    )


@dataclass(frozen=True)
class Crowd:
    """Networks of one depth and width, side by side in a wide one, so that a step trains them all:
    features of one never meet those of another, but for the final norm, which each has for itself.

    last: that norm, if the model has it not.
    """

    design: aq.Design
    model: aq.nn.Transformer
    width: int
    beside: int
    last: str | None

    @classmethod
    def of(cls, design: aq.Design, seed: int, depth: int, width: int, beside: int) -> Crowd:
        last = None if beside == 1 else design.final_norm
        plain = design if last is None else replace(design, final_norm=None)
        model = random_network(plain, seed, depth=depth, dim=width, heads=2, beside=beside)
        return cls(design, model, width, beside, last)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """(B, n, beside width) -> (B, n, beside, width)."""
        out: torch.Tensor = self.model(x).unflatten(-1, (self.beside, self.width))
        if self.last == "layernorm":
            return layer_norm(out, (self.width,))
        return rms_norm(out, (self.width,)) if self.last == "rmsnorm" else out

    def errors(self, witness: aq.Witness) -> list[float]:
        """The error of each network, as `replay` measures it; if one output alone is read, no other
        is wrong (but for a last norm, whose bound speaks of all)."""
        with torch.no_grad():
            found: torch.Tensor = self(witness.inputs(self.model.dim).contiguous())
        read, values = self.design.readout, witness.values[..., None, None]
        if read != "all" and witness.name not in ("W10", "W11"):
            place = torch.arange(self.design.tokens) == (
                self.design.tokens - 1 if read == "last" else int(read)
            )
            found = found.where(place[:, None, None], values)
        return [witness.error(out) for out in found.unbind(2)]

    def train(self, witness: aq.Witness, steps: int) -> torch.Tensor:
        """Adam on the witness's own target; (2, beside) the losses before and after."""
        x = witness.inputs(self.model.dim).contiguous()
        wanted = witness.values[..., None, None]
        masks = {
            name: _apart(weight, self.beside)
            for name, weight in self.model.named_parameters()
            if name.endswith(_MATRICES)
        }
        adam = torch.optim.Adam(self.model.parameters(), lr=0.02, foreach=True)
        losses = []
        for step in range(steps + 1):
            loss = (self(x) - wanted).square().mean((0, 1, 3))
            losses.append(loss.detach())
            if step == steps:
                break
            adam.zero_grad()
            loss.sum().backward()
            for name, mask in masks.items():
                gradient = self.model.get_parameter(name).grad
                if gradient is not None:
                    gradient.mul_(mask)
            adam.step()
        return torch.stack([losses[0], losses[-1]])


def crowds(design: aq.Design) -> Iterator[Crowd]:
    """20 random networks, of depths 1 to 12, or the design's own, and widths 4 to 64."""
    # norms look at all features of a token: such networks are alone, and so are those of which a
    # head or a learned scale comes with the last norm
    learned = (design.final_norm or "").startswith("learned")
    alone = design.block_norm is not None or learned or (design.head and design.final_norm)
    for seed, (depth, width, many) in enumerate(SHAPES):
        if not alone:
            yield Crowd.of(design, seed, depth, width, many)
        for one in range(many if alone else 0):
            yield Crowd.of(design, seed + len(SHAPES) * one, depth, width, 1)
