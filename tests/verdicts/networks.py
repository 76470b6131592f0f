"""Networks of a design: random ones, and the one that Theorem 5.1 builds."""

from __future__ import annotations

import torch

import anyseq as aq
from anyseq.base import generator


def random_network(
    design: aq.Design, seed: int, *, depth: int = 4, dim: int = 8, heads: int = 2
) -> aq.nn.Transformer:
    """The papers' blocks with normal weights, biases, tables and all, in float64."""
    model = aq.nn.Transformer(
        design,
        dim,
        design.depth or depth,
        heads,
        norm="none",
        hidden=2 * dim if design.feedforward else None,
        dtype=torch.float64,
    )
    rng = generator(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.normal_(generator=rng)
            value.mul_(0.3 if value.ndim > 1 else 0.5)
            if "gain" in name:
                value.add_(1.0)
    return model.eval()


def train(model: aq.nn.Transformer, witness: aq.Witness, steps: int = 60) -> tuple[float, float]:
    """Adam on the witness's own target; the loss before and after."""
    x = witness.inputs(model.dim).contiguous()
    wanted = witness.values[..., None]
    adam = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(steps):
        adam.zero_grad()
        loss = ((model(x) - wanted) ** 2).mean()
        loss.backward()
        adam.step()
        losses.append(float(loss.detach()))
    return losses[0], losses[-1]


def gathered(design: aq.Design, layers: int, phase: int, x: torch.Tensor) -> torch.Tensor:
    """(n, n) what every token holds of x (n,) after Theorem 5.1's gathering, NaN where nothing:
    uniform attention over the patterns, and factors that depend on the position only."""
    size, bos = design.tokens + design.bos, int(design.bos)
    held = torch.eye(size, dtype=torch.bool)
    slots = torch.zeros(size, size, dtype=torch.float64)
    slots[range(bos, size), range(bos, size)] = x
    zero = torch.zeros(1, 1, size, 1, dtype=torch.float64)
    for layer in range(phase, phase + layers):
        pattern = design.cycle[layer % len(design.cycle)]
        sums, counts = torch.zeros_like(slots), torch.zeros_like(slots)
        for part in pattern.heads():

            def mixed(values: torch.Tensor, part: aq.Pattern = part) -> torch.Tensor:
                return aq.attention(zero, zero, values[None, None], pattern=part)[0, 0]

            sums += mixed(slots)
            counts += mixed(held.double())
        fresh = counts > 1e-12
        slots = torch.where(fresh & ~held, sums / counts.clamp(min=1e-12), slots)
        held |= fresh
    return slots.masked_fill(~held, torch.nan)[bos:, bos:]
