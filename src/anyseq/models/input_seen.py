"""What a model adds to its input to mark positions, found by running it on equal tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.base import generator
from anyseq.models.calls import Call

_CLOSE = 1e-6


@dataclass(frozen=True)
class InputSeen:
    """kind: "none", "learned" (a table has a vector for each position), "fixed" (vectors that no
    weight changes), "shared" (some positions have the same vector).

    room: with "learned", how many tokens the table has vectors for. table: its name.
    """

    kind: str
    room: int | None = None
    table: str = ""


def input_seen(model: torch.nn.Module, first: Call, rows: int, tokens: int) -> InputSeen:
    """first: the call of the first layer, on equal tokens."""
    x = first.x
    assert x is not None
    vectors = (x[0] if x.shape[0] == rows else x[:, 0])[:tokens]
    apart = _apart(vectors.detach())
    different = apart | torch.eye(len(vectors), dtype=torch.bool)
    if not apart.any():
        return InputSeen("none")
    if not different.all():
        return InputSeen("shared")
    return _table(model, vectors) or InputSeen("fixed")


def difference(x: torch.Tensor, rows: int, tokens: int) -> float:
    """How much a sequence of x (rows, tokens, features), or with tokens first, differs between two
    tokens: the median over all pairs, relative to the largest number; 0 if no pair differs by more
    than rounding does."""
    vectors = (x[0] if x.shape[0] == rows else x[:, 0])[:tokens].detach()
    if not _apart(vectors).any():
        return 0.0
    pairs = (vectors[:, None] - vectors).abs().amax(2) / vectors.abs().max()
    return max(float(pairs.median()), 1e-300)


def _apart(vectors: torch.Tensor) -> torch.Tensor:
    """(tokens, tokens) bool: which two vectors differ."""
    return (vectors[:, None] - vectors).abs().amax(2) > _CLOSE * vectors.abs().max()


def _table(model: torch.nn.Module, vectors: torch.Tensor) -> InputSeen | None:
    """The table whose rows the vectors of two positions come from, each from one of its own."""
    weights = torch.randn(vectors.shape[1], generator=generator(0), dtype=torch.float64).to(vectors)
    named = {
        name: one
        for name, one in model.named_parameters()
        if one.requires_grad and one.is_floating_point() and one.squeeze(0).ndim == 2
    }
    rows = []
    places = (len(vectors) - 2, len(vectors) - 1)
    for place in places:
        found = torch.autograd.grad(
            (vectors[place] * weights).sum(),
            list(named.values()),
            retain_graph=True,
            allow_unused=True,
        )
        rows.append({name: one for name, one in zip(named, found, strict=True) if one is not None})
    for name in (name for name in named if all(name in found for found in rows)):
        one, other = (found[name].squeeze(0).abs().amax(1).nonzero().flatten() for found in rows)
        if len(one) == len(other) == 1 and int(other - one) == 1:
            return InputSeen("learned", named[name].shape[-2] - int(one) + places[0], name)
    return None
