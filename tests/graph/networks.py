"""Random networks on identical tokens, straight from the formula of a layer.

Attn(X) = X + Σ_heads [ρ(scores + B, -inf where masked) ∘ C] values. Between attention layers the
feed-forward half may be any function of a token's features, so features are replaced by the number
of their cluster, and the heads' scores and values are random tables over these numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from anyseq.design import (
    Average,
    Bilinear,
    Convolution,
    Design,
    Layer,
    LinearAttention,
    Recurrence,
)
from anyseq.positions import (
    URPE,
    Absolute,
    ALiBi,
    GridBias,
    Position,
    RelativeBias,
    Rotary,
    Shaw,
    Sinusoidal,
    T5Bias,
)
from anyseq.probability import Hardmax, TopK

HEADS = 96
SAME, DIFFERENT = 1e-10, 1e-7


def clusters(design: Design, seed: int) -> tuple[np.ndarray, int]:
    """The classes of positions that random heads tell apart, and the last layer that helped."""
    rng = torch.Generator().manual_seed(seed)
    size, period = design.tokens + design.bos, len(design.cycle)
    colours = torch.ones(size, dtype=torch.int64)
    colours[: int(design.bos)] = 0
    if isinstance(design.input_position, Absolute | Sinusoidal):
        colours = torch.arange(size)
    turn = last = 0
    while turn < last + period:
        layer = design.layer_cycle[turn % period]
        look = _heads if layer.attends else _mixed
        masks = [head.mask(size) for head in layer.sees.heads()]
        seen = torch.cat([look(layer, mask, colours, rng) for mask in masks], dim=1)
        turn += 1
        finer = _cluster(torch.cat([1e3 * colours[:, None].double(), seen], dim=1))
        if len(finer.unique()) > len(colours.unique()):
            last = turn
        colours = finer
    return colours[int(design.bos) :].numpy(), last


def _mixed(
    layer: Layer, mask: torch.Tensor, colours: torch.Tensor, rng: torch.Generator
) -> torch.Tensor:
    """(size, heads · features): what random layers that are no attention give each position."""
    size, many = len(colours), int(colours.max()) + 1

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    offset = torch.arange(size)[:, None] - torch.arange(size)[None, :]
    match layer.mixer:
        case Convolution():
            weights = draw(HEADS, 2 * size - 1)[:, offset + size - 1]
        case Recurrence():  # a state that decays, as many rates as there are heads
            rate = torch.rand(HEADS, 1, 1, generator=rng, dtype=torch.float64)
            weights = rate ** offset.clamp(min=0)
        case LinearAttention() | Average():
            weights = draw(HEADS, many, many).abs()[:, colours][:, :, colours] + 0.1
        case Bilinear():
            weights = draw(HEADS, size, size)
    if layer.mixer == Average():
        weights = torch.ones_like(weights)
    weights = weights * mask
    if layer.mixer in (Average(), LinearAttention()):
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    values = draw(HEADS, many, 3)[:, colours]
    return torch.einsum("hij,hjf->ihf", weights, values).flatten(1)


def _heads(
    layer: Layer, mask: torch.Tensor, colours: torch.Tensor, rng: torch.Generator
) -> torch.Tensor:
    """(size, heads · features): what the heads of one pattern give each position."""
    size, many = len(colours), int(colours.max()) + 1
    whole = isinstance(layer.probability, Hardmax | TopK)  # ties need whole numbers

    def draw(*shape: int) -> torch.Tensor:
        if whole:
            return torch.randint(-2, 3, shape, generator=rng).double()
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    offset = torch.arange(size)[:, None] - torch.arange(size)[None, :]
    base = layer.position.base if isinstance(layer.position, URPE) else layer.position
    sloped = isinstance(base, ALiBi)
    # between the flattest slope and the steepest; contents can make up for any distance
    slope = 8 * torch.rand(HEADS, 1, 1, generator=rng, dtype=torch.float64)
    slope = 2.0 ** -(slope.round() if whole else slope)  # sums of powers of two tie exactly
    reach = slope * torch.randint(1, 4, slope.shape, generator=rng) if sloped else 1.0
    scores = reach * draw(HEADS, many, many)[:, colours][:, :, colours]
    # some heads look at positions only
    scores[: HEADS // 3] = 0.0
    scores = scores + _bias(base, offset, colours, draw, whole, slope)
    if layer.sinks:
        scores = torch.cat([scores, (reach * draw(HEADS, 1, 1)).expand(HEADS, size, 1)], dim=2)
    if not sloped:
        scores[: HEADS // 6] = 0.0  # and some see all scores tie
    open_ = torch.cat([mask, torch.ones(size, 1).bool()], 1) if layer.sinks else mask
    weights = layer.probability(scores.masked_fill(~open_, -torch.inf))[:, :, :size]
    values = torch.randn(HEADS, many, 3, generator=rng, dtype=torch.float64)[:, colours]
    values = values[:, None].expand(HEADS, size, size, 3)
    if isinstance(base, Shaw):
        label = base.label(offset)
        tables = torch.randn(HEADS, int(label.max()) + 1, 3, generator=rng, dtype=torch.float64)
        values = values + tables[:, label]
    if isinstance(layer.position, URPE):
        gain = torch.randn(HEADS, 2 * size - 1, generator=rng, dtype=torch.float64)
        weights = weights * gain[:, offset + size - 1]
    mixed = torch.einsum("hij,hijf->ihf", weights, values)
    return mixed.flatten(1)


def _bias(
    base: Position,
    offset: torch.Tensor,
    colours: torch.Tensor,
    draw: Callable[..., torch.Tensor],
    whole: bool,
    slope: torch.Tensor,
) -> torch.Tensor:
    size = len(offset)
    match base:
        case ALiBi():
            return -slope * base.label(offset)
        case T5Bias() | RelativeBias() | Shaw():
            label = base.label(offset)
            return draw(HEADS, int((label - label.min()).max()) + 1)[:, label - label.min()]
        case GridBias(shape):
            cells = torch.tensor(list(np.ndindex(shape)))
            apart = cells[:, None] - cells[None, :] + torch.tensor(shape) - 1
            table = draw(HEADS, *(2 * length - 1 for length in shape))
            return table.movedim(0, -1)[apart.unbind(-1)].movedim(-1, 0)
        case Rotary() if whole:  # waves of enough frequencies take any values on these offsets
            return draw(HEADS, 2 * size - 1)[:, offset + size - 1]
        case Rotary():
            q, k = (draw(HEADS, int(colours.max()) + 1, 8)[:, colours] for _ in range(2))
            return torch.einsum("hif,hjf->hij", base.turn(q, 0), base.turn(k, 0))
        case _:
            return torch.zeros(HEADS, size, size, dtype=torch.float64)


def _cluster(features: torch.Tensor) -> torch.Tensor:
    """Numbers of rows that are the same; rows are the same or clearly different."""
    distance = (features[:, None] - features[None, :]).abs().amax(-1)
    unclear = (distance > SAME) & (distance < DIFFERENT)
    assert not unclear.any(), distance[unclear]
    first = (distance < SAME).to(torch.int64).argmax(1)
    numbers: torch.Tensor = torch.unique(first, return_inverse=True)[1]
    return numbers
