"""Encoders that fill in hidden tokens, as BERT does: paper A's ways to mix tokens, paper B's
patterns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import torch
from torch import nn

from anyseq.design import ATTENTION, Average, Bilinear, Convolution, Design, Layer, Mixer
from anyseq.experiments.experiment import Batch, Cell
from anyseq.experiments.peer import TorchPeer
from anyseq.experiments.sparse import DENSE, patterns
from anyseq.experiments.subwords import MASK, OWN, PAD
from anyseq.experiments.tokens import IGNORED, TokenModel
from anyseq.nn import BilinearProjection, SeparableConv
from anyseq.positions import NoPosition, RelativeBias

MIXERS: Mapping[str, str | Mixer] = {
    "attention": ATTENTION,
    "bproj": Bilinear(),
    "sepconv": Convolution(7),
    "average": Average(),
}
"""Paper A's names, and anyseq's."""

# BERT's
_CHOSEN, _HIDDEN, _RANDOM = 0.15, 0.8, 0.1
_START = 0.02  # the standard deviation of weights at the start


@dataclass(frozen=True)
class EncoderCell(Cell):
    """mixer: a key of `MIXERS`, or "hybrid-k": the first k layers are separable convolutions, the
    others attention. pattern, sparsity: of attention, as in `sparse.patterns`. relative: whether
    attention learns a bias for each offset, besides the absolute positions at the input. hidden: of
    the feed-forward halves; 0 means 4 dim."""

    mixer: str = "attention"
    pattern: str = DENSE
    sparsity: float = 0.0
    tokens: int = 64
    dim: int = 64
    depth: int = 4
    heads: int = 4
    vocab: int = 1024
    dropout: float = 0.0
    relative: bool = False
    hidden: int = 0


E = TypeVar("E", bound=EncoderCell)


def mixers(cell: EncoderCell) -> list[str]:
    """The mixer of each layer, a key of `MIXERS`."""
    if cell.mixer in MIXERS:
        return [cell.mixer] * cell.depth
    replaced = int(cell.mixer.removeprefix("hybrid-"))
    return ["sepconv"] * replaced + ["attention"] * (cell.depth - replaced)


def encoder(cell: EncoderCell, classes: int | None = None) -> nn.Module:
    """Absolute positions; tokens are named in the vocabulary, unless `classes` is given.

    Convolutions and projections start as BERT's weights do: with larger ones what they mix drowns
    the tokens themselves, and a bilinear projection does not learn.
    """
    model = TokenModel(**_shape(cell), classes=classes, hidden=cell.hidden or None)
    for block in model.body.blocks:
        if isinstance(block.mixer, BilinearProjection | SeparableConv):
            nn.init.normal_(block.mixer.token_weight, std=_START)
    return model


def torch_encoder(cell: EncoderCell, classes: int | None = None) -> nn.Module | None:
    """The same model from torch's own parts, if all layers are plain attention."""
    plain = cell.mixer == "attention" and not cell.relative and not cell.hidden
    return TorchPeer(**_shape(cell), classes=classes) if plain else None


def as_large_as(cell: E, other: E) -> E:
    """The cell with feed-forward halves of the size that brings its number of parameters nearest to
    the other's."""
    first, second = (replace(cell, hidden=4 * cell.dim + more) for more in (0, 1))
    start, wanted = _parameters(first), _parameters(other)
    units = round((wanted - start) / (_parameters(second) - start))
    return replace(cell, hidden=first.hidden + units)


@lru_cache
def _parameters(cell: EncoderCell) -> int:
    """Counted without making them."""
    with torch.device("meta"):
        return sum(each.numel() for each in encoder(cell).parameters())


def _shape(cell: EncoderCell) -> dict[str, Any]:
    return {
        "design": Design(cell.tokens, layers=_layers(cell)),
        "dim": cell.dim,
        "depth": cell.depth,
        "heads": cell.heads,
        "vocab": cell.vocab,
        "dropout": cell.dropout,
    }


def _layers(cell: EncoderCell) -> list[Layer]:
    """Layer i has pattern i of the cell's cycle if it is attention."""
    cycle = patterns(cell.pattern, cell.tokens, cell.sparsity)
    position = RelativeBias() if cell.relative else NoPosition()
    return [
        Layer(cycle[i % len(cycle)], position) if name == "attention" else Layer(mixer=MIXERS[name])
        for i, name in enumerate(mixers(cell))
    ]


def masked(ids: torch.Tensor, vocab: int, rng: torch.Generator) -> Batch:
    """Of 15 % of the tokens, which are the targets, 80 % are hidden, 10 % replaced by random ones,
    and 10 % left as they are. Padding is not chosen."""
    chosen = (torch.rand(ids.shape, generator=rng) < _CHOSEN) & (ids != PAD)
    fate = torch.rand(ids.shape, generator=rng)
    anything = torch.randint(OWN, vocab, ids.shape, generator=rng)
    shown = torch.where(fate < _HIDDEN, MASK, torch.where(fate < _HIDDEN + _RANDOM, anything, ids))
    return {
        "input": torch.where(chosen, shown, ids),
        "target": torch.where(chosen, ids, IGNORED),
    }
