"""Which places of which sequences random heads tell apart: numbers, and no rules at all.

Heads read the colours of `anyseq` tokens, as a feed-forward half can give them: scores α_c + β_r,
values e_c C_g, through the probability map itself. What differs clearly is told apart; what does
not may be told apart by other heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

import anyseq as aq
from anyseq.base import generator
from verdicts import naive
from verdicts.classes import Colours, Tokens

_HEADS = 192
_SAME = 1e-9


def coloured(design: aq.Design, sequences: Sequence[Tokens]) -> Colours:
    """Different numbers = some network of the design tells the pairs (sequence, place) apart."""
    bos, size, depth = int(design.bos), design.size, design.depth
    start = torch.tensor(naive.start(design))
    tokens = torch.tensor([(0,) * bos + tuple(1 + t for t in x) for x in sequences])
    colours = _numbered(torch.stack([tokens, start.expand_as(tokens)], dim=-1).double())
    rng, cycle = generator(0), design.layer_cycle
    still = turn = 0
    while turn != depth and still < len(cycle):
        layer, before = cycle[turn % len(cycle)], int(colours.max())
        seen = [colours[..., None].double()]
        for head in layer.sees.heads():
            look = _attended if layer.attends else _mixed
            seen.append(look(layer, head.mask(size), colours, rng))
        colours = _numbered(torch.cat(seen, dim=-1))
        still = still + 1 if int(colours.max()) == before else 0
        turn += 1
    return {
        (x, i): int(colours[row, i + bos])
        for row, x in enumerate(sequences)
        for i in range(design.tokens)
    }


def _attended(
    layer: aq.Layer, mask: torch.Tensor, colours: torch.Tensor, rng: torch.Generator
) -> torch.Tensor:
    """(B, size, heads)."""
    size = len(mask)
    pairs = [[naive.label(layer, i, j) for j in range(size)] for i in range(size)]
    bias, gain = (torch.tensor([[pair[side] for pair in row] for row in pairs]) for side in (0, 1))
    base = layer.position.base if isinstance(layer.position, aq.URPE) else layer.position
    draw = torch.randint(-2, 3, (_HEADS, int(colours.max()) + 2), generator=rng).double()
    other = torch.randn(draw.shape, generator=rng, dtype=torch.float64)
    half = _HEADS // 2
    # whole numbers tie, others do not; near and far, for maps that leave keys without weight
    spread = 4.0 ** torch.randint(-3, 2, (_HEADS, 1), generator=rng)
    level = torch.cat([draw[:half], (other * spread)[half:]])
    if isinstance(base, aq.ALiBi):
        slope = 2.0 ** -torch.randint(0, 9, (_HEADS, 1, 1), generator=rng).double()
        level = level * slope[:, 0] * torch.randint(1, 3, (_HEADS, 1), generator=rng)
        by_label = -slope * bias
    else:
        names, which = bias.unique(return_inverse=True)
        whole = torch.randint(-2, 3, (_HEADS, len(names)), generator=rng).double()
        broken = torch.randn(whole.shape, generator=rng, dtype=torch.float64) * spread
        by_label = torch.cat([whole[:half], broken[half:]])[:, which]
    scores = level[:, colours][:, :, None, :] + by_label[:, None]
    scores = scores.masked_fill(~mask, -torch.inf)
    if layer.sinks:
        sink = level[:, -1, None, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, sink], dim=-1)
    weights = layer.probability(scores)[..., :size].nan_to_num(0.0)
    weights = weights.masked_fill(~mask, 0.0)
    if int(gain.max()) > int(gain.min()):
        named = gain.unique(return_inverse=True)[1]
        factor = torch.randn(_HEADS, int(named.max()) + 1, generator=rng, dtype=torch.float64)
        weights = weights * factor[:, named][:, None]
    value = torch.randn(level.shape, generator=rng, dtype=torch.float64)
    return torch.einsum("hbij,hbj->bih", weights, value[:, colours])


def _mixed(
    layer: aq.Layer, mask: torch.Tensor, colours: torch.Tensor, rng: torch.Generator
) -> torch.Tensor:
    """(B, size, sums)."""
    size = len(mask)
    offset = torch.arange(size)[:, None] - torch.arange(size)
    value = torch.randn(_HEADS, int(colours.max()) + 1, generator=rng, dtype=torch.float64)
    match layer.mixer:
        case aq.Recurrence():
            decay = torch.linspace(0.1, 0.9, _HEADS, dtype=torch.float64)[:, None, None]
            weights = decay ** offset.clamp(min=0)
        case aq.Convolution():
            weights = torch.randn(_HEADS, 2 * size, generator=rng, dtype=torch.float64)
            weights = weights[:, offset + size]
        case aq.Bilinear():
            weights = torch.randn(_HEADS, size, size, generator=rng, dtype=torch.float64)
        case aq.LinearAttention(normalised=False):
            weights = torch.ones(_HEADS, size, size, dtype=torch.float64)
        case _:
            weights = (1 / mask.sum(1, keepdim=True).clamp(min=1).double()).expand(_HEADS, -1, size)
    return torch.einsum("hij,hbj->bih", weights * mask, value[:, colours])


def _numbered(seen: torch.Tensor) -> torch.Tensor:
    """(B, size, features) -> (B, size) whole numbers, equal where all features are, nearly."""
    rows = seen.flatten(0, 1)
    scaled = rows / rows.abs().amax(0).clamp(min=1.0)
    mixing = torch.randn(rows.shape[1], generator=generator(1), dtype=torch.float64)
    line, order = (scaled @ mixing).sort()
    steps = torch.cat([torch.zeros(1), (line.diff() > _SAME).double()]).cumsum(0).long()
    return torch.empty_like(steps).index_put((order,), steps).view(seen.shape[:2])
