"""Attention of some heads, batch by batch of tiles: forward and backward.

With S = softcap(q k^T·scale + bias), -inf where masked, P = exp(S - lse) and A = P ∘ gain ∘ keep,
where keep is what dropout leaves of the weights:

    out = A v,   dv = A^T dout,   dA = dout v^T,   dgain = dA ∘ P ∘ keep,
    dS = P ∘ (dA ∘ gain ∘ keep - δ) ∘ softcap',   δ = Σ_e dout ∘ out - dlse,
    dbias = dS,   dq = dS k·scale,   dk = dS^T q·scale.

Every batch gives a part of these sums. Forward, parts are merged by their log-sum-exp; backward,
lse and δ of the whole row are known, so that parts simply add up. P is recomputed there: nothing of
size N x M is ever kept. Of T tiles of m rows and w columns scores are (heads, T, m, w).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor
from torch.nn.functional import threshold

from anyseq.ops.tiles.batches import Batch
from anyseq.ops.tiles.terms import Term, entries


@dataclass
class Heads:
    """What some heads work on: q (H, N, D), k (G, M, D), v (G, M, E), G a divisor of H, and what
    acts on their scores. mask: (H or 1, N or 1, M or 1), key_mask: (M,); documents: of queries
    (N,) and keys (M,). dropout_p of the weights are dropped, by `random`."""

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float
    softcap: float
    bias: Term | None
    gain: Term | None
    mask: Tensor | None
    key_mask: Tensor | None
    documents: tuple[Tensor, Tensor] | None
    dropout_p: float
    random: torch.Generator | None

    def product(self, of_queries: Tensor, of_keys: Tensor) -> Tensor:
        """(H, T, m, a) times (G, T, a, b): each head with the keys that it shares."""
        groups = len(of_queries) // len(of_keys)
        if groups > 1:
            of_keys = of_keys.repeat_interleave(groups, 0)
        return of_queries @ of_keys

    def sums(self, weights: Tensor, of_queries: Tensor) -> Tensor:
        """weights^T (H, T, w, m) times (H, T, m, b), summed over the heads that share keys."""
        each = weights.mT @ of_queries
        return each.view(len(self.k), -1, *each.shape[1:]).sum(1)


@dataclass
class Sums:
    """Sums that are added to, shaped as q, k and v."""

    q: Tensor
    k: Tensor
    v: Tensor


def forward(heads: Heads, batches: Sequence[Batch], out: Tensor, lse: Tensor) -> None:
    """Fill out (H, N, E) and lse (H, N); a row with nothing to attend to gets 0 and -inf."""
    out.zero_()
    lse.fill_(-inf)
    for batch in batches:
        tiles, rows = _scored(heads, batch), batch.rows
        top, before = tiles.scores.amax(-1), lse[:, rows]
        weights = _powers(tiles.scores, top[..., None])
        both = torch.logaddexp(before, top + weights.sum(-1).log())
        some = heads.product(tiles.kept(weights), _some(heads.v, batch.columns))
        old, new = (_powers(part, both)[..., None] for part in (before, top))
        out[:, rows] = (_some(out, rows) * old).addcmul_(some, new)
        lse[:, rows] = both


def backward(
    heads: Heads, batches: Sequence[Batch], lse: Tensor, dout: Tensor, delta: Tensor, into: Sums
) -> None:
    """Add the gradients of q, k and v to `into`, those of bias and gain to their terms. lse, delta:
    (H, N); dout, of the output: (H, N, E)."""
    for batch in batches:
        tiles, rows = _scored(heads, batch), batch.rows
        weights = _powers(tiles.scores, lse[:, rows, None])
        q, own_dout = _some(heads.q, rows), _some(dout, rows)
        _add(into.v, batch.columns, heads.sums(tiles.kept(weights), own_dout))
        change = heads.product(own_dout, _some(heads.v, batch.columns).mT)
        if tiles.keep is not None:
            change *= tiles.keep
        if heads.gain is not None and tiles.gain is not None:
            if heads.gain.gradient is not None:
                heads.gain.collect(batch, change * weights)
            change *= tiles.gain
        change -= delta[:, rows, None]
        change *= weights
        if tiles.slope is not None:
            change *= tiles.slope
        if heads.bias is not None and heads.bias.gradient is not None:
            heads.bias.collect(batch, change)
        change *= heads.scale
        _add(into.q, rows, heads.product(change, _some(heads.k, batch.columns)))
        _add(into.k, batch.columns, heads.sums(change, q))


@dataclass
class _Scored:
    """Scores (heads, T, m, w), and what multiplies weights: the gain, and what dropout keeps."""

    scores: Tensor
    slope: Tensor | None  # of the softcap
    gain: Tensor | None
    keep: Tensor | None

    def kept(self, weights: Tensor) -> Tensor:
        for factor in (self.gain, self.keep):
            weights = weights if factor is None else weights * factor
        return weights


def _scored(heads: Heads, batch: Batch) -> _Scored:
    rows, columns = batch.rows, batch.columns
    scores = heads.product(_some(heads.q, rows) * heads.scale, _some(heads.k, columns).mT)
    slope = None
    if heads.bias is not None:
        scores += heads.bias.tiles(batch)
    if heads.softcap:
        bent = torch.tanh(scores / heads.softcap)
        scores, slope = bent * heads.softcap, 1 - bent**2
    allowed = [] if batch.allowed is None else [batch.allowed]
    if heads.mask is not None:
        allowed.append(entries(heads.mask, batch))
    if heads.key_mask is not None:
        allowed.append(heads.key_mask[columns][:, None, :])
    if heads.documents is not None:
        of_queries, of_keys = heads.documents
        allowed.append(of_queries[rows][:, :, None] == of_keys[columns][:, None, :])
    for one in allowed:
        scores.masked_fill_(~one, -inf)
    gain = None if heads.gain is None else heads.gain.tiles(batch)
    return _Scored(scores, slope, gain, _keep(heads, scores))


def _keep(heads: Heads, like: Tensor) -> Tensor | None:
    """0 where dropout takes a weight, 1/(1-p) where it leaves one. The backward pass draws in the
    same order from a generator in the same state, and so gets the same mask."""
    if heads.random is None:
        return None
    keep = torch.empty_like(like).bernoulli_(1 - heads.dropout_p, generator=heads.random)
    return keep.div_(1 - heads.dropout_p)


def _powers(scores: Tensor, shift: Tensor) -> Tensor:
    """exp(scores - shift), in place; 0 where the shift is -inf: no key is allowed. What would be
    subnormal is 0, since products with it are slow."""
    powers = scores.sub_(shift.masked_fill(shift == -inf, inf)).exp_()
    return threshold(powers, torch.finfo(scores.dtype).tiny, 0.0, inplace=True)


def _some(x: Tensor, where: Tensor) -> Tensor:
    """(heads, T, m, ·) the rows (T, m) of (heads, n, ·)."""
    return x.index_select(1, where.flatten()).view(len(x), *where.shape, x.shape[2])


def _add(into: Tensor, where: Tensor, value: Tensor) -> None:
    """Add (heads, T, m, ·) to the rows (T, m) of (heads, n, ·)."""
    into.index_add_(1, where.flatten(), value.flatten(1, 2))
